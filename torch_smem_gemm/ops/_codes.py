"""The integer codes of activations, precisions and kernels in the ops' schemas."""

from collections.abc import Callable

import torch

from torch_smem_gemm._kernels import OPS, KernelInfo, kernels

ACTIVATIONS: dict[str | None, int] = {None: 0, "relu": 1, "gelu": 2, "gelu_tanh": 3, "silu": 4}
PRECISIONS: dict[str | None, int] = {None: 0, "fp32": 1, "ieee": 2, "tf32": 3}
_FP32, _TF32 = PRECISIONS["fp32"], PRECISIONS["tf32"]

AUTO = 0  # the kernel code for the op's own choice


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
    """Return the code of a precision, with torch's setting instead of None.

    The setting is read for float32 only: products of other dtypes have one precision.
    """
    return precision or (_torchs_precision() if dtype == torch.float32 else 0)


def _torchs_precision() -> int:
    """Return the code of torch's precision setting for products of float32 CUDA tensors.

    The setting is torch.backends.cuda.matmul.fp32_precision, which torch.backends.fp32_precision,
    allow_tf32 and set_float32_matmul_precision also change. This getter gives no warning for any of
    them and takes a fifth of the public attribute's 0.9 us. Under torch.compile it is a constant;
    torch recompiles if the setting has changed.
    """
    return _TF32 if torch._C._get_fp32_precision_getter("cuda", "matmul") == "tf32" else _FP32


# The effect of torch.compiler.assume_constant_result, which would import the compiler.
_torchs_precision._dynamo_marked_constant = True  # type: ignore[attr-defined]


_VARIANT_STEP = 256  # between the codes of a kernel's variants; also in csrc/bindings/tensors.h


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

    Only the variants of the named kernel are listed, because there are many.
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
    """Return ``code`` if that GEMM kernel takes every K, else auto; used for gradients."""
    return code if _ANY_K[code % _VARIANT_STEP] else AUTO
