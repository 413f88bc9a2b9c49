"""The figures of one problem: our kernels and the peers, checked, then timed together."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import torch

from torch_smem_gemm._kernels import kernels
from torch_smem_gemm.bench.measure import (
    Call,
    Ceilings,
    Samples,
    Spread,
    graphed,
    host_seconds,
    interleaved,
)
from torch_smem_gemm.bench.peers import NotAvailable, Peer
from torch_smem_gemm.bench.problems import Function, Problem
from torch_smem_gemm.bench.shapes import Shape

OURS = "smem"  # the name of this package's op where it chooses the kernel

# Calls shorter than this, in seconds, are also timed in a CUDA graph: the GPU's fixed cost per
# call, some microseconds, is a large part of such a time.
GRAPHED_BELOW = 100e-6


@dataclass
class Row:
    """One contender on one problem. Figures are None or empty unless ``status`` is ``"ok"``."""

    set: str  # the set of problems that it belongs to
    op: str
    problem: str  # op, sizes and dtype, for people
    shape: str  # as a file of shapes has it
    dtype: str
    name: str
    kind: str  # "kernel" of this package, "peer", or "bound": what no contender is faster than
    summary: str
    operations: int = 0  # multiplications and additions of one call
    bytes: int = 0  # read and written by one call if every number moves once
    status: str = "ok"  # or "wrong", or "n/a"
    detail: str = ""  # what is wrong, or why the contender cannot take the problem
    ms: float | None = None
    ms_p20: float | None = None
    ms_p80: float | None = None
    rounds: int | None = None
    host_us: float | None = None
    graph_ms: float | None = None  # of one call; None where calls are long, or on a CPU
    rate: float | None = None  # of ms
    unit: str = ""
    shares: dict[str, float] = field(default_factory=dict)  # ceiling -> part of it reached
    # another contender's name -> how many times as fast as it
    ratios: dict[str, Spread] = field(default_factory=dict)

    @property
    def verdict(self) -> str:
        """The text shown instead of a time in a row without figures: WRONG or n/a."""
        return "WRONG" if self.status == "wrong" else self.status


@dataclass(frozen=True)
class Contender:
    """An implementation to measure: our ``kernel``, or a ``peer``."""

    name: str
    kind: str  # as of Row
    summary: str
    kernel: str = ""
    peer: Peer | None = None


def ours() -> Contender:
    """This package's op, which chooses the kernel itself."""
    return Contender(OURS, "kernel", "this package's choice", "auto")


def ladder(
    op: str, dtype: torch.dtype, device: torch.device, only: Sequence[str] | None = None
) -> list[Contender]:
    """Every kernel of ``op`` for that dtype and device by its name, or those named in ``only``."""
    rows = (
        row
        for row in kernels(op)
        if row.takes(dtype, device) and (only is None or row.name in only)
    )
    return [Contender(row.name, "kernel", row.summary, row.name) for row in rows]


def against(peer: Peer) -> Contender:
    """A peer."""
    return Contender(peer.name, "peer" if peer.same else "bound", peer.summary, peer=peer)


def empty_row(set_name: str, op: str, shape: Shape, arithmetic: str, contender: Contender) -> Row:
    """A row without figures; ``arithmetic`` as of ``Problem``."""
    return Row(
        set=set_name,
        op=op,
        problem=f"{op} {shape.title} {arithmetic}",
        shape=str(shape),
        dtype=arithmetic,
        name=contender.name,
        kind=contender.kind,
        summary=contender.summary,
        unit="GFLOP/s" if op in ("gemm", "linear") else "GB/s",
    )


def measure(
    set_name: str,
    problem: Problem,
    contenders: Sequence[Contender],
    ceilings: Ceilings,
    *,
    budget: float | None = None,
    baseline: str | None = None,
) -> list[Row]:
    """Check the contenders, then time those that are right.

    Args:
        set_name: the set that the problem belongs to.
        problem: what to compute.
        contenders: of different names.
        ceilings: of the problem's device.
        budget: seconds for each contender, as of ``measure.interleaved``.
        baseline: name of the contender that every row gets its ratio to. Each of our kernels gets
            its ratio to every other kind of contender anyway.

    Returns:
        A row for each contender, in their order.
    """
    device = problem.out.device
    rows: dict[str, Row] = {}
    functions = {}
    for contender in contenders:
        row = empty_row(set_name, problem.op, problem.shape, problem.arithmetic, contender)
        row.operations, row.bytes = problem.operations, problem.least_bytes
        rows[contender.name] = row
        function = _checked(problem, contender, row)
        if function is not None:
            functions[contender.name] = function
    calls = {name: problem.bind(function) for name, function in functions.items()}
    samples = interleaved(calls, device, budget=budget)
    floors = floor_seconds(problem, ceilings)
    for name, timed in samples.items():
        _fill(rows[name], problem, timed, floors)
        host = host_seconds(calls[name], device)
        rows[name].host_us = None if host is None else host * 1e6
        for other, theirs in samples.items():
            compared = rows[name].kind == "kernel" and rows[other].kind != "kernel"
            ratio = timed.ratio(theirs) if compared or other == baseline else None
            if ratio:
                rows[name].ratios[other] = ratio
    _time_graphs(rows, problem, samples, functions, budget)
    return list(rows.values())


def floor_seconds(problem: Problem, ceilings: Ceilings) -> dict[str, float]:
    """Return the lower bounds of one call's seconds by ceiling."""
    if problem.op == "transpose":
        return {"copy": problem.least_bytes / ceilings.copy_gbs / 1e9}
    floors = {"read": problem.least_bytes / ceilings.read_gbs / 1e9}
    if problem.op == "sum":
        return floors
    name, rate = ceilings.of_products(problem.arithmetic)
    if rate is not None:
        floors = {name: problem.operations / rate / 1e9, **floors}
    return floors


def _checked(problem: Problem, contender: Contender, row: Row) -> Function | None:
    """The contender's function of the inputs, run once; None where it is wrong or cannot be had."""
    if contender.peer is None:
        function = problem.ours(contender.kernel)
        problem.poison()
        try:
            result = problem.ours(contender.kernel, problem.out)(*problem.inputs[0])
        except torch.OutOfMemoryError as error:
            row.status, row.detail = "n/a", str(error).splitlines()[0]
            return None
        except RuntimeError as error:
            # The package's own errors name the op. Any other error, such as a device fault, is not
            # a property of the kernel.
            if not str(error).startswith(f"smem.{problem.op}: kernel "):
                raise
            row.status, row.detail = "n/a", str(error).splitlines()[0]
            return None
    else:
        made = contender.peer.make(problem)
        if isinstance(made, NotAvailable):
            row.status, row.detail = "n/a", made.reason
            return None
        function = made
        result = function(*problem.inputs[0])
        if not contender.peer.same:
            return function
    fault = problem.check(result)
    if fault is not None:
        row.status, row.detail = "wrong", fault
        return None
    return function


def _fill(row: Row, problem: Problem, timed: Samples, floors: Mapping[str, float]) -> None:
    row.ms, row.ms_p20, row.ms_p80 = (
        seconds * 1e3 for seconds in (timed.median, timed.p20, timed.p80)
    )
    row.rounds = timed.rounds
    work = problem.operations if row.unit == "GFLOP/s" else problem.least_bytes
    row.rate = work / timed.median / 1e9
    row.shares = {name: floor / timed.median for name, floor in floors.items()}


def _time_graphs(
    rows: Mapping[str, Row],
    problem: Problem,
    samples: Mapping[str, Samples],
    functions: Mapping[str, Function],
    budget: float | None,
) -> None:
    """Time short calls in CUDA graphs as well."""
    device = problem.out.device
    shortest = min((timed.median for timed in samples.values()), default=math.inf)
    if device.type != "cuda" or shortest > GRAPHED_BELOW:
        return
    sets = len(problem.inputs)
    replays: dict[str, Call] = {}
    for name, function in functions.items():
        try:
            replay = graphed(problem.bind(function), sets, device)
        except RuntimeError:  # what synchronises cannot be captured
            continue
        if replay is not None:
            replays[name] = replay
    for name, timed in interleaved(replays, device, budget=budget).items():
        rows[name].graph_ms = timed.median / sets * 1e3
