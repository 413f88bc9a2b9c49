"""What torch's own tools see of the ops: autocast, FLOP counter, dispatch modes, profiler."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from helpers import CHOICES, SUMS
from torch import Tensor
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode

import torch_smem_gemm as smem

OPS = torch.ops.smem
NAMED = CHOICES["named"]
every_choice = pytest.mark.parametrize("choice", CHOICES)
ROOT = Path(__file__).parent.parent


# ------------------------------------------------------------------- autocast of the reductions

REDUCED = [torch.float64, torch.float32, torch.float16, torch.bfloat16]


@pytest.mark.parametrize("kernel", ["auto", SUMS[-1]])
@pytest.mark.parametrize("op", ["sum", "mean", "amax", "amin"])
@pytest.mark.parametrize("dtype", [*REDUCED, torch.int32, torch.bool], ids=str)
@pytest.mark.parametrize("cast_to", [torch.float16, torch.bfloat16], ids=str)
def test_reductions_under_autocast(
    kernel: str, op: str, dtype: torch.dtype, cast_to: torch.dtype, device: str
) -> None:
    """torch.sum goes to float32 on CUDA; nested and disabled regions decide from the inside."""
    if op == "mean" and not dtype.is_floating_point:
        return
    x = torch.ones(3, 4, device=device, dtype=dtype, requires_grad=dtype.is_floating_point)

    def both() -> tuple[Tensor, Tensor]:
        return getattr(smem, op)(x, 1, kernel=kernel), getattr(torch, op)(x, 1)

    pairs = []
    with torch.autocast(device, dtype=cast_to):
        pairs.append(both())
        with torch.autocast(device, enabled=False):
            pairs.append(both())
            with torch.autocast(device, dtype=cast_to):
                pairs.append(both())
    for ours, torchs in pairs:
        assert ours.dtype == torchs.dtype
        torch.testing.assert_close(ours, torchs)
        if dtype.is_floating_point:
            (grad,) = torch.autograd.grad(ours.sum(), x)
            assert grad.dtype == dtype
            torch.testing.assert_close(grad, *torch.autograd.grad(torchs.sum(), x))


@pytest.mark.parametrize("kernel", ["auto", SUMS[-1]])
def test_a_dtype_that_is_asked_for_is_kept_under_autocast(kernel: str, device: str) -> None:
    x = torch.ones(3, 4, device=device, dtype=torch.float16)
    with torch.autocast(device, dtype=torch.float16):
        for dtype in (torch.float16, torch.float64):
            assert smem.sum(x, dtype=dtype, kernel=kernel).dtype == dtype
        out = torch.empty(3, device=device, dtype=torch.float16)
        assert smem.sum(x, 1, kernel=kernel, out=out) is out


def test_sum_does_not_overflow_under_autocast(device: str) -> None:
    """65504 is the largest float16; on the CPU torch has no rule, and adds in float16's range."""
    x = torch.full((1, 4), 60000.0, device=device, dtype=torch.float16)
    with torch.autocast(device, dtype=torch.float16):
        for kernel in ("auto", SUMS[-1]):
            assert torch.equal(smem.sum(x, 1, kernel=kernel), torch.sum(x, 1))


def test_torchs_rules_are_the_ones_we_follow() -> None:
    """Of our reductions, torch casts sum alone, and that on CUDA alone."""
    ruled = {
        (op, key)
        for op in ("sum.dim_IntList", "mean.dim", "amax", "amin")
        for key in ("AutocastCUDA", "AutocastCPU")
        if torch._C._dispatch_has_kernel_for_dispatch_key(f"aten::{op}", key)
    }
    assert ruled == {("sum.dim_IntList", "AutocastCUDA")}


@every_choice
def test_gradients_inside_an_autocast_region(choice: str, device: str) -> None:
    """backward() in the region, which torch advises against, still gives each leaf's dtype."""
    kernel = CHOICES[choice]["gemm"]
    a, b, bias = (torch.randn(s, device=device, requires_grad=True) for s in ((3, 4), (4, 5), (5,)))
    half = torch.randn(2, 3, 4, device=device, dtype=torch.bfloat16, requires_grad=True)
    with torch.autocast(device, dtype=torch.bfloat16):
        smem.gemm(a, b, bias=bias, activation="gelu", kernel=kernel).float().sum().backward()
        smem.gemm(half, b, kernel=kernel).float().sum().backward()
    assert [x.grad.dtype for x in (a, b, bias, half)] == [torch.float32] * 3 + [torch.bfloat16]


# ----------------------------------------------------------------------------------------- FLOP


class Model(torch.nn.Module):
    """A product of each kind: Linear on vectors and batches, batches of matrices, broadcast."""

    def __init__(self, ours: bool, kernel: str) -> None:
        super().__init__()
        self.linear = (smem.Linear if ours else torch.nn.Linear)(8, 6)
        self.weight = torch.nn.Parameter(torch.randn(6, 5))
        self.matmul = (lambda a, b: smem.gemm(a, b, kernel=kernel)) if ours else torch.matmul

    def forward(self, x: Tensor) -> Tensor:
        y = self.linear(x)
        scores = self.matmul(y, y.mT)
        return self.matmul(F.gelu(self.matmul(scores, y)), self.weight)


def flops(run: Callable[[], object]) -> int:
    with FlopCounterMode(display=False) as counter:
        run()
    return counter.get_total_flops()


@every_choice
@pytest.mark.parametrize("shape", [(4, 8), (3, 4, 8), (2, 3, 4, 8)], ids=str)
def test_flops_are_torchs(choice: str, shape: tuple, device: str) -> None:
    counts = []
    for ours in (True, False):
        model = Model(ours, CHOICES[choice]["gemm"]).to(device)
        x = torch.randn(shape, device=device, requires_grad=True)
        both_ways = flops(lambda m=model, x=x: m(x).sum().backward())
        with torch.no_grad():
            counts.append((flops(lambda m=model, x=x: m(x)), both_ways))
    assert counts[0] == counts[1]
    assert counts[0][1] == 3 * counts[0][0] > 0


def test_flops_of_direct_calls(device: str) -> None:
    a, b = torch.randn(2, 1, 3, 4, device=device), torch.randn(5, 4, 6, device=device)
    out = torch.empty(2, 5, 3, 6, device=device)
    gemm = 2 * 2 * 5 * 3 * 4 * 6
    for kernel in (0, 3):
        assert flops(lambda k=kernel: OPS.gemm(a, b, kernel_id=k)) == gemm
        assert flops(lambda k=kernel: OPS.gemm.out(a, b, kernel_id=k, out=out)) == gemm
    weight = torch.randn(7, 4, device=device)
    assert flops(lambda: OPS.linear(a, weight, None, 1)) == 2 * 2 * 3 * 4 * 7
    assert flops(lambda: OPS.linear(a[0, 0, 0], weight)) == 2 * 4 * 7
    assert flops(lambda: OPS.sum(OPS.transpose(a))) == 0


IMPORTS = {
    "counter first": "import torch.utils.flop_counter; import torch_smem_gemm",
    # With CUDA the counter imports triton, which takes longer than everything of ours.
    "counter last": (
        "before = set(sys.modules); import torch_smem_gemm\n"
        "brought = set(sys.modules) - before\n"
        "assert not [name for name in brought if 'flop_counter' in name or 'triton' in name]\n"
        "from torch.utils import flop_counter"
    ),
    "asked where it is before": (
        "import importlib.util, torch_smem_gemm\n"
        "importlib.util.find_spec('torch.utils.flop_counter')\n"
        "from torch.utils import flop_counter"
    ),
}


@pytest.mark.parametrize("order", IMPORTS)
def test_formulas_are_there_in_either_order_of_imports(order: str) -> None:
    code = (
        "import sys, torch\n"
        f"{IMPORTS[order]}\n"
        "from torch.utils.flop_counter import flop_registry\n"
        "assert torch.ops.smem.gemm in flop_registry and torch.ops.smem.linear in flop_registry\n"
        "assert not [f for f in sys.meta_path if 'smem' in type(f).__module__]\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)


# --------------------------------------------------------------------- dispatch modes and profiler


class Recorder(TorchDispatchMode):
    """The names of the ops that pass."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None
    ) -> Any:
        self.names.append(func.name())
        return func(*args, **(kwargs or {}))


def every_op(x: Tensor) -> Tensor:
    """All ops with named kernels."""
    y = smem.transpose(smem.gemm(x, x, kernel=NAMED["gemm"]), kernel=NAMED["transpose"])
    for reduce in (smem.sum, smem.mean, smem.amax, smem.amin):
        y = y + reduce(y, 0, kernel=NAMED["sum"])
    return OPS.linear(y, x)


EVERY_NAME = [
    f"smem::{op}" for op in ("gemm", "transpose", "sum", "mean", "amax", "amin", "linear")
]


@pytest.mark.parametrize("grad", [False, True])
def test_dispatch_modes_see_the_public_ops(grad: bool, device: str) -> None:
    """Also two modes at once, each of which sees every op once."""
    x = torch.randn(4, 4, device=device, requires_grad=grad)
    with Recorder() as outer, Recorder() as inner:
        result = every_op(x)
    for recorder in (outer, inner):
        assert [name for name in recorder.names if name.startswith("smem")] == EVERY_NAME
    torch.testing.assert_close(result, every_op(x))
    if grad:
        with Recorder() as recorder:
            result.sum().backward()
        products = [name for name in recorder.names if name in ("smem::gemm", "smem::linear")]
        assert len(products) == 4
        assert not [name for name in recorder.names if name.startswith("smem::_")]


def test_out_is_seen_by_dispatch_modes(device: str) -> None:
    x = torch.randn(4, 4, device=device)
    with Recorder() as recorder:
        smem.gemm(x, x, kernel=NAMED["gemm"], out=torch.empty_like(x))
    assert "smem::gemm.out" in recorder.names


@pytest.mark.parametrize("mode", ["real", "fake", "symbolic"])
def test_make_fx(mode: str, device: str) -> None:
    x = torch.randn(4, 4, dtype=torch.float64, device=device)
    graph = make_fx(every_op, tracing_mode=mode)(x)
    targets = [str(node.target) for node in graph.graph.nodes]
    assert [t.split(".")[1] for t in targets if t.startswith("smem.")] == [
        name.removeprefix("smem::") for name in EVERY_NAME
    ]
    other = torch.randn(*((6, 6) if mode == "symbolic" else (4, 4)), dtype=torch.float64)
    other = other.to(device)
    torch.testing.assert_close(graph(other), every_op(other))


def test_make_fx_of_gradients(device: str) -> None:
    def gradient(x: Tensor) -> Tensor:
        return torch.func.grad(lambda x: every_op(x).square().sum())(x)

    x, other = (torch.randn(4, 4, dtype=torch.float64, device=device) for _ in range(2))
    graph = make_fx(gradient)(x)
    torch.testing.assert_close(graph(other), gradient(other))
    assert not [n for n in graph.graph.nodes if str(n.target).startswith("smem._")]


def test_profiler_shows_the_ops(device: str) -> None:
    x = torch.randn(4, 4, device=device, requires_grad=True)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        every_op(x).sum().backward()
    names = {event.name.replace("::_", "::") for event in profile.events()}
    assert set(EVERY_NAME) <= names
    assert {f"Smem{op}Backward" for op in ("Gemm", "Transpose", "Sum", "Linear")} <= names


@pytest.mark.gpu
def test_profiler_shows_the_kernels() -> None:
    x = torch.randn(64, 64, device="cuda")
    activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    every_op(x)
    with torch.profiler.profile(activities=activities) as profile:
        every_op(x)
        torch.cuda.synchronize()
    on_gpu = torch.autograd.DeviceType.CUDA
    kernels = [event.name for event in profile.events() if event.device_type == on_gpu]
    if not kernels:
        pytest.skip("the profiler sees no kernels here")
    assert len([name for name in kernels if "smem" in name]) >= len(EVERY_NAME)
