"""smem.trace: what a kernel does to memory, line by line, found by running it on the CPU."""

from __future__ import annotations

import functools
import inspect
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from torch_smem_gemm import _C
from torch_smem_gemm.ops._checks import check_transpose
from torch_smem_gemm.ops._codes import AUTO, activation_code, precision_code
from torch_smem_gemm.ops.extrema import amax, amin
from torch_smem_gemm.ops.gemm import gemm
from torch_smem_gemm.ops.sum import mean
from torch_smem_gemm.ops.sum import sum as smem_sum
from torch_smem_gemm.ops.transpose import transpose
from torch_smem_gemm.trace_report import Fault, Launch, Line, Trace


def trace(op: str | Callable, *args: Any, kernel: str = "auto", **options: Any) -> Trace:
    """Run an op's kernel on the CPU and return what it did to memory.

    The very source that is compiled for the GPU runs here, its threads one after the other, and
    every access to memory is counted as the GPU's warps would make it. It takes about a second for
    each 30 million accesses.

    >>> import torch, torch_smem_gemm as smem
    >>> report = smem.trace("transpose", torch.ones(64, 64), kernel="tiled")
    >>> report.wavefronts, report.conflicts
    (4224, 3968)

    Args:
        op: "gemm", "linear", "transpose", "sum", "mean", "amax" or "amin", or the function of that
            name.
        args: what the op takes; CUDA tensors are copied to the CPU.
        kernel: a name of ``smem.kernels(op)``; "auto": what it would be on an H200 without tensor
            cores, whose kernels cannot be traced.
        options: the op's keyword arguments, without ``out``.

    Returns:
        A :class:`Trace`; look at its ``faults`` if the kernel is new.

    Raises what the op raises, ValueError for an unknown op or kernel, TypeError where a kernel is
    asked for that ``op`` ("linear") cannot be told.
    """
    name = op if isinstance(op, str) else getattr(op, "__name__", repr(op))
    if name not in _RUNS:
        raise ValueError(f"smem.trace: op is {name!r}, expected one of {', '.join(_RUNS)}")
    if "out" in options:
        raise TypeError("smem.trace: out is not taken, the result is dropped")
    storages: set[int] = set()
    args = _on_cpu(args, storages)
    options = {key: _on_cpu(value, storages) for key, value in options.items()}
    _C.begin_trace()
    try:
        with torch.no_grad():
            _RUNS[name](args, options, kernel)
    finally:
        report = json.loads(_C.end_trace())
    given = {str(i): value for i, value in enumerate(args)} | options
    tensors = {key: value for key, value in given.items() if isinstance(value, Tensor)}
    launches = tuple(map(_launch, report["launches"]))
    return Trace(
        op=name,
        kernel=launches[0].kernel if launches else kernel,
        dtype=str(next(iter(tensors.values())).dtype).removeprefix("torch."),
        shapes={key: tuple(value.shape) for key, value in tensors.items()},
        tensor_bytes=report["tensors"],
        launches=launches,
    )


def _on_cpu(value: Any, storages: set[int]) -> Any:
    """Return tensors on the CPU, each in memory of its own: by its address an access is counted.

    ``storages`` has the addresses of those that are taken.
    """
    if isinstance(value, tuple):
        return tuple(_on_cpu(item, storages) for item in value)
    if not isinstance(value, Tensor):
        return value
    value = value.detach().cpu()
    storage = value.untyped_storage()
    if storage.data_ptr() in storages:
        storage = storage.clone()
        place = value.storage_offset(), value.shape, value.stride()
        value = torch.empty(0, dtype=value.dtype).set_(storage, *place)
    storages.add(storage.data_ptr())
    return value


def _run_gemm(args: tuple, options: dict[str, Any], kernel: str) -> None:
    def chosen(
        a: Tensor,
        b: Tensor,
        *,
        bias: Tensor | None = None,
        activation: str | None = None,
        c: Tensor | None = None,
        alpha: float = 1.0,
        beta: float = 0.0,
        out_dtype: torch.dtype | None = None,
        precision: str | None = None,
    ) -> None:
        codes = activation_code("gemm", activation), precision_code("gemm", precision)
        torch.ops.smem._gemm(a, b, bias, c, alpha, beta, *codes, AUTO, out_dtype)

    if kernel == "auto":
        chosen(*args, **options)
    else:
        gemm(*args, kernel=kernel, **options)


def _run_linear(args: tuple, options: dict[str, Any], kernel: str) -> None:
    if kernel != "auto":
        raise TypeError("smem.trace: linear chooses its kernel itself, trace gemm for a named one")

    def run(
        x: Tensor,
        weight: Tensor,
        bias: Tensor | None = None,
        *,
        activation: str | None = None,
        precision: str | None = None,
    ) -> None:
        codes = activation_code("linear", activation), precision_code("linear", precision)
        torch.ops.smem._linear(x, weight, bias, *codes)

    run(*args, **options)


def _run_transpose(args: tuple, options: dict[str, Any], kernel: str) -> None:
    def chosen(x: Tensor, dim0: int = -2, dim1: int = -1) -> None:
        check_transpose(x, dim0, dim1)
        torch.ops.smem._transpose(x, dim0, dim1, AUTO)

    if kernel == "auto":
        chosen(*args, **options)
    else:
        transpose(*args, kernel=kernel, **options)


def _run_reduction(op: Callable) -> Callable[[tuple, dict[str, Any], str], None]:
    """The bare op of a reduction chooses its kernels itself, pass by pass."""
    bare = getattr(torch.ops.smem, f"_{op.__name__}")

    def run(args: tuple, options: dict[str, Any], kernel: str) -> None:
        if kernel != "auto":
            op(*args, kernel=kernel, **options)
            return
        given = inspect.signature(op).bind(*args, **options).arguments
        dim = given.pop("dim", None)
        bare(given.pop("x"), [dim] if isinstance(dim, int) else dim, **given)

    return run


_RUNS = {
    "gemm": _run_gemm,
    "linear": _run_linear,
    "transpose": _run_transpose,
    **{op.__name__: _run_reduction(op) for op in (smem_sum, mean, amax, amin)},
}


@functools.cache
def sources() -> dict[str, list[str]]:
    """Return the lines of every file in csrc/ that kernels consist of, as they were compiled."""
    path = Path(__file__).with_name("_sources.json")
    texts = json.loads(path.read_text()) if path.exists() else {}
    return {name: text.splitlines() for name, text in texts.items()}


def _launch(report: dict[str, Any]) -> Launch:
    kernel = report["kernel"]
    return Launch(
        kernel=kernel,
        grid=tuple(report["grid"]),
        block=tuple(report["block"]),
        static_shared_bytes=report["static_shared_bytes"],
        dynamic_shared_bytes=report["dynamic_shared_bytes"],
        **report["arithmetic"],
        lines=tuple(_line(row) for row in report["rows"]),
        faults=tuple(
            Fault(kernel=kernel, **{**fault, "block": tuple(fault["block"])})
            for fault in report["faults"]
        ),
    )


def _line(row: dict[str, Any]) -> Line:
    fields = {key: value for key, value in row.items() if key != "function"}
    fields["example"] = tuple(None if at < 0 else at for at in row["example"])
    lines = sources().get(row["file"], [])
    text = lines[row["line"] - 1].strip() if row["line"] <= len(lines) else ""
    return Line(text=text, **fields)
