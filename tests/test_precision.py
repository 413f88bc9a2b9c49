"""``precision``: what reaches the kernels, and when torch's own setting decides it."""

import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from functorch.compile import make_boxed_func
from helpers import CHOICES, GEMMS, normal, same_bits
from torch import Tensor
from torch._dynamo.backends.common import aot_autograd
from torch.utils._python_dispatch import TorchDispatchMode

import torch_smem_gemm as smem
from torch_smem_gemm.ops import _codes

ROOT = Path(__file__).resolve().parent.parent
CODES = _codes.PRECISIONS
FP32, TF32 = CODES["fp32"], CODES["tf32"]
matmul = torch.backends.cuda.matmul


@pytest.fixture(autouse=True)
def _torchs_setting_stays() -> Iterator[None]:
    before = torch.backends.fp32_precision, matmul.fp32_precision
    yield
    torch.backends.fp32_precision, matmul.fp32_precision = before


class Precisions(TorchDispatchMode):
    """The precisions with which gemm and linear are called within it."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[int] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        names = [argument.name for argument in func._schema.arguments]
        if func.namespace == "smem" and "precision" in names:
            given = dict(zip(names, args, strict=False)) | (kwargs or {})
            self.seen.append(given.get("precision", 0))
        return func(*args, **(kwargs or {}))


def seen(call: Callable[[], object]) -> list[int]:
    """The precisions that ``call`` asks kernels for."""
    with Precisions() as mode:
        call()
    return mode.seen


def asked_for(dtype: torch.dtype = torch.float32, precision: str | None = None) -> list[int]:
    """What smem.gemm, into ``out`` too, asks a kernel for."""
    a, out = normal(4, 4, dtype=dtype), torch.empty(4, 4, dtype=dtype)
    return seen(
        lambda: (
            smem.gemm(a, a, precision=precision, kernel=GEMMS[0]),
            smem.gemm(a, a, precision=precision, kernel=GEMMS[0], out=out),
        )
    )


def test_none_is_fp32_unless_torch_allows_tf32() -> None:
    assert matmul.fp32_precision != "tf32"
    assert asked_for() == [FP32, FP32]
    matmul.fp32_precision = "tf32"
    assert asked_for() == [TF32, TF32]
    matmul.fp32_precision = "ieee"
    assert asked_for() == [FP32, FP32]


def test_what_is_asked_for_is_not_torchs_business() -> None:
    for setting in ("ieee", "tf32"):
        matmul.fp32_precision = setting
        for name in ("fp32", "ieee", "tf32"):
            assert asked_for(precision=name) == [CODES[name]] * 2


def test_only_float32_asks() -> None:
    matmul.fp32_precision = "tf32"
    for dtype in (torch.float64, torch.float16, torch.bfloat16):
        assert asked_for(dtype) == [0, 0]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert asked_for()[0] == 0
    a = normal(4, 4)
    assert seen(lambda: torch.ops.smem.gemm(a, a, kernel_id=1)) == [0]  # which is fp32


# A process each: the settings of the old kind cannot be taken back without a warning.
SETTINGS = {
    "matmul.fp32_precision = 'tf32'": True,
    "matmul.fp32_precision = 'ieee'": False,
    "torch.backends.fp32_precision = 'tf32'": True,
    "torch.backends.fp32_precision = 'ieee'": False,
    "torch.backends.fp32_precision = 'tf32'; matmul.fp32_precision = 'ieee'": False,
    "matmul.allow_tf32 = True": True,
    "matmul.allow_tf32 = False": False,
    "torch.set_float32_matmul_precision('high')": True,
    "torch.set_float32_matmul_precision('highest')": False,
    "matmul.fp32_precision = 'tf32'; matmul.allow_tf32 = False": False,
    "matmul.allow_tf32 = True; matmul.fp32_precision = 'ieee'": False,
    "": False,
}


@pytest.mark.sweep
def test_every_setting_of_torch_without_a_warning() -> None:
    code = (
        "import sys, warnings, torch, torch_smem_gemm as smem;"
        "from torch_smem_gemm.ops._codes import resolved;"
        "matmul = torch.backends.cuda.matmul;"
        "warnings.simplefilter('ignore'); exec(sys.argv[1]); warnings.simplefilter('error');"
        "torch.set_warn_always(True);"
        "a = torch.ones(2, 2); smem.gemm(a, a, kernel='naive');"
        "print(resolved(0, torch.float32))"
    )
    processes = {
        setting: subprocess.Popen(
            [sys.executable, "-c", code, setting], text=True, stdout=subprocess.PIPE, cwd=ROOT
        )
        for setting in SETTINGS
    }
    found = {setting: process.communicate()[0].strip() for setting, process in processes.items()}
    assert found == {setting: str(TF32 if allows else FP32) for setting, allows in SETTINGS.items()}


@pytest.mark.parametrize("activation", [None, "silu"])
def test_the_backward_keeps_the_forwards_precision(activation: str | None) -> None:
    a, b = (normal(4, 4).requires_grad_() for _ in range(2))
    matmul.fp32_precision = "tf32"
    result = smem.gemm(a, b, activation=activation, kernel=GEMMS[0]).sum()
    matmul.fp32_precision = "ieee"
    assert seen(lambda: torch.autograd.grad(result, (a, b))) == [TF32, TF32]


@pytest.mark.parametrize("by", ["dynamo", "aot_autograd"])
def test_compiled_code_follows_the_setting(by: str) -> None:
    """Forward and backward; compiled again where the setting is new, and not where it is known."""
    torch._dynamo.reset()
    compiled: list[int] = []
    ran: list[int] = []

    def compiler(graph: torch.fx.GraphModule, inputs: object) -> Callable:
        found = [
            node.args[names.index("precision")]
            for node in graph.graph.nodes
            if node.target is torch.ops.smem.gemm.default
        ]
        compiled.extend(found)

        def run(*inputs: Tensor) -> object:
            ran.extend(found)
            return graph(*inputs)

        return run if by == "dynamo" else make_boxed_func(run)

    names = [argument.name for argument in torch.ops.smem.gemm.default._schema.arguments]
    backend = compiler if by == "dynamo" else aot_autograd(fw_compiler=compiler)
    function = torch.compile(
        lambda a, b: smem.gemm(a, b, kernel=GEMMS[0]), fullgraph=True, backend=backend
    )
    a, b = (normal(4, 4).requires_grad_(by == "aot_autograd") for _ in range(2))
    products = 3 if by == "aot_autograd" else 1
    for setting in ("ieee", "tf32", "ieee", "tf32"):
        matmul.fp32_precision = setting
        result = function(a, b)
        matmul.fp32_precision = "none"
        if by == "aot_autograd":
            result.sum().backward()
    assert compiled == [FP32] * products + [TF32] * products
    assert ran == 2 * compiled


@pytest.mark.parametrize("choice", CHOICES)
def test_modules_and_linear(choice: str, device: str) -> None:
    """Every kernel on CPU tensors, and every SIMT kernel, keeps each precision: the same bits."""
    x, weight = normal(3, 8, device=device), normal(5, 8, device=device)
    kernel = CHOICES[choice]["gemm"]
    if choice == "auto" and device == "cuda":
        pytest.skip("auto may take different kernels")
    for precision in ("fp32", "ieee", "tf32"):
        result = smem.gemm(x, weight.mT, precision=precision, kernel=kernel)
        assert same_bits(result, smem.gemm(x, weight.mT, kernel=kernel))
        if device == "cpu" or precision != "tf32":  # on a GPU, linear's tf32 is tensor cores'
            assert same_bits(smem.linear(x, weight, precision=precision), smem.linear(x, weight))


@pytest.mark.parametrize("op", ["gemm", "linear"])
@pytest.mark.parametrize(("argument", "last"), [("activation", 4), ("precision", 3)])
def test_unknown_code(op: str, argument: str, last: int, device: str) -> None:
    """Direct calls choose by number."""
    x = torch.ones(2, 2, device=device)
    message = rf"^smem\.{op}: {argument} 9 is unknown, expected 0 to {last}$"
    for name in (op, f"_{op}"):
        with pytest.raises(RuntimeError, match=message):
            getattr(torch.ops.smem, name)(x, x, **{argument: 9})


def test_no_warning_in_a_session_of_the_old_kind() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert _codes.resolved(0, torch.float32) in (FP32, TF32)


@pytest.mark.gpu
@pytest.mark.parametrize("setting", ["ieee", "tf32"])
def test_on_the_gpu_torchs_setting_is_what_the_word_gives(setting: str) -> None:
    matmul.fp32_precision = setting
    a, b = (normal(128, 128, device="cuda") for _ in range(2))
    word = "tf32" if setting == "tf32" else "fp32"
    assert same_bits(smem.gemm(a, b), smem.gemm(a, b, precision=word))
    assert same_bits(smem.linear(a, b), smem.linear(a, b, precision=word))
