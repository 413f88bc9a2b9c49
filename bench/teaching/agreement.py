"""How well the trace's counts agree with ncu's, over all runs that were compared."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from known_differences import TOLERANCE, Reason, difference, reason

from teaching.claim import table


@dataclass(frozen=True)
class Difference:
    """A counter that is not the same in one run."""

    row: Mapping[str, Any]
    counter: str
    pair: Mapping[str, float]
    reason: Reason | None

    @property
    def share(self) -> float:
        """Of ncu's count."""
        return difference(self.pair)


def differences(rows: list[Mapping[str, Any]]) -> Iterator[Difference]:
    """Every counter of every run that differs at all."""
    for row in rows:
        for name, pair in row["counters"].items():
            if pair["trace"] != pair["ncu"]:
                yield Difference(row, name, pair, reason(row, name))


def agreement(results: Mapping[str, Any]) -> str:
    """The last section of the document."""
    rows = results["rows"]
    pairs = [pair for row in rows for pair in row["counters"].values()]
    nothing = sum(pair == {"trace": 0, "ncu": 0} for pair in pairs)
    found = list(differences(rows))
    known = [each for each in found if each.reason]
    small = [each for each in found if not each.reason and each.share <= TOLERANCE]
    open_ = len(found) - len(known) - len(small)
    groups: dict[tuple[str, str], list[Difference]] = {}
    for each in found:
        why = each.reason.why if each.reason else "not known"
        groups.setdefault((each.counter, why), []).append(each)
    text = (
        f"{len(rows)} runs (every kernel of every ladder, on whole and ragged sizes, in several "
        f"dtypes) and {len(rows[0]['counters'])} counters give {len(pairs):,} comparisons. In "
        f"{nothing:,} both counts are 0, because the kernel makes no such access. In "
        f"{len(pairs) - nothing - len(found):,} of the other {len(pairs) - nothing:,} the counts "
        f"are equal. {len(known)} differ for a known reason, {len(small)} differ by at most "
        f"{TOLERANCE:.0%} without one, and {open_} differ by more without one."
    )
    heads = ["counter", "runs that differ", "largest difference: run", "trace", "ncu", "reason"]
    lines = [
        (counter, len(group), *_worst(group), why)
        for (counter, why), group in sorted(groups.items())
    ]
    return f"## How well the trace agrees with Nsight Compute\n\n{text}\n\n{table(heads, lines)}"


def _worst(group: list[Difference]) -> tuple[str, str, str]:
    """The run that differs most, relative to the count that is compared with."""

    def size(each: Difference) -> float:
        off = abs(each.pair["trace"] - each.pair["ncu"])
        whole = each.reason.whole(each.row, each.counter) if each.reason else each.pair["ncu"]
        return off / max(whole, 1)

    each = max(group, key=size)
    sizes = " × ".join(map(str, each.row["sizes"]))
    run = f"{each.row['op']} `{each.row['kernel']}` {sizes} {each.row['dtype']}"
    return run, f"{each.pair['trace']:,}", f"{each.pair['ncu']:,}"
