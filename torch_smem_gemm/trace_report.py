"""The result of smem.trace: counts by line, by launch and in total."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch_smem_gemm.pipeline_trace import Pipeline

SECTOR = 32  # bytes, the unit of global memory transfers
WARP = 32  # threads
TENSOR_CORES = 4  # of an SM


@dataclass(frozen=True)
class Line:
    """The accesses of one line of a kernel to one memory.

    A request is one execution by one warp. The counts are sums over all blocks and launches.
    """

    file: str  # in csrc/
    line: int
    text: str  # of the line
    # load, store, atomic, copy_from and copy_to (cp.async), box_from and box_to (TMA), wgmma, mma,
    # barrier, mbarrier_wait, warp_barrier, shuffle
    action: str
    memory: str  # the tensor's name, "shared", or "" for mma, barriers and shuffles
    bytes_a_lane: int  # of a shuffle and of a whole box, too; 0 for barriers
    requests: int
    # Threads that took part, over all requests; boxes, counted in each block that receives them.
    lanes: int
    distinct_bytes: int  # over requests; bytes shared by lanes of a warp count once
    sectors: int  # global memory: 32-byte sectors touched, summed over requests
    wavefronts: int  # shared memory: passes through the banks
    conflicts: int  # wavefronts beyond those that the access width needs
    worst: int  # most sectors or wavefronts of one request
    # The same if the compiler merges up to four loads of this line, as it does in unrolled loops
    # over aligned neighbours (LDS.128); equal to the above if it cannot.
    merged_requests: int
    merged_wavefronts: int
    merged_conflicts: int
    example: tuple[int | None, ...]  # byte offsets of the lanes of the worst request
    array: str = ""  # the array in shared memory, where its name is known
    ready: int = 0  # of waits at mbarriers: how many found the phase complete
    tensor_flop: int = 0  # of wgmma and mma
    # The same in cycles of one of an SM's four tensor cores at Hopper's full rate: 1024 FLOP a
    # cycle of 16-bit numbers, 512 in tf32.
    tensor_cycles: int = 0

    @property
    def is_bulk(self) -> bool:
        """Whether TMA or a tensor core accesses the memory, and no lane."""
        return self.action in BULK

    @property
    def bytes(self) -> int:
        """Bytes that were loaded or stored; of boxes in global memory, those inside the tensor."""
        if self.is_bulk and self.memory != "shared":
            return self.distinct_bytes
        return self.lanes * self.bytes_a_lane

    @property
    def sectors_a_request(self) -> float:
        """32-byte sectors per request; 4 is the minimum for 32 adjacent elements of 4 bytes."""
        return self.sectors / self.requests

    @property
    def least_sectors_a_request(self) -> int:
        """32-byte sectors per request if its bytes were contiguous."""
        return math.ceil(self.distinct_bytes / self.requests / SECTOR)

    @property
    def wasted_sectors(self) -> int:
        """32-byte sectors beyond those of contiguous bytes."""
        return self.sectors - self.requests * self.least_sectors_a_request if self.sectors else 0

    @property
    def wavefronts_a_request(self) -> float:
        """Passes through the banks per request; 1 is the minimum up to 4 bytes per lane."""
        return self.wavefronts / self.requests


@dataclass(frozen=True)
class Fault:
    """An error that would occur on the GPU; the first of ``count`` occurrences."""

    kind: str
    kernel: str
    file: str
    line: int
    block: tuple[int, int, int]
    threads: str
    detail: str
    count: int

    def __str__(self) -> str:
        times = f" ({self.count} times)" if self.count > 1 else ""
        return (
            f"{self.kind} in {self.kernel} at {self.file}:{self.line}, block {self.block}, "
            f"thread {self.threads}: {self.detail}{times}"
        )


@dataclass(frozen=True)
class Launch:
    """One launch: its shape, its lines, its arithmetic (operations per thread, summed)."""

    kernel: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    static_shared_bytes: int
    dynamic_shared_bytes: int
    fma: int
    add: int
    multiply: int
    divide: int
    special: int  # exp, erf, tanh: not in ``flop``
    tensors: tuple[str, ...]  # of the op: the names that a line's ``memory`` can have
    lines: tuple[Line, ...]
    faults: tuple[Fault, ...]
    sample: int | None = None  # the number of blocks that were run, if not all
    pipeline: Pipeline | None = None  # of a kernel that loads by TMA

    @property
    def blocks(self) -> int:
        """Blocks in the grid."""
        return math.prod(self.grid)

    @property
    def threads(self) -> int:
        """Threads per block."""
        return math.prod(self.block)

    @property
    def tensor_cycles(self) -> float:
        """Cycles of an SM, its tensor cores at Hopper's full rate, summed over all blocks."""
        return self.count("tensor_cycles") / TENSOR_CORES

    @property
    def shared_bytes(self) -> int:
        """Bytes of shared memory per block."""
        return self.static_shared_bytes + self.dynamic_shared_bytes

    @property
    def flop(self) -> int:
        """Floating-point operations; a fused multiply-add is two."""
        return 2 * self.fma + self.add + self.multiply + self.divide

    @property
    def barriers(self) -> float:
        """Barriers that a block passes."""
        warps = -(-self.threads // WARP)
        run = self.sample or self.blocks
        return self.count("requests", actions=["barrier"]) / warps / run

    def count(
        self, what: str, *, actions: Sequence[str] | None = None, memory: str | None = None
    ) -> int:
        """Sum one field of the lines.

        Args:
            what: a number of :class:`Line`, such as "bytes" or "wavefronts".
            actions: count only these actions.
            memory: "global" for all tensors, "constant" for all variables in ``__constant__``
                memory, "shared", or a tensor's name; "" for barriers and shuffles.

        Raises ValueError for any other name.
        """
        _check_name("what", what, COUNTS)
        for action in actions or ():
            _check_name("actions", action, ACTIONS)
        if memory is not None:
            _check_name("memory", memory, ("", "global", "constant", "shared", *self.tensors))
        return sum(
            getattr(line, what)
            for line in self.lines
            if (actions is None or line.action in actions)
            and (memory is None or memory in (line.memory, _space(line)))
        )


def finite_or_none(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values for JSON, which has no infinity."""
    return {
        name: None if isinstance(value, float) and not math.isfinite(value) else value
        for name, value in values.items()
    }


def _check_name(argument: str, name: str, valid: Sequence[str]) -> None:
    if name not in valid:
        expected = ", ".join(map(repr, valid))
        raise ValueError(f"smem.Trace: {argument} is {name!r}, expected one of {expected}")


def _space(line: Line) -> str:
    if line.memory in ("", "shared"):
        return line.memory
    # __constant__ memory has a cache of its own, and no sectors.
    return "constant" if line.action == "load" and not line.sectors else "global"


LOADS = ("load", "copy_from", "box_from", "wgmma")
STORES = ("store", "copy_to", "box_to")
BULK = ("box_from", "box_to", "wgmma")
# Who loads and stores shared memory.
SHARED_USERS = {
    "threads": ("load", "store", "atomic", "copy_from", "copy_to"),
    "TMA": ("box_from", "box_to"),
    "wgmma": ("wgmma",),
}
ACTIONS = (
    *(*LOADS, *STORES, "mma", "atomic"),
    *("barrier", "mbarrier_wait", "warp_barrier", "shuffle"),
)
COUNTS = (
    *("requests", "lanes", "bytes", "distinct_bytes", "sectors", "wavefronts", "conflicts"),
    *("ready", "merged_requests", "merged_wavefronts", "merged_conflicts"),
    *("tensor_flop", "tensor_cycles"),
)


@dataclass(frozen=True)
class Trace:
    """The result of :func:`trace`. The totals are over all launches."""

    op: str
    kernel: str
    dtype: str
    shapes: dict[str, tuple[int, ...]]  # of the tensors that were given, by position or name
    tensor_bytes: dict[str, int]  # of each tensor, from its first to its last element
    launches: tuple[Launch, ...]
    # The lines of each file that is not a source of this package.
    sources: dict[str, list[str]] = field(default_factory=dict, repr=False)

    @property
    def faults(self) -> tuple[Fault, ...]:
        """All errors that would occur on the GPU; empty for every kernel of this package."""
        return tuple(fault for launch in self.launches for fault in launch.faults)

    @property
    def flop(self) -> int:
        """Floating-point operations; a fused multiply-add is two."""
        return sum(launch.flop for launch in self.launches)

    @property
    def global_bytes_loaded(self) -> int:
        """Bytes that threads and TMA loaded from global memory or its caches."""
        return self.count("bytes", actions=LOADS, memory="global")

    @property
    def global_bytes_stored(self) -> int:
        """Bytes that threads and TMA stored to global memory."""
        return self.count("bytes", actions=STORES, memory="global")

    @property
    def sector_bytes(self) -> int:
        """Bytes of all 32-byte sectors that warps accessed, requested from the L1 cache."""
        return SECTOR * self.count("sectors")

    @property
    def shared_bytes_loaded(self) -> int:
        """Bytes that threads, TMA and wgmma loaded from shared memory."""
        return self.count("bytes", actions=LOADS, memory="shared")

    @property
    def shared_bytes_stored(self) -> int:
        """Bytes that were stored to shared memory, with those of cp.async and TMA."""
        return self.count("bytes", actions=STORES, memory="shared")

    @property
    def tensor_flop(self) -> int:
        """Those of the floating-point operations that tensor cores do."""
        return self.count("tensor_flop")

    @property
    def tensor_cycles(self) -> float:
        """Cycles of an SM, its tensor cores at Hopper's full rate, summed over all blocks."""
        return sum(launch.tensor_cycles for launch in self.launches)

    @property
    def wavefronts(self) -> int:
        """Passes of threads, TMA and wgmma through the banks of shared memory."""
        return self.count("wavefronts")

    @property
    def conflicts(self) -> int:
        """Additional wavefronts due to bank conflicts."""
        return self.count("conflicts")

    @property
    def barriers(self) -> float:
        """Barriers that a block passes, summed over the launches."""
        return sum(launch.barriers for launch in self.launches)

    @property
    def intensity(self) -> float:
        """FLOP per byte that is loaded from or stored to global memory."""
        moved = self.global_bytes_loaded + self.global_bytes_stored
        return self.flop / moved if moved else math.inf

    def count(
        self, what: str, *, actions: Sequence[str] | None = None, memory: str | None = None
    ) -> int:
        """Sum one field of all lines, as :meth:`Launch.count` does."""
        if memory is not None:  # there may be no launch to say so
            _check_name("memory", memory, ("", "global", "constant", "shared", *self.tensor_bytes))
        return sum(launch.count(what, actions=actions, memory=memory) for launch in self.launches)

    def times_read(self, tensor: str) -> float:
        """Return how often each byte of a tensor is loaded on average; 0 for an empty tensor.

        Raises ValueError for a name that is not in ``tensor_bytes``.
        """
        _check_name("tensor", tensor, tuple(self.tensor_bytes))
        size = self.tensor_bytes[tensor]
        return self.count("bytes", actions=LOADS, memory=tensor) / size if size else 0.0

    def totals(self) -> dict[str, float]:
        """The totals by name."""
        names = (
            "flop",
            "tensor_flop",
            "tensor_cycles",
            "intensity",
            "global_bytes_loaded",
            "global_bytes_stored",
            "sector_bytes",
            "shared_bytes_loaded",
            "shared_bytes_stored",
            "wavefronts",
            "conflicts",
            "barriers",
        )
        return {name: getattr(self, name) for name in names}

    def rows(self) -> list[dict[str, Any]]:
        """Return a dict per line, for ``pandas.DataFrame(trace.rows())``."""
        return [
            {
                "kernel": launch.kernel,
                "launch": number,
                **dataclasses.asdict(line),
                "bytes": line.bytes,
            }
            for number, launch in enumerate(self.launches)
            for line in launch.lines
        ]

    def to_dict(self) -> dict[str, Any]:
        """Return everything but the sources, with the totals, as JSON-compatible values.

        Without traffic the intensity is None.
        """
        values = dataclasses.asdict(self)
        del values["sources"]
        return {**values, "totals": finite_or_none(self.totals())}

    def to_html(self, path: str | Path | None = None, *, device: str = "H200") -> str:
        """Return the trace as an HTML page, which is one file and loads nothing.

        The page shows faults, totals, occupancy and roofline, and the source with the counters of
        every line. A click on a line opens the banks or sectors of its worst request.

        Args:
            path: a file to write the page to; None writes none.
            device: the GPU to judge for, any name that ``smem.analysis.device`` accepts. It
                need not be present.

        Raises ValueError for an unknown device, OSError if the file cannot be written.
        """
        from torch_smem_gemm.html_report import page

        text = page(self, device)
        if path is not None:
            Path(path).write_text(text, encoding="utf-8")
        return text

    def __str__(self) -> str:
        """Return the lines with their counters, and the faults, as ``print`` shows them."""
        from torch_smem_gemm.cli._trace_text import trace_text

        return trace_text(self)

    def _repr_html_(self) -> str:
        """Return the totals, faults and lines as HTML, which notebooks show."""
        from torch_smem_gemm.html_report import summary

        return summary(self)
