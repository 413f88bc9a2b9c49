"""Where the trace's counts differ from ncu's, and why: of bench/results/trace-vs-ncu-h200.json."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

TOLERANCE = 0.01  # of ncu's count: what two counts may differ by and pass for the same


@dataclass(frozen=True)
class Reason:
    """Why ncu counts something else than the trace does, and where it may."""

    why: str
    where: Callable[[Mapping[str, Any]], bool]  # of rows of the results
    most: float  # that the counts differ by, as a share of ncu's count ...
    share_of: str = ""  # ... of this counter, if not of the same

    def whole(self, row: Mapping[str, Any], counter: str) -> float:
        """What ``most`` is a share of."""
        return row["counters"][self.share_of or counter]["ncu"]


def _gemm(row: Mapping[str, Any]) -> bool:
    return row["op"] == "gemm"


def _ragged_gemm(row: Mapping[str, Any]) -> bool:
    return _gemm(row) and any(size % 32 for size in row["sizes"])


def _ragged_sum(row: Mapping[str, Any]) -> bool:
    return row["op"] == "sum" and row["sizes"][-1] % 1024 != 0


def _float32_sum(kernel: str) -> Callable[[Mapping[str, Any]], bool]:
    return lambda row: row["kernel"] == kernel and row["dtype"] == "float32"


_FITTED = (
    "16-byte cp.async, where rows in global or shared memory are not whole 128-byte lines apart, "
    "or where zeros are filled in beyond an edge: the trace uses a fitted rule for these passes"
)
_PADDED = (
    "the rows of simt's stages are padded by 16 bytes, and its copies of 4 and of 16 bytes cross "
    "them: the trace's rule for these passes was fitted to the copies of other kernels"
)


def _conflicts(which: str) -> tuple[Reason, ...]:
    """l1tex's conflicts of shared loads or stores."""
    why = (
        "the H200's l1tex counter also counts collisions with the cache's own fills: a few, "
        "different in every run, in kernels whose number of passes equals the trace's"
    )
    return (
        Reason(why, lambda row: True, 0.1, f"shared {which} wavefronts"),
        Reason(
            "collisions with the cache's own fills: 38% of simt's passes in one run, 5% in another",
            lambda row: row["kernel"] == "simt",
            0.5,
            f"shared {which} wavefronts",
        ),
    )


_UNROLLED = (
    "nvcc unrolls the loop by 4: lanes with at least four trips left and lanes with fewer diverge, "
    "so that ncu counts two requests and the trace one"
)
# Where the trace and ncu differ on the H200, by counter.
REASONS: dict[str, tuple[Reason, ...]] = {
    "shared load bytes": (
        Reason(
            "ncu counts generic loads among those of shared memory, too, and gemv's vector lies in "
            "global or in shared memory",
            lambda row: row["kernel"] == "gemv",
            1.0,
        ),
    ),
    "add": (
        Reason(
            "nvcc moves the last additions behind the test whether the thread's element is inside "
            "C: threads outside skip them",
            lambda row: _ragged_gemm(row) and row["dtype"] != "float64",
            0.35,
        ),
        Reason(
            "at the end of an accumulation interval nvcc always executes the addition of float64 "
            "and then selects (DADD, FSEL); the addition of float32 is predicated",
            lambda row: _gemm(row) and row["dtype"] == "float64",
            0.3,
        ),
        Reason(
            "nvcc moves the last addition behind `lane == 0`: 31 lanes skip it",
            lambda row: row["op"] == "sum" and row["kernel"] == "shuffle",
            0.02,
        ),
        Reason(
            "nvcc executes the first and the last addition of a chain of partial sums in every "
            "tile, and then selects (DADD, FSEL)",
            _float32_sum("rows"),
            0.05,
        ),
        Reason(
            "as in `rows`; in addition, elements beyond a column's end are added and then not "
            "selected, and so are float32 partial sums where the float64 result is used",
            _float32_sum("columns"),
            0.09,
        ),
    ),
    "global load requests": (Reason(_UNROLLED, _ragged_sum, 0.1),),
    "global load sectors": (
        Reason(_UNROLLED, _ragged_sum, 0.05),
        Reason(
            "nvcc peels the loop's remainder off in front: lanes with one more trip are one "
            "iteration apart from the others",
            lambda row: row["kernel"] == "panel" and row["sizes"][-1] % 16 != 0,
            0.01,
        ),
    ),
    "copy sectors": (
        Reason(
            "ncu's count for 16-byte copies of ragged rows varies from run to run by up to 2%; the "
            "trace's count is the smallest that was observed",
            _ragged_gemm,
            0.03,
        ),
    ),
    "copy wavefronts": (
        Reason(_FITTED, _ragged_gemm, 0.1),
        Reason(_FITTED, lambda row: row["kernel"] == "unaligned", 0.6),
        Reason(_PADDED, lambda row: row["kernel"] == "simt", 0.45),
    ),
    "copy conflicts": (Reason(_PADDED, lambda row: row["kernel"] == "simt", 1.0),),
    "shared load conflicts": _conflicts("load"),
    "shared store conflicts": _conflicts("store"),
}


def difference(pair: Mapping[str, float]) -> float:
    """How far the trace's count is from ncu's, as a share of ncu's."""
    return abs(pair["trace"] - pair["ncu"]) / max(pair["ncu"], 1)


def reason(row: Mapping[str, Any], name: str) -> Reason | None:
    """What explains that a counter of this row of the results differs, by as much as it does."""
    pair = row["counters"][name]
    for known in REASONS.get(name, ()):
        off = abs(pair["trace"] - pair["ncu"])
        if known.where(row) and off <= known.most * known.whole(row, name):
            return known
    return None
