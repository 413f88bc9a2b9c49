"""``explain --ladder``: the kernels of an op on one problem, side by side."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from torch_smem_gemm._kernels import kernels
from torch_smem_gemm.analysis import Device
from torch_smem_gemm.cli._explain_kernel import Explained, judge, worst_ways
from torch_smem_gemm.cli._explain_problem import Problem
from torch_smem_gemm.cli._explain_text import bytes_text
from torch_smem_gemm.cli._text import table
from torch_smem_gemm.cli._trace_text import faults_text, without_empty
from torch_smem_gemm.trace_report import LOADS, STORES, Trace


@dataclasses.dataclass(frozen=True)
class Rung:
    """A kernel of the ladder; ``explained`` is None where it refused, ``refusal`` then says why."""

    kernel: str
    explained: Explained | None
    refusal: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return everything as JSON can hold it."""
        return {
            "kernel": self.kernel,
            "refusal": self.refusal,
            **(self.explained.to_dict() if self.explained else {}),
        }


def climb(problem: Problem, names: Sequence[str], device: Device) -> list[Rung]:
    """Trace the kernels of those names, in their order."""
    rungs = []
    for name in names:
        try:
            rungs.append(Rung(name, judge(problem.trace(name), device)))
        except RuntimeError as error:
            # A kernel that cannot take the problem says so by its name; the rest is no refusal.
            if not str(error).startswith(f"smem.{problem.op}: kernel "):
                raise
            rungs.append(Rung(name, None, str(error).splitlines()[0]))
    return rungs


def ladder_names(op: str) -> list[str]:
    """All kernels of an op that can be traced, in the order of the ladder."""
    return [row.name for row in kernels(op) if row.on_cpu]


def show_ladder(rungs: Sequence[Rung], title: str, device: Device) -> None:
    """Print a row per kernel."""
    explained = [rung.explained for rung in rungs if rung.explained]
    traces = [one.trace for one in explained]
    names = dict.fromkeys(name for trace in traces for name in trace.tensor_bytes)
    read = [name for name in names if any(_times_read(trace, name) for trace in traces)]
    heads = [
        *("kernel", ">loaded", ">sectors/load", ">/store"),
        *(f">{name} read" for name in read),
        *(">wavefronts", ">merged", ">conflicts", ">n-way", ">barriers", ">FLOP/B"),
        *(">registers", ">occupancy", ""),
    ]
    rows = []
    for rung in rungs:
        if rung.explained:
            rows.append([rung.kernel, *_cells(rung.explained, read)])
        else:
            rows.append([rung.kernel, "n/a", *[""] * (len(heads) - 2)])
    table(f"{title} on {device.name}", *without_empty(heads, rows))
    print(
        "sectors: 32 bytes of global memory that a warp's load or store touches. wavefronts: "
        "passes through the banks;\nmerged: if the compiler makes one 16-byte load of several. "
        "barriers: of a block. FLOP/B: by what threads load and store.\n"
    )
    for rung in rungs:
        if rung.explained is None:
            print(f"{rung.kernel}: {rung.refusal}")
        elif rung.explained.residency.refusal:
            print(f"{rung.kernel}: {rung.explained.residency.refusal}")
    for unknown in dict.fromkeys(one.residency.unknown for one in explained):
        if unknown:
            print(f"Registers are not known, occupancy leaves them out: {unknown}.")
    faulty = [one.trace for one in explained if one.trace.faults]
    for trace in faulty:
        print(faults_text(trace))
    if not faulty:
        print("No faults in any of them.")


def _times_read(trace: Trace, tensor: str) -> float:
    """Return 0 for a kernel without that tensor: some sums have no partial sums."""
    return trace.times_read(tensor) if tensor in trace.tensor_bytes else 0.0


def _cells(explained: Explained, read: Sequence[str]) -> list[str]:
    trace, fit = explained.trace, explained.residency
    merged = trace.count("merged_wavefronts", memory="shared")
    return [
        bytes_text(trace.global_bytes_loaded),
        _sectors(trace, LOADS),
        _sectors(trace, STORES),
        *(f"{_times_read(trace, name):.4g} x" for name in read),
        f"{trace.wavefronts:,}",
        f"{merged:,}" if merged != trace.wavefronts else "",
        f"{trace.conflicts:,}",
        str(worst_ways(trace) or ""),
        f"{trace.barriers:g}",
        f"{trace.intensity:.3g}" if trace.flop else "",
        str(fit.resources.registers) if fit.resources else "",
        f"{fit.occupancy.percent:.0f}%" if fit.occupancy else "none",
        "FAULTS" if trace.faults else "",
    ]


def _sectors(trace: Trace, actions: Sequence[str]) -> str:
    """Sectors a request, over all such requests to global memory."""
    requests = trace.count("requests", actions=actions, memory="global")
    if not requests:
        return ""
    return f"{trace.count('sectors', actions=actions, memory='global') / requests:.3g}"
