"""Ahead-of-time compilation, modes of torch.compile, checkpointing, deterministic and inference."""

import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from helpers import CHOICES, linked_by_inductor, same_bits
from torch import Tensor, nn
from torch.utils.checkpoint import (
    CheckpointPolicy,
    checkpoint,
    create_selective_checkpoint_contexts,
)

import torch_smem_gemm as smem

OPS = torch.ops.smem
close = torch.testing.assert_close
every_choice = pytest.mark.parametrize("choice", CHOICES)
double = partial(torch.randn, dtype=torch.float64)


class Model(nn.Module):
    """Every op, of ours or of torch's."""

    def __init__(self, choice: str | None = None) -> None:
        super().__init__()
        linear = nn.Linear if choice is None else smem.Linear
        self.first, self.last = linear(6, 8), linear(8, 4)
        self.mix = nn.Parameter(torch.randn(8, 8))
        self.kernels = choice and CHOICES[choice]

    def forward(self, x: Tensor) -> Tensor:
        h = F.gelu(self.first(x))
        if self.kernels is None:
            h = F.silu(h @ self.mix)
            scale = h.sum(1, keepdim=True) + h.mT.contiguous().mean() + h.amax(1, True)
            return self.last(h * (scale - h.amin()))
        k = self.kernels
        h = smem.gemm(h, self.mix, activation="silu", kernel=k["gemm"])
        turned = smem.transpose(h, kernel=k["transpose"])
        scale = smem.sum(h, 1, keepdim=True, kernel=k["sum"]) + smem.mean(turned, kernel=k["sum"])
        scale = scale + smem.amax(h, 1, True, kernel=k["sum"])
        return self.last(h * (scale - smem.amin(h, kernel=k["sum"])))


def models(choice: str, device: str) -> tuple[Model, Model]:
    """Ours and torch's, with the same parameters."""
    ours, torchs = Model(choice), Model()
    torchs.load_state_dict(ours.state_dict())
    return ours.to(device, torch.float64), torchs.to(device, torch.float64)


def gradients(result: Tensor, model: nn.Module) -> list[Tensor]:
    return list(torch.autograd.grad(result.square().sum(), list(model.parameters())))


# ------------------------------------------------------------------------------- ahead of time


def test_fx_keeps_a_layer_as_one_call(device: str) -> None:
    model = torch.nn.Sequential(torch.nn.Linear(8, 6), torch.nn.ReLU(), torch.nn.Linear(6, 3))
    smem.convert(model.to(device))
    x = torch.randn(4, 8, device=device)
    traced = torch.fx.symbolic_trace(model)
    calls = [node.target for node in traced.graph.nodes if node.op == "call_function"]
    assert calls == [smem.linear, smem.linear]
    for rows in (x, x[:1]):
        assert same_bits(traced(rows), model(rows))
    expected, grads = (torch.autograd.grad(f(x).sum(), model[0].weight) for f in (model, traced))
    assert same_bits(expected[0], grads[0])


def test_export_with_a_dynamic_batch(device: str, tmp_path: Path) -> None:
    """Strict and not, saved and loaded; decompositions leave the ops as they are."""
    ours, torchs = models("named", device)
    x, other = double(5, 6, device=device), double(17, 6, device=device)
    for strict in (False, True):
        program = torch.export.export(
            ours, (x,), dynamic_shapes=({0: torch.export.Dim("rows", min=2)},), strict=strict
        )
        torch.export.save(program, tmp_path / "model.pt2")
        loaded = torch.export.load(tmp_path / "model.pt2")
        for exported in (program, loaded, program.run_decompositions()):
            close(exported.module()(other), torchs(other))
            names = {str(node.target) for node in exported.graph.nodes}
            assert {f"smem.{op}.default" for op in ("gemm", "transpose", "sum")} <= names


AOT_INDUCTOR = """
import sys, torch
program = torch.export.export(torch.nn.Linear(6, 8).cuda(), (torch.ones(5, 6, device="cuda"),))
path = torch._inductor.aoti_compile_and_package(program, package_path=sys.argv[1])
torch._inductor.aoti_load_package(path)
"""


@linked_by_inductor
@pytest.mark.sweep
def test_aot_inductor_package(device: str, tmp_path: Path) -> None:
    if shutil.which("g++") is None:
        pytest.skip("needs a C++ compiler")
    if device == "cuda":
        alone = [sys.executable, "-c", AOT_INDUCTOR, str(tmp_path / "alone.pt2")]
        if subprocess.run(alone, capture_output=True, check=False).returncode != 0:
            pytest.skip("this torch cannot load a package of its own ops either")
    ours, torchs = models("named", device)
    x, other = double(5, 6, device=device), double(17, 6, device=device)
    program = torch.export.export(
        ours, (x,), dynamic_shapes=({0: torch.export.Dim("rows", min=2, max=64)},)
    )
    path = torch._inductor.aoti_compile_and_package(program, package_path=str(tmp_path / "m.pt2"))
    packaged = torch._inductor.aoti_load_package(path)
    for rows in (x, other):
        close(packaged(rows), torchs(rows))


# -------------------------------------------------------------------------------- torch.compile


@contextmanager
def no_recompilation() -> Iterator[None]:
    with torch._dynamo.config.patch(error_on_recompile=True):
        yield


@every_choice
def test_training_over_batches_of_all_sizes_compiles_once(choice: str, device: str) -> None:
    torch._dynamo.reset()
    ours, torchs = models(choice, device)
    compiled = torch.compile(ours, fullgraph=True, dynamic=True, backend="aot_eager")
    with no_recompilation():
        for rows in (3, 5, 17, 64, 2):
            x = double(rows, 6, device=device)
            result, expected = compiled(x), torchs(x)
            close(result, expected)
            close(gradients(result, ours), gradients(expected, torchs))


def test_a_second_batch_size_makes_the_batch_dynamic(device: str) -> None:
    """By default torch.compile takes one more compilation, and no third."""
    torch._dynamo.reset()
    counter = torch._dynamo.testing.CompileCounter()
    ours, torchs = models("named", device)
    compiled = torch.compile(ours, fullgraph=True, backend=counter)
    for rows in (3, 5, 17, 64):
        x = double(rows, 6, device=device)
        close(compiled(x), torchs(x))
    assert counter.frame_count == 2


@pytest.mark.gpu
@every_choice
@pytest.mark.parametrize("mode", ["reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs"])
def test_modes_of_compile(choice: str, mode: str) -> None:
    torch._dynamo.reset()
    ours, torchs = models(choice, "cuda")
    compiled = torch.compile(ours, fullgraph=True, mode=mode)
    for _ in range(4):  # warm-up, recording, replays
        torch.compiler.cudagraph_mark_step_begin()
        x = double(5, 6, device="cuda")
        result, expected = compiled(x), torchs(x)
        close(result, expected)
        close(gradients(result, ours), gradients(expected, torchs))


@pytest.mark.gpu
@every_choice
def test_graphed_callables(choice: str) -> None:
    """Forward and backward as CUDA graphs that stand in for the module."""
    ours, torchs = models(choice, "cuda")
    graphed = torch.cuda.make_graphed_callables(ours, (double(5, 6, device="cuda"),))
    for _ in range(3):
        x = double(5, 6, device="cuda")
        result, expected = graphed(x), torchs(x)
        close(result, expected)
        close(gradients(result, ours), gradients(expected, torchs))


# -------------------------------------------------------------------------------- checkpointing


def stretch(x: Tensor, weight: Tensor, kernel: str) -> Tensor:
    """Two products with something in between."""
    h = smem.gemm(x, weight, activation="gelu", kernel=kernel)
    return smem.gemm(h.sin(), weight, kernel=kernel)


def torch_stretch(x: Tensor, weight: Tensor) -> Tensor:
    return F.gelu(x @ weight).sin() @ weight


class Products(torch.utils._python_dispatch.TorchDispatchMode):
    """Counts products of matrices."""

    count = 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None
    ) -> Any:
        self.count += func in SAVED
        return func(*args, **(kwargs or {}))


SAVED = [
    OPS.gemm.default,
    OPS.gemm_with_preactivation.default,  # what gemm is with an activation and gradients
    torch.ops.aten.mm.default,
]


def policy(ctx: object, op: object, *args: Any, **kwargs: Any) -> CheckpointPolicy:
    return CheckpointPolicy.MUST_SAVE if op in SAVED else CheckpointPolicy.PREFER_RECOMPUTE


@every_choice
@pytest.mark.parametrize("how", ["full", "list", "policy"])
def test_checkpoint(choice: str, how: str, device: str) -> None:
    """Selective checkpointing that saves torch.ops.smem.gemm computes no product twice."""
    kernel = CHOICES[choice]["gemm"]
    inputs = [double(4, 4, device=device, requires_grad=True) for _ in range(2)]
    contexts = {"list": SAVED, "policy": policy}.get(how)
    options = {}
    if contexts is not None:
        options["context_fn"] = partial(create_selective_checkpoint_contexts, contexts)
    with Products() as products:
        result = checkpoint(stretch, *inputs, kernel, use_reentrant=False, **options)
        grads = torch.autograd.grad(result.square().sum(), inputs)
    close(grads, torch.autograd.grad(torch_stretch(*inputs).square().sum(), inputs))
    # Two forward and two gradients of each; forward again where they are not saved. Torch stops
    # recomputing once all is there that gradients need: for its own products before the last one,
    # for an autograd.Function, which saves after it has run, behind it.
    by_aten = kernel == "auto" and device == "cpu"
    assert products.count == 6 + (how == "full") * (1 if by_aten else 2)


@every_choice
def test_compiled_selective_checkpoint(choice: str, device: str) -> None:
    torch._dynamo.reset()
    kernel = CHOICES[choice]["gemm"]

    def run(x: Tensor, weight: Tensor) -> Tensor:
        context = partial(create_selective_checkpoint_contexts, SAVED)
        return checkpoint(stretch, x, weight, kernel, use_reentrant=False, context_fn=context)

    inputs = [double(4, 4, device=device, requires_grad=True) for _ in range(2)]
    result = torch.compile(run, fullgraph=True, backend="aot_eager")(*inputs)
    grads = torch.autograd.grad(result.square().sum(), inputs)
    close(grads, torch.autograd.grad(torch_stretch(*inputs).square().sum(), inputs))


@every_choice
def test_second_order_gradients_under_checkpoint(choice: str, device: str) -> None:
    """Under a full one: torch refuses to differentiate twice what it saved selectively."""
    kernel = CHOICES[choice]["gemm"]
    inputs = [double(4, 4, device=device, requires_grad=True) for _ in range(2)]

    def second(run: Callable[[Tensor, Tensor], Tensor]) -> tuple[Tensor, ...]:
        grads = torch.autograd.grad(run(*inputs).square().sum(), inputs, create_graph=True)
        return torch.autograd.grad(sum(g.square().sum() for g in grads), inputs)

    ours = second(lambda x, w: checkpoint(stretch, x, w, kernel, use_reentrant=False))
    close(ours, second(torch_stretch))


# ---------------------------------------------------------------------------- modes of execution


@every_choice
def test_functional_call(choice: str, device: str) -> None:
    """Other parameters in place of the module's; an ensemble by vmap over stacked ones."""
    ours, torchs = models(choice, device)
    x = double(5, 6, device=device)
    state = {name: torch.randn_like(p) for name, p in ours.named_parameters()}
    call = torch.func.functional_call
    close(call(ours, state, (x,)), call(torchs, state, (x,)))
    stacked = {name: torch.stack([p, -p, 2 * p]) for name, p in state.items()}
    close(*[torch.vmap(lambda s, m=m: call(m, s, (x,)))(stacked) for m in (ours, torchs)])


@every_choice
def test_inference_mode(choice: str, device: str) -> None:
    ours, torchs = models(choice, device)
    x = double(5, 6, device=device)
    with torch.inference_mode():
        made_within = double(5, 6, device=device)
        for rows in (x, made_within):
            result = ours(rows)
            assert result.is_inference()
            assert not result.requires_grad
            close(result, torchs(rows))
        out = torch.empty(5, 6, dtype=torch.float64, device=device)
        smem.gemm(x, double(6, 6, device=device), kernel=CHOICES[choice]["gemm"], out=out)
    with pytest.raises(RuntimeError, match=r"[Ii]nference tensor"):
        ours(made_within)
    close(ours(made_within.clone()), torchs(made_within.clone()))


@pytest.fixture
def deterministic() -> Iterator[None]:
    """Operations that could differ from run to run raise; memory is filled with NaN."""
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)


@pytest.mark.usefixtures("deterministic")
@every_choice
def test_deterministic_algorithms(
    choice: str, device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing of ours is refused, and every run has the same bits: gradients too."""
    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # torch's own products ask for it
    ours, torchs = models(choice, device)
    x = double(33, 6, device=device)
    close(ours(x), torchs(x))
    result = ours(x)
    first = [result, *gradients(result, ours)]
    for _ in range(3):
        result = ours(x)
        for again, wanted in zip([result, *gradients(result, ours)], first, strict=True):
            assert same_bits(again, wanted)
