"""What the tests of traces share: recording launches, and picking lines out of them."""

from collections.abc import Callable
from typing import Any

from torch_smem_gemm import tracing
from torch_smem_gemm.analysis import banks
from torch_smem_gemm.trace_report import STORES, Launch, Line, Trace


def record(call: Callable[[], Any]) -> tuple[Any, tuple[Launch, ...]]:
    """What ``call`` returns, and the launches that it made on CPU tensors."""
    tracing.begin()
    try:
        result = call()
    finally:
        launches, _ = tracing.end()
    return result, launches


def lines(trace: Trace, actions: tuple[str, ...], memory: str, text: str = "") -> list[Line]:
    """The lines that do that to that memory, and say ``text``, in the order of the source."""
    return [
        line
        for launch in trace.launches
        for line in launch.lines
        if line.action in actions and line.memory == memory and text in line.text
    ]


def ways(line: Line) -> int:
    """How many words of one bank its worst request wants."""
    return banks(line.example, line.bytes_a_lane, store=line.action in STORES).ways
