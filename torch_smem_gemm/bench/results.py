"""Results files: the figures and their context, as JSON with one row per line.

``results.schema.json`` beside this module describes the format.
"""

from __future__ import annotations

import dataclasses
import datetime
import json
import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from torch_smem_gemm.bench.measure import METHOD, Ceilings, Spread
from torch_smem_gemm.bench.rows import Row
from torch_smem_gemm.bench.telemetry import Summary

DIGITS = 6  # significant ones of a figure

T = TypeVar("T")


def results(
    rows: Sequence[Row],
    *,
    command: str,
    device: str,
    versions: Mapping[str, str | None],
    ceilings: Ceilings,
    gpu_state: Mapping[str, str] | None,
    telemetry: Summary | None,
    seconds: float,
    interrupted: bool,
) -> dict[str, Any]:
    """The contents of a results file: what was measured, and the machine."""
    return {
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "command": command,
        "seconds": seconds,
        "device": device,
        "versions": dict(versions),
        "method": METHOD,
        "ceilings": dataclasses.asdict(ceilings),
        "gpu_state_after": None if gpu_state is None else dict(gpu_state),
        "telemetry": telemetry and dataclasses.asdict(telemetry),
        "interrupted": interrupted,
        "rows": list(rows),
    }


def save(path: Path, found: Mapping[str, Any]) -> None:
    """Write results. Figures are rounded to ``DIGITS`` significant digits.

    An existing file is replaced as a whole, or not at all if writing fails (OSError).
    """
    head = json.dumps({key: rounded(found[key]) for key in found if key != "rows"}, indent=1)
    rows = ",\n".join(json.dumps(rounded(dataclasses.asdict(row))) for row in found["rows"])
    text = f'{head[:-2]},\n "rows": [\n{rows}\n ]\n}}\n'
    if path.exists() and not path.is_file():  # a pipe, say
        path.write_text(text, encoding="utf-8")
        return
    part = path.with_name(f"{path.name}.part")
    try:
        part.write_text(text, encoding="utf-8")
        part.replace(path)
    except OSError:
        part.unlink(missing_ok=True)
        raise


def load(path: Path) -> dict[str, Any]:
    """Read results: as in the file, but ``rows`` are of type Row.

    Raises:
        ValueError: no results file; the message names the file and what is wrong.
        OSError: it cannot be read.
    """
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{path} is not JSON: {error}") from None
    rows = found.get("rows") if isinstance(found, dict) else None
    if not isinstance(rows, list):
        raise ValueError(f"{path} has no rows: it is no results file of `bench --json`")
    found["rows"] = [_row(path, index, row) for index, row in enumerate(rows)]
    seen: set[tuple[str, str, str]] = set()
    for index, row in enumerate(found["rows"]):
        if (key := (row.set, row.problem, row.name)) in seen:
            raise ValueError(f"{path}: row {index} repeats {', '.join(key)}")
        seen.add(key)
    return found


def rounded(value: Any) -> Any:
    """``value`` with all its floats rounded to ``DIGITS`` significant digits."""
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}")
    if isinstance(value, Mapping):
        return {key: rounded(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [rounded(item) for item in value]
    return value


def grouped(items: Iterable[T], key: Callable[[T], Hashable]) -> list[list[T]]:
    """Items of the same ``key`` together, in the order of their first ones."""
    found: dict[Hashable, list[T]] = {}
    for item in items:
        found.setdefault(key(item), []).append(item)
    return list(found.values())


def problems(rows: Iterable[Row]) -> list[list[Row]]:
    """The rows of each problem of each set, in the order of their first rows."""
    return grouped(rows, lambda row: (row.set, row.problem))


def best_ratio(row: Row, rivals: Sequence[Row]) -> Spread | None:
    """Return the row's speed-up over the fastest of ``rivals`` of kind "peer".

    None if either has no time.
    """
    ratios = [
        row.ratios[rival.name]
        for rival in rivals
        if rival.kind == "peer" and rival.name in row.ratios
    ]
    return min(ratios, key=lambda ratio: ratio.median, default=None)


def geometric_mean(values: Sequence[float]) -> float:
    """Return the geometric mean of one or more positive values."""
    return math.exp(math.fsum(map(math.log, values)) / len(values))


def _row(path: Path, index: int, row: Any) -> Row:
    fields = {field.name: field for field in dataclasses.fields(Row)}
    if not isinstance(row, dict):
        raise ValueError(f"{path}: row {index} is no object")
    missing = [
        name
        for name, field in fields.items()
        if name not in row
        and field.default is dataclasses.MISSING
        and field.default_factory is dataclasses.MISSING
    ]
    if missing:
        raise ValueError(f"{path}: row {index} has no {', '.join(missing)}")
    known = {name: row[name] for name in fields if name in row}
    known["ratios"] = {name: Spread(**ratio) for name, ratio in row.get("ratios", {}).items()}
    return Row(**known)
