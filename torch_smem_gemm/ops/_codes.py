"""The integers that stand for choices in the ops' schemas."""

from collections.abc import Callable

import torch

from torch_smem_gemm._kernels import OPS, KernelInfo, kernels

ACTIVATIONS: dict[str | None, int] = {None: 0, "relu": 1, "gelu": 2, "gelu_tanh": 3, "silu": 4}
PRECISIONS: dict[str | None, int] = {None: 0, "fp32": 1, "ieee": 2, "tf32": 3}
_FP32, _TF32 = PRECISIONS["fp32"], PRECISIONS["tf32"]

AUTO = 0  # the kernel code that leaves the choice to the op


def _code(op: str, argument: str, value: object, codes: dict) -> int:
    try:
        return codes[value]
    except (KeyError, TypeError):
        kind = ValueError if isinstance(value, str) else TypeError
        valid = ", ".join(repr(name) for name in codes)
        raise kind(f"smem.{op}: {argument} is {value!r}, expected one of {valid}") from None


def activation_code(op: str, activation: str | None) -> int:
    """Return the code of an activation; ValueError or TypeError listing the valid ones."""
    return _code(op, "activation", activation, ACTIVATIONS)


def precision_code(op: str, precision: str | None) -> int:
    """Return the code of a precision; ValueError or TypeError listing the valid ones."""
    return _code(op, "precision", precision, PRECISIONS)


def resolved(precision: int, dtype: torch.dtype) -> int:
    """Return the code of a precision with torch's setting in the place of None.

    None is looked up for float32 alone: the others' products have one precision.
    """
    return precision or (_torchs_precision() if dtype == torch.float32 else 0)


def _torchs_precision() -> int:
    """Return the code of what torch's setting allows of products of float32 CUDA tensors.

    That is torch.backends.cuda.matmul.fp32_precision, which torch.backends.fp32_precision, and
    allow_tf32 and set_float32_matmul_precision too, decide. Whichever of them was used, this asks
    without a warning, and in a fifth of the public attribute's 0.9 us. Under torch.compile it is a
    constant, and right: torch compiles again where the setting has changed.
    """
    return _TF32 if torch._C._get_fp32_precision_getter("cuda", "matmul") == "tf32" else _FP32


# What torch.compiler.assume_constant_result does, which would import the compiler for it.
_torchs_precision._dynamo_marked_constant = True  # type: ignore[attr-defined]


_VARIANT_STEP = 256  # of the codes of a kernel's variants; C++ has it in bindings/tensors.h


def _codes_of(op: str, takes: Callable[[KernelInfo], bool] = lambda row: True) -> dict[str, int]:
    codes = {"auto": AUTO}
    for code, row in enumerate(kernels(op), 1):
        if not takes(row):
            continue
        codes[row.name] = code
        for i, variant in enumerate(row.variants, 1):
            codes[f"{row.name}:{variant}"] = code + i * _VARIANT_STEP
    return codes


_KERNEL_CODES = {op: _codes_of(op) for op in OPS}
_KERNEL_CODES |= dict.fromkeys(
    ("mean", "amax", "amin"), _codes_of("sum", lambda row: row.any_operator)
)
_ANY_K = (True, *(row.any_k for row in kernels("gemm")))


def kernel_code(op: str, kernel: str) -> int:
    """Return the code of a kernel; ValueError or TypeError listing the valid ones.

    The variants, which are many, are listed for the kernel that was named.
    """
    codes = _KERNEL_CODES[op]
    try:
        return codes[kernel]
    except (KeyError, TypeError):
        name = kernel.partition(":")[0] if isinstance(kernel, str) else ""
        variants = {known: 0 for known in codes if known.startswith(f"{name}:")}
        names = {known: 0 for known in codes if ":" not in known}
        return _code(op, "kernel", kernel, {name: 0, **variants} if variants else names)


def kernel_for_any_k(code: int) -> int:
    """Return ``code`` if that GEMM kernel takes every K, else auto: for a gradient's products."""
    return code if _ANY_K[code % _VARIANT_STEP] else AUTO
