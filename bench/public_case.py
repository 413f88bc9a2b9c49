"""A kernel of a public repository, run on the CPU and held against what it should compute."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy
import torch
from torch import Tensor

import torch_smem_gemm as smem
from torch_smem_gemm.trace_report import Trace

Size = int | tuple[int, ...]


@dataclass(frozen=True)
class Case:
    """A launch of a kernel on a small problem."""

    file: str  # in its repository
    kernel: str  # with template arguments
    grid: Size
    block: Size
    args: tuple[Any, ...]
    # After the launch, by an argument's position or a variable's name; or only the first values.
    expected: Mapping[int | str, Tensor] = field(default_factory=dict)
    shared_mem: int = 0
    options: tuple[str, ...] = ()
    tolerance: float = 1e-4
    variables: Mapping[str, numpy.ndarray] = field(default_factory=dict)  # set before the launch
    faults: tuple[str, ...] = ()  # the kinds of those that the kernel has on a GPU too
    differs: bool = False  # what it computes depends on the order in which a GPU runs threads
    why: str = ""  # it is at fault, or differs
    refused: str = ""  # what the error says, of a kernel that cannot run on the CPU

    @property
    def label(self) -> str:
        """How the table names the kernel."""
        return f"{Path(self.file).stem}: {self.kernel}"


@dataclass
class Result:
    """What became of a case. The counts are sums over the launch, as in smem.Trace."""

    repository: str
    kernel: str
    outcome: str = "wrong"  # or "right", "refused", "differs": as the case says
    problem: str = ""  # what is wrong, or why a kernel was refused
    faults: list[str] = field(default_factory=list)
    why: str = ""
    compile_seconds: float = 0
    cached_seconds: float = 0
    seconds: float = 0
    accesses: int = 0  # of threads
    cpu_ns_per_access: float = 0
    global_requests: int = 0
    sectors: int = 0
    shared_requests: int = 0
    wavefronts: int = 0
    conflicts: int = 0


def run(case: Case, repository: str, folder: Path) -> Result:
    """Compile and trace a case whose repository is in ``folder``."""
    result = Result(repository, case.label)
    try:
        kernel, trace = _trace(case, folder, result)
    except (KeyError, RuntimeError, TypeError, ValueError) as error:
        result.problem = str(error).replace(f"{folder}/", "")
        if case.refused and case.refused in result.problem:
            result.outcome = "refused"
        return result
    _count(trace, result)
    result.faults = [str(fault).replace(f"{folder}/", "") for fault in trace.faults]
    result.why = case.why if result.faults or case.differs else ""
    unexplained = {fault.kind for fault in trace.faults} ^ {*case.faults}
    difference = difference_of(
        case, case.args, lambda name, dtype: torch.from_numpy(kernel.variable(name, dtype))
    )
    result.problem = difference or ", ".join(sorted(unexplained))
    if not unexplained and not case.refused and bool(difference) == case.differs:
        result.outcome = "differs" if case.differs else "right"
    return result


def kernel_of(case: Case, folder: Path) -> smem.RawKernel:
    """Return the kernel of a case whose repository is in ``folder``."""
    options = [option.replace("{folder}", str(folder)) for option in case.options]
    return smem.RawKernel(folder / case.file, case.kernel, options=options)


def _trace(case: Case, folder: Path, result: Result) -> tuple[smem.RawKernel, Trace]:
    begin = time.perf_counter()
    kernel = kernel_of(case, folder)
    kernel.compile()
    compiled = time.perf_counter()
    kernel_of(case, folder).compile()
    result.compile_seconds = compiled - begin
    result.cached_seconds = time.perf_counter() - compiled
    for name, value in case.variables.items():
        kernel.variable(name, value.dtype)[:] = value.ravel()
    wall, cpu = time.perf_counter(), time.process_time()
    trace = kernel.trace(case.grid, case.block, case.args, shared_mem=case.shared_mem)
    result.seconds = time.perf_counter() - wall
    memories = ("global", "constant", "shared")
    result.accesses = sum(trace.count("lanes", memory=memory) for memory in memories)
    result.cpu_ns_per_access = (time.process_time() - cpu) * 1e9 / max(1, result.accesses)
    return kernel, trace


def _count(trace: Trace, result: Result) -> None:
    result.global_requests = trace.count("requests", memory="global")
    result.sectors = trace.count("sectors", memory="global")
    result.shared_requests = trace.count("requests", memory="shared")
    result.wavefronts = trace.count("wavefronts", memory="shared")
    result.conflicts = trace.count("conflicts", memory="shared")


def difference_of(case: Case, args: Sequence[Any], variable: Callable[[str, Any], Tensor]) -> str:
    """Return how memory differs from what is expected, or an empty text.

    Args:
        case: what was launched.
        args: of the launch, after it.
        variable: returns the variable of a name and of NumPy's dtype.
    """
    for where, wanted in case.expected.items():
        if isinstance(where, str):
            found = variable(where, wanted.numpy().dtype).cpu()
        else:
            found = args[where].cpu()
        try:
            torch.testing.assert_close(
                found.reshape(-1)[: wanted.numel()],
                wanted.reshape(-1).to(found.dtype),
                rtol=case.tolerance,
                atol=case.tolerance,
            )
        except AssertionError as error:
            return f"{where}: {' '.join(str(error).split())}"
    return ""


def table(results: Iterable[Mapping[str, Any]]) -> str:
    """Return results, of run() as dicts, as a table in Markdown, and notes on faults."""
    rows = [
        "| kernel | | faults | accesses | compile s | run s | requests, sectors (global) | "
        "requests, wavefronts, conflicts (shared) |",
        "|---|---|---:|---:|---:|---:|---:|---:|",
    ]
    notes = []
    for values in results:
        result = Result(**values)
        rows.append(
            f"| {result.kernel} | {result.outcome} | {len(result.faults)} | {result.accesses:,} "
            f"| {result.compile_seconds:.1f} | {result.seconds:.2f} "
            f"| {result.global_requests:,}, {result.sectors:,} | {result.shared_requests:,}, "
            f"{result.wavefronts:,}, {result.conflicts:,} |"
        )
        if result.why or result.outcome in ("refused", "wrong"):
            kinds = sorted({fault.partition(" in ")[0] for fault in result.faults})
            said = result.problem.splitlines()[0] if result.problem else ""
            about = f" ({', '.join(kinds)})" if kinds else ""
            notes.append(f"- {result.kernel}{about}: {result.why or said}.")
    return "\n".join([*rows, "", *notes]).rstrip()


def as_dict(result: Result) -> dict[str, Any]:
    """Return a result for JSON."""
    rounded = {
        name: round(value, 3) if isinstance(value, float) else value
        for name, value in dataclasses.asdict(result).items()
    }
    return rounded
