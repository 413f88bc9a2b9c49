"""The stages of a kernel's pipeline over its steps, as a trace has them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

STATES = ("empty", "loading", "full", "being read")


@dataclass(frozen=True)
class Pipeline:
    """A ring of stages in shared memory, which TMA fills and wgmma reads; that of block 0.

    A step is one change of the state of a stage. There is no time: which step comes first where
    the hardware is free to choose, ``SMEM_ASYNC_TIMING`` decides.
    """

    changes: tuple[tuple[int, str], ...]  # for each step the stage, and its new state

    @property
    def stages(self) -> int:
        """How many stages were loaded at least once."""
        return 1 + max(stage for stage, _ in self.changes)

    @property
    def depth(self) -> int:
        """The most stages that were not empty at one step."""
        return max(self._in_use())

    @property
    def mean_depth(self) -> float:
        """Stages that were not empty, averaged over the steps."""
        in_use = list(self._in_use())
        return sum(in_use) / len(in_use)

    def spans(self, stage: int) -> list[tuple[int, int, str]]:
        """Return first step, end and state of each interval of a stage; the first is empty."""
        spans = []
        begin, state = 0, STATES[0]
        for step, (changed, new) in enumerate(self.changes):
            if changed != stage:
                continue
            if step > begin:
                spans.append((begin, step, state))
            begin, state = step, new
        return [*spans, (begin, len(self.changes), state)]

    def _in_use(self) -> Iterator[int]:
        states: dict[int, str] = {}
        for stage, state in self.changes:
            states[stage] = state
            yield sum(each != STATES[0] for each in states.values())


def pipeline_of(changes: list[list[int]]) -> Pipeline | None:
    """Return the pipeline that a launch reported as (moment, stage, state); None without one."""
    if not changes:
        return None
    return Pipeline(tuple((stage, STATES[state]) for _, stage, state in changes))
