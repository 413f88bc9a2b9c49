"""The figures that claims are judged by: traced here, measured on the GPU before."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import trace_vs_ncu

import torch_smem_gemm as smem
from torch_smem_gemm import analysis

RESULTS = Path(__file__).resolve().parent.parent / "results"
TIMES = RESULTS / "h200.json"
COUNTERS = RESULTS / "trace-vs-ncu-h200.json"

# What is traced, and was profiled by ncu.
TRACED = {"gemm": (256, 256, 256), "transpose": (256, 256), "sum": (64, 8192)}
# What was timed.
GEMM = "gemm 4096 x 4096 x 4096 float32"
SHORT_GEMM = "gemm 4096 x 4096 x 1024 float32"
TRANSPOSE = "transpose 8192 x 8192 float32"
SUM = "sum 268435456 over all float32"

SAME = 0.01  # of a figure: what two may differ by and pass for the same


def near(value: float, wanted: float, tolerance: float = SAME) -> bool:
    """Whether a figure is the wanted one."""
    return abs(value - wanted) <= tolerance * abs(wanted)


@dataclass(frozen=True)
class Pair:
    """A count of the trace and of ncu, or what follows from such."""

    trace: float
    ncu: float

    def are(self, test: Callable[[float], bool]) -> bool:
        """Whether both pass."""
        return test(self.trace) and test(self.ncu)

    def near(self, wanted: float) -> bool:
        """Whether both are the wanted figure."""
        return self.are(lambda count: near(count, wanted))

    def __add__(self, other: Pair) -> Pair:
        return Pair(self.trace + other.trace, self.ncu + other.ncu)

    def __truediv__(self, by: Pair | float) -> Pair:
        trace, ncu = (by.trace, by.ncu) if isinstance(by, Pair) else (by, by)
        return Pair(self.trace / trace, self.ncu / ncu)

    def cells(self, form: str = ",") -> tuple[str, str]:
        """Both for a table."""
        return format(self.trace, form), format(self.ncu, form)


@dataclass
class Evidence:
    """Traces, made when first asked for, and the results files' contents."""

    ladder: Mapping[str, Any]  # a results file of `bench` with the rows of the ladders alone
    counters: Mapping[str, Any]
    _traces: dict[tuple[str, str], smem.Trace] = field(default_factory=dict, repr=False)

    @classmethod
    def load(cls, times: Path = TIMES, counters: Path = COUNTERS) -> Evidence:
        """From the results files."""
        timed, counted = (
            json.loads(path.read_text(encoding="utf-8")) for path in (times, counters)
        )
        # Other sets have problems of the ladders too, timed at another moment.
        ladder = timed | {"rows": [row for row in timed["rows"] if row["set"] == "ladder"]}
        return cls(ladder, counted)

    @property
    def gpu(self) -> analysis.Device:
        """The GPU that the ladder was timed on, by its data sheet."""
        return analysis.device(self.ladder["device"])

    def trace(self, op: str, kernel: str) -> smem.Trace:
        """What a kernel does on the op's problem of TRACED."""
        key = op, kernel
        if key not in self._traces:
            given = trace_vs_ncu.arguments(op, TRACED[op], "float32", "cpu")
            self._traces[key] = smem.trace(op, *given, kernel=kernel)
        return self._traces[key]

    def profiled(self, op: str, kernel: str) -> Mapping[str, Any]:
        """The row of the counters' file with the same run."""
        for row in self.counters["rows"]:
            run = row["op"], row["kernel"], tuple(row["sizes"]), row["dtype"]
            if run == (op, kernel, TRACED[op], "float32"):
                return row
        raise SystemExit(f"{COUNTERS.name} has no {op} {kernel} {TRACED[op]} float32")

    def count(self, op: str, kernel: str, name: str) -> Pair:
        """A counter of trace_vs_ncu.COUNTERS."""
        row = self.profiled(op, kernel)
        traced = trace_vs_ncu.counts(self.trace(op, kernel), row["loads"])
        return Pair(traced[name], row["counters"][name]["ncu"])

    def opcodes(self, op: str, kernel: str, opcode: str) -> int:
        """How often warps executed an instruction on the GPU."""
        return self.profiled(op, kernel)["opcodes"].get(opcode, 0)

    def timed(self, problem: str, name: str) -> Mapping[str, Any]:
        """A row of the ladders."""
        for row in self.ladder["rows"]:
            if (row["problem"], row["name"]) == (problem, name):
                return row
        raise SystemExit(f"{TIMES.name} has no {name} in the ladder's {problem}")

    def ms(self, problem: str, name: str) -> float:
        """Milliseconds."""
        return self.timed(problem, name)["ms"]

    def rate(self, problem: str, name: str) -> float:
        """GFLOP/s or GB/s."""
        return self.timed(problem, name)["rate"]
