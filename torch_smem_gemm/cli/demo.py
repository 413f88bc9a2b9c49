"""``demo``: train a classifier of real digits with torch's Linear and with this package's."""

from __future__ import annotations

import argparse
import copy
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import torch
from torch import nn

import torch_smem_gemm as smem
from torch_smem_gemm._kernels import kernels
from torch_smem_gemm.bench import suite
from torch_smem_gemm.bench.measure import float32_products, measure_ceilings
from torch_smem_gemm.cli import _bench_plots, _bench_tables, _plots
from torch_smem_gemm.cli._digits import Digits, RowTransformer, Training, load_digits
from torch_smem_gemm.cli._files import check_writable
from torch_smem_gemm.cli._text import (
    default_device,
    device_argument,
    device_name,
    positive,
    require_extra,
    table,
)

SUMMARY = "train a digit classifier with torch's Linear and with this package's"

LEAST_ACCURACY = 0.95
EPOCHS = 15  # with fewer a training has not learnt enough to be held to that
# Both trainings compute the same sums, rounded in different orders. Trainings whose Linear outputs
# and gradients were all disturbed by 5e-7 of themselves, some units in the last place of a float32,
# left the losses of the undisturbed one by at most 7e-5 (9 seeds). This is some ten times that; a
# wrong gradient moves the losses by far more.
LOSS_TOLERANCE = 1e-3
# Of the last layer's 64-term sums, whose terms are of the order of one.
LOGIT_TOLERANCE = 1e-4


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("--device", type=device_argument, help="default: cuda where there is one")
    parser.add_argument("--epochs", type=positive, default=EPOCHS, help="default: %(default)s")
    parser.add_argument(
        "--out", type=Path, default=Path(), metavar="DIR", help="for the pictures; default: here"
    )
    parser.add_argument("--seed", type=int, default=0, help="default: %(default)s")


def run(args: argparse.Namespace) -> int:
    """Train, compare and draw; returns 1 if a training learnt too little or results differ."""
    require_extra("demo", "sklearn", "matplotlib", "rich")
    device = args.device or torch.device(default_device())
    picture = args.out / "demo.png"
    check_writable(picture)
    print(f"Training on {device_name(device)}, torch {torch.__version__}")

    digits = load_digits(device, args.seed)
    torch.manual_seed(args.seed)
    theirs = RowTransformer().to(device)
    ours = copy.deepcopy(theirs)
    converted = smem.convert(ours)
    print(f"smem.convert replaced {len(converted)} Linear modules: {', '.join(converted)}\n")

    models = {"torch.nn.Linear": theirs, "torch_smem_gemm.Linear": ours}
    with float32_products("ieee"):
        trainings = train_all(models, digits, args.epochs, args.seed)
        failures = [*compare(trainings), *try_every_kernel(ours, digits)]
        curves = {name: training.losses for name, training in trainings.items()}
        _plots.loss_curves(picture, curves, f"Handwritten digits on {device_name(device)}")
        print(f"wrote {picture}")
        if device.type == "cuda":
            failures += show_ladder(device, args.out / "ladder.png")
    for failure in failures:
        print(f"FAILED: {failure}")
    return int(bool(failures))


def train_all(
    models: Mapping[str, nn.Module], digits: Digits, epochs: int, seed: int
) -> dict[str, Training]:
    """Train each model on the same batches, with a progress bar."""
    trainings = {name: Training(model, digits, epochs, seed) for name, model in models.items()}
    with one_thread(), progress_bar(epochs * len(models)) as advance:
        # An epoch each in turn, so that whatever else the machine does slows both alike.
        for _ in range(epochs):
            for name, training in trainings.items():
                training.epoch()
                advance(name)
    return trainings


@contextmanager
def one_thread() -> Iterator[None]:
    """Let torch use one CPU thread.

    These matrices gain nothing from more, and where other programs keep the cores busy, threads
    that wait for one another make the training several times slower.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def progress_bar(steps: int) -> Iterator[Callable[[str], None]]:
    """Yield a function that moves the bar a step on, under the name of what it works at."""
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("{task.description:24}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("epochs, time left"),
        TimeRemainingColumn(),
    )
    with Progress(*columns) as progress:
        task = progress.add_task("starting", total=steps)
        yield lambda name: progress.update(task, advance=1, description=name)


def compare(trainings: dict[str, Training]) -> list[str]:
    """Print both trainings side by side; returns what is not as it should be."""
    (theirs_name, theirs), (ours_name, ours) = trainings.items()
    differences = [abs(x - y) for x, y in zip(theirs.losses, ours.losses, strict=True)]
    table(
        "Mean training loss",
        [">epoch", f">{theirs_name}", f">{ours_name}", ">difference"],
        [
            [str(epoch), f"{x:.6f}", f"{y:.6f}", f"{difference:.1e}"]
            for epoch, (x, y, difference) in enumerate(
                zip(theirs.losses, ours.losses, differences, strict=True), start=1
            )
        ],
    )
    accuracies = {name: training.accuracy() for name, training in trainings.items()}
    table(
        "Result",
        ["", ">test accuracy", ">images/s in training"],
        [
            [name, f"{accuracies[name]:.1%}", f"{training.images_per_second():,.0f}"]
            for name, training in trainings.items()
        ],
    )
    print(
        f"Largest difference of the losses: {max(differences):.1e} (tolerance {LOSS_TOLERANCE}, "
        "ten times what float32 rounding was seen to do)\n"
    )
    if ours.digits.test_images.is_cpu:
        print(
            "On a CPU both run ATen's products, so that the losses agree by construction: what "
            "follows tries\nthe kernels themselves.\n"
        )
    if len(ours.losses) < EPOCHS:
        print(f"The accuracy is not judged: that takes {EPOCHS} epochs or more.\n")
        accuracies = {}
    failures = [
        f"{name}: test accuracy {accuracy:.1%}, expected {LEAST_ACCURACY:.0%} or more"
        for name, accuracy in accuracies.items()
        if accuracy < LEAST_ACCURACY
    ]
    if not max(differences) <= LOSS_TOLERANCE:  # true for NaN too
        failures.append(f"the losses differ by {max(differences):.1e}")
    return failures


@torch.no_grad()
def try_every_kernel(model: RowTransformer, digits: Digits) -> list[str]:
    """Run the last layer on the test images with each GEMM kernel; returns those that are wrong.

    On the CPU these are the GPU's kernels too, run thread by thread.
    """
    features = model.features(digits.test_images)
    weight, bias = model.head.weight, model.head.bias
    reference = nn.functional.linear(features.double(), weight.double(), bias.double())
    rows, failures = [], []
    for info in kernels("gemm"):
        if not info.takes(features.dtype, features.device):
            continue
        logits = smem.gemm(features, weight.t(), bias=bias, kernel=info.name)
        difference = (logits - reference).abs().max().item()
        rows.append([info.name, f"{difference:.1e}", info.summary])
        if not difference <= LOGIT_TOLERANCE:  # true for NaN too
            failures.append(f"kernel {info.name}: logits off by {difference:.1e}")
    count, width = features.shape
    table(
        f"The last layer, {count} x {width} @ {width} x {len(bias)}, by every GEMM kernel",
        ["kernel", ">max difference to float64", "what it is"],
        rows,
    )
    return failures


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
