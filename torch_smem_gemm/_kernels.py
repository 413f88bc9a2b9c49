"""The contents of the binary: its kernel table, its build settings, each kernel's resources."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from html import escape
from typing import Any, NamedTuple

import torch

from torch_smem_gemm import _C


@dataclass(frozen=True)
class KernelInfo:
    """One row of the kernel table.

    ``requires`` says in words which problems the kernel takes. ``dtypes`` lists the dtypes it is
    built for; transposes are built for element sizes: "4-byte". ``capability`` is the oldest
    compute capability whose tensor cores it runs on, and the only one if ``capability_alone``. It
    is None if the kernel needs no tensor cores. ``float16_capability`` is the same for float16,
    which older tensor cores multiply, too. ``emulated`` says whether it runs on CPU tensors,
    and so can be traced; of a kernel on tensor cores the CPU has a few variants only.
    ``float32_precision`` is the precision of its float32 arithmetic: "ieee", "fp32" or "tf32".
    ``any_k`` is False if it bounds the length of K (GEMM), ``any_operator`` if it computes sums
    only, and not mean, amax or amin. ``variants`` lists the variants that it selects from;
    ``kernel="name:variant"`` names one. All of them give the same bits.
    """

    op: str
    name: str
    summary: str
    requires: str
    dtypes: tuple[str, ...]
    variants: tuple[str, ...]
    capability: tuple[int, int] | None
    capability_alone: bool
    float16_capability: tuple[int, int] | None
    float32_precision: str
    any_k: bool
    any_operator: bool
    emulated: bool

    @property
    def on_cpu(self) -> bool:
        """Whether the kernel runs on CPU tensors in all dtypes and variants."""
        return self.capability is None

    def oldest(self, dtype: torch.dtype) -> tuple[int, int] | None:
        """Return the oldest compute capability for a dtype; None if no tensor cores are needed."""
        return self.float16_capability if dtype == torch.float16 else self.capability

    def takes(
        self, dtype: torch.dtype, device: torch.device | str, precision: str = "fp32"
    ) -> bool:
        """Whether this build of the kernel computes ``dtype`` in that precision on ``device``."""
        keeps = self.float32_precision in ("ieee", precision) or precision == "tf32"
        if dtype == torch.float32 and not keeps:
            return False
        name = str(dtype).removeprefix("torch.")
        if name not in self.dtypes and f"{dtype.itemsize}-byte" not in self.dtypes:
            return False
        oldest = self.oldest(dtype)
        if oldest is None:
            return True
        if torch.device(device).type != "cuda":
            return False
        gpu = chip(device)
        return all(
            found == oldest if self.capability_alone else found >= oldest
            for found in (divmod(gpu.capability, 10), divmod(gpu.code_capability, 10))
        )


def _info(row: dict[str, Any]) -> KernelInfo:
    row |= {key: tuple(row[key]) for key in ("dtypes", "variants")}
    for key in ("capability", "float16_capability"):
        row[key] = divmod(row[key], 10) if row[key] else None
    return KernelInfo(**row)


_TABLE = tuple(_info(row) for row in json.loads(_C.kernel_table()))
OPS = tuple(dict.fromkeys(row.op for row in _TABLE))
_OTHER_REDUCTIONS = ("mean", "amax", "amin")  # computed by the kernels of sum


class _KernelList(list[KernelInfo]):
    """A list that notebooks show as a table."""

    def _repr_html_(self) -> str:
        def row(tag: str, cells: Iterable[str]) -> str:
            return "<tr>" + "".join(f"<{tag}>{escape(cell)}</{tag}>" for cell in cells) + "</tr>"

        heads = ("op", "name", "summary", "requires", "dtypes")
        rows = ((x.op, x.name, x.summary, x.requires, ", ".join(x.dtypes)) for x in self)
        body = "".join(row("td", cells) for cells in rows)
        return f"<table><thead>{row('th', heads)}</thead><tbody>{body}</tbody></table>"


def kernels(op: str | None = None) -> list[KernelInfo]:
    """Return the kernels of one op, or all, in the order of the ladder.

    Args:
        op: "gemm", "transpose" or "sum"; "mean", "amax" and "amin" have those of "sum" with
            ``any_operator``; None is every kernel once.

    Raises ValueError for another op.
    """
    if op in _OTHER_REDUCTIONS:
        return _KernelList(row for row in _TABLE if row.op == "sum" and row.any_operator)
    if op is not None and op not in OPS:
        valid = ", ".join((*OPS, *_OTHER_REDUCTIONS))
        raise ValueError(f"smem.kernels: op is {op!r}, expected one of {valid}")
    return _KernelList(row for row in _TABLE if op in (None, row.op))


def build_info() -> dict[str, Any]:
    """Return what the binary was built with and for.

    Keys: cuda (version, or None without CUDA kernels), archs (list), torch_target, torch_built,
    compiler.
    """
    info = json.loads(_C.build_info())
    info["cuda"] = info["cuda"] or None
    info["archs"] = info["archs"].split()
    return info


class Chip(NamedTuple):
    """What dispatch knows of a GPU, in the order that C++ takes it.

    Capabilities are 10 * major + minor. That of the code is lower than the GPU's own if this build
    has code for older GPUs only, and 0 if it has none for the GPU. ``shared_bytes`` is the most
    shared memory of a block.
    """

    capability: int
    sms: int
    shared_bytes: int
    code_capability: int


def chip(device: torch.device | str | int) -> Chip:
    """Return the chip of a CUDA device; of the GPU that SMEM_CAPABILITY names, if it is set."""
    index = torch.device(device).index if not isinstance(device, int) else device
    index = torch.cuda.current_device() if index is None else index
    with torch.cuda.device(index):
        return Chip(*json.loads(_C.chip(index)))


def kernel_resources(device: int = 0) -> list[dict[str, Any]]:
    """Return the registers, shared and local memory of all kernels built for GPU ``device``.

    Keys: op, name, dtype, registers, shared_bytes, local_bytes, max_threads. Raises RuntimeError
    if the build has no CUDA kernels.
    """
    with torch.cuda.device(device):
        torch.cuda.current_stream().synchronize()  # makes the device's context current
        return json.loads(_C.kernel_resources())
