"""``demo``: train two models with torch's Linear layers and with this package's, and compare."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import torch
from torch import nn

import torch_smem_gemm as smem
from torch_smem_gemm._kernels import kernels
from torch_smem_gemm.bench import suite
from torch_smem_gemm.bench.measure import float32_products, measure_ceilings
from torch_smem_gemm.cli import _bench_plots, _bench_tables, _demo_picture, _digits, _gpt
from torch_smem_gemm.cli._files import check_writable
from torch_smem_gemm.cli._side_by_side import Comparison
from torch_smem_gemm.cli._text import (
    default_device,
    device_argument,
    device_name,
    positive,
    require_extra,
    table,
)

SUMMARY = "train two models with torch's Linear layers and with this package's"

# Of the last layer's 64-term sums, whose terms are of the order of one.
LOGIT_TOLERANCE = 1e-4

ON_A_GPU = """\
The digits show that the results agree: their matrices are too small to gain
from faster products. The GPT's are wide enough.
"""
ON_A_CPU = """\
On a CPU both models run ATen's products: the losses agree by construction,
and nothing is faster. What the package offers here is to run and to trace its
CUDA kernels without a GPU.
"""
NEXT = """\
What to try next:
  python -m torch_smem_gemm explain transpose --kernel tiled
      runs a CUDA kernel on the CPU and shows its bank conflicts, line by line
  smem.trace("transpose", torch.randn(64, 64), kernel="tiled").conflicts
      counts them in Python, and finds races and accesses out of bounds
  python -m torch_smem_gemm bench all --quick
      checks the ops against float64 and times them beside torch"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("--device", type=device_argument, help="default: cuda where there is one")
    parser.add_argument(
        "--epochs",
        type=positive,
        default=_digits.EPOCHS,
        help="of the digits; default: %(default)s",
    )
    parser.add_argument(
        "--out", type=Path, default=Path(), metavar="DIR", help="for the pictures; default: here"
    )
    parser.add_argument("--seed", type=int, default=0, help="default: %(default)s")
    parser.add_argument(
        "--details",
        action="store_true",
        help="also the losses of each epoch, the error of each kernel and, on a GPU, their times",
    )


def run(args: argparse.Namespace) -> int:
    """Train, compare and draw; returns 1 if a training learnt too little or results differ."""
    require_extra("demo", "matplotlib")
    device = args.device or torch.device(default_device())
    picture = args.out / "demo.png"
    check_writable(picture)
    machine = f"{device_name(device)}, torch {torch.__version__}"
    print(f"Training on {machine}\n", flush=True)

    with float32_products("ieee"):
        with one_thread():
            digits = _digits.compare(device, args.epochs, args.seed)
            gpt = _gpt.compare(device, _gpt.SIZES[device.type], args.seed)
        kernel_errors = try_every_kernel(digits)
        print_results(digits, gpt)
        failures = [*digits.failures(), *gpt.failures(), *judge_kernels(kernel_errors)]
        _demo_picture.draw(picture, digits, gpt, machine)
        print(f"wrote {picture}\n")
        if args.details:
            print_details(digits.comparison, kernel_errors)
            if device.type == "cuda":
                failures += show_ladder(device, args.out / "ladder.png")
    print(ON_A_GPU if device.type == "cuda" else ON_A_CPU)
    print(NEXT)
    for failure in failures:
        print(f"FAILED: {failure}")
    return int(bool(failures))


@contextmanager
def one_thread() -> Iterator[None]:
    """Let torch use one CPU thread.

    These matrices gain nothing from more threads. On a loaded machine, threads that wait for one
    another make the training several times slower.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def print_results(digits: _digits.Result, gpt: _gpt.Result) -> None:
    """Print both comparisons as a table, and a line for what only one of them has."""
    both = [digits.comparison, gpt.comparison]
    rows = {
        "model": [one.model for one in both],
        "trained": [f"{len(one.ours.losses)} {one.turn}s" for one in both],
        "Linear layers converted": [str(one.converted) for one in both],
        "first loss": [f"{one.ours.losses[0]:.3f}" for one in both],
        "last loss": [f"{one.ours.losses[-1]:.3f}" for one in both],
        "largest loss difference": [f"{max(one.differences):.1e}" for one in both],
        "tolerance": [f"{one.tolerance:.1e}" for one in both],
        "torch": [f"{one.rate(one.theirs):,.0f} {one.item}/s" for one in both],
        "torch_smem_gemm": [f"{one.rate(one.ours):,.0f} {one.item}/s" for one in both],
        "times as fast": [f"{one.speed_up:.2f}" for one in both],
    }
    table(
        "Training by torch.nn.Linear and by torch_smem_gemm.Linear, float32",
        ["", *(f">{one.name}" for one in both)],
        [[label, *cells] for label, cells in rows.items()],
    )
    print(f"Test accuracy, digits: torch {digits.theirs:.1%}, torch_smem_gemm {digits.ours:.1%}")
    if not digits.is_judged:
        print(f"  (the accuracy is not judged: that takes {_digits.EPOCHS} epochs or more)")
    print(f"{gpt.question}:")
    print(f"  torch: {gpt.theirs}; torch_smem_gemm: {gpt.ours}")


class KernelError(NamedTuple):
    """The largest difference of a kernel's logits from float64's."""

    name: str
    difference: float
    summary: str


@torch.no_grad()
def try_every_kernel(digits: _digits.Result) -> list[KernelError]:
    """Run the converted model's last layer on the test images with each GEMM kernel.

    On the CPU these are the GPU's kernels too, run thread by thread.
    """
    features = digits.model.features(digits.data.test_images)
    weight, bias = digits.model.head.weight, digits.model.head.bias
    reference = nn.functional.linear(features.double(), weight.double(), bias.double())
    errors = []
    for info in kernels("gemm"):
        if info.takes(features.dtype, features.device):
            logits = smem.gemm(features, weight.t(), bias=bias, kernel=info.name)
            difference = (logits - reference).abs().max().item()
            errors.append(KernelError(info.name, difference, info.summary))
    return errors


def judge_kernels(errors: Sequence[KernelError]) -> list[str]:
    """Print how many kernels are right; returns those that are not."""
    wrong = [one for one in errors if not one.difference <= LOGIT_TOLERANCE]  # NaN among them
    right = len(errors) - len(wrong)
    print(f"Last layer, digits, by each GEMM kernel: {right} of {len(errors)} right")
    return [f"kernel {one.name}: logits off by {one.difference:.1e}" for one in wrong]


def print_details(digits: Comparison, errors: Sequence[KernelError]) -> None:
    """Print the losses of each epoch and the error of each kernel."""
    losses = zip(digits.theirs.losses, digits.ours.losses, digits.differences, strict=True)
    table(
        "Mean training loss of the digits",
        [">epoch", ">torch", ">torch_smem_gemm", ">difference"],
        [
            [str(epoch), f"{theirs:.6f}", f"{ours:.6f}", f"{difference:.1e}"]
            for epoch, (theirs, ours, difference) in enumerate(losses, start=1)
        ],
    )
    table(
        "The digits' last layer by each GEMM kernel",
        ["kernel", ">max difference to float64", "what it is"],
        [[one.name, f"{one.difference:.1e}", one.summary] for one in errors],
    )


def show_ladder(device: torch.device, picture: Path) -> list[str]:
    """Time the GEMM ladders, print and draw them; returns the kernels that are wrong."""
    ceilings = measure_ceilings(device)
    print(_bench_tables.ceilings_text(ceilings))
    jobs = [job for job in suite.ladder_jobs(device) if job.op == "gemm"]
    rows = [row for job in jobs for found in suite.run(job, ceilings, device) for row in found]
    _bench_tables.print_group(rows)
    _bench_plots.ladders(picture, rows, device_name(device))
    print(f"wrote {picture}")
    return [f"{row.problem}, {row.name}: {row.detail}" for row in rows if row.status == "wrong"]
