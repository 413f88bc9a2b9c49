"""Hold the rule of ``smem.analysis.banks`` against what Nsight Compute counts on the GPU.

    python bench/bank_rule.py --out bench/results/bank-rule-h200.json

A warp loads and stores 1 to 16 bytes a lane of shared memory, by regular and by random addresses,
with all lanes or some; and it copies 4 or 8 bytes a lane there by cp.async. Each of these is one
launch under ``ncu`` (see ncu.py), of a program that ``nvcc`` makes of bank_rule.cu (compute
capability 8.0 or newer). Exits with 1 if the rule gives other wavefronts or conflicts for a load
or store. The copies are only measured: tests/test_bank_rule.py holds the tracer's rule to them.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import ncu
import torch

from torch_smem_gemm.analysis import banks

Lanes = list[int | None]  # the byte offset of each lane, None where it takes no part
Place = Callable[[int, int], int]

SOURCE = Path(__file__).resolve().with_suffix(".cu")
LANES = range(32)
WIDTHS = (1, 2, 4, 8, 16)  # bytes a lane
COPY_WIDTHS = (4, 8)  # what cp.async brings through the cache; 16 bytes go past it

# What ncu calls the wavefronts and the conflicts. Conflicts of copies come from the patched code,
# since the counter of the cache has others for the same copies.
METRICS = {
    "load": (
        "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum",
        "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum",
    ),
    "store": (
        "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum",
        "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum",
    ),
    "copy": (
        "smsp__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_ldgsts.sum",
        "smsp__sass_l1tex_data_bank_conflicts_pipe_lsu_mem_shared_op_ldgsts.sum",
    ),
}

# ----------------------------------------------------------------------------------- the patterns

# The offset of lane n that accesses w bytes.
REGULAR: tuple[Place, ...] = (
    lambda n, w: 0,
    lambda n, w: n * w,
    lambda n, w: (31 - n) * w,
    lambda n, w: (n ^ 1) * w,
    # Lanes that want the same: neighbours, or some far apart.
    lambda n, w: n // 2 * w,
    lambda n, w: n // 4 * w,
    lambda n, w: n // 8 * w,
    lambda n, w: n // 16 * w,
    lambda n, w: n % 4 * w,
    lambda n, w: n % 8 * w,
    lambda n, w: n % 16 * w,
    lambda n, w: n // 4 * 2 * w,
    lambda n, w: n // 8 * 128,
    lambda n, w: n // 16 * 128,
    lambda n, w: n % 2 * 128,
    # Strides; the last is a padded column's.
    lambda n, w: n * 2 * w,
    lambda n, w: n * 4 * w,
    lambda n, w: n * 32,
    lambda n, w: n * 64,
    lambda n, w: n * 128,
    lambda n, w: n * (128 + max(w, 4)),
    # Parts of the warp in rows of their own.
    lambda n, w: n % 2 * 2048 + n // 2 * w,
    lambda n, w: n // 8 * 512 + n % 8 * w,
    lambda n, w: n // 16 * 1024 + n % 16 * w,
)


def laid(place: Place, width: int) -> Lanes:
    """A regular pattern."""
    return [place(lane, width) for lane in LANES]


def anywhere(rng: random.Random, width: int, words: int, lanes: Sequence[int] = LANES) -> Lanes:
    """Any elements out of the first ``words``, several lanes perhaps the same."""
    count = max(1, words * 4 // width)
    return [rng.randrange(count) * width if lane in lanes else None for lane in LANES]


def first(lanes: int, width: int) -> Lanes:
    """A row, of the first lanes alone."""
    return [lane * width if lane < lanes else None for lane in LANES]


def patterns() -> Iterator[tuple[int, Lanes]]:
    """The width and the addresses of each load and store: the same in every run."""
    rng = random.Random(1)
    for width in WIDTHS:
        for place in REGULAR:
            yield width, laid(place, width)
        for words in (8, 32, 64, 256, 1024):
            for _ in range(8):
                yield width, anywhere(rng, width, words)
        for words in (32, 256):
            for active in (4, 4, 12, 12, 16, 16, 20, 20):
                yield width, anywhere(rng, width, words, rng.sample(LANES, active))
            for active in (8, 16, 24):
                yield width, first(active, width)
                yield width, anywhere(rng, width, words, range(active))


# The offsets in shared memory that copies go to, and those in global memory that they come from.
TO: tuple[Place, ...] = (
    lambda n, w: n * w,
    lambda n, w: n * 2 * w,
    lambda n, w: (31 - n) * w,
    lambda n, w: n * 128,
    lambda n, w: n * 132 // w * w,
    lambda n, w: n % 8 * 528 + n // 8 * w,
    lambda n, w: n // 8 * 1024 + n % 8 * w,
    lambda n, w: n // 16 * 2048 + n % 16 * w,
)
FROM: tuple[Place, ...] = (
    lambda n, w: n * w,
    lambda n, w: n // 8 * 1024 + n % 8 * w,
    lambda n, w: n * 1024,
)
FROM_TO_A_ROW: tuple[Place, ...] = (
    lambda n, w: 0,
    lambda n, w: (n + 4) * w,
    lambda n, w: (31 - n) * w,
    lambda n, w: n * 2 * w,
    lambda n, w: n * 64,
    lambda n, w: n * 128,
    lambda n, w: n // 2 * 1024 + n % 2 * w,
    lambda n, w: n // 4 * 1024 + n % 4 * w,
    lambda n, w: n // 16 * 1024 + n % 16 * w,
    lambda n, w: n % 2 * 2048 + n // 2 * w,
    lambda n, w: n % 4 * 2048 + n // 4 * w,
)


def copies() -> Iterator[tuple[int, Lanes, Lanes]]:
    """The width, the destinations and the sources of each copy: the same in every run."""
    rng = random.Random(2)
    for width in COPY_WIDTHS:
        for to, source in (*product(TO, FROM), *product(TO[:1], FROM_TO_A_ROW)):
            yield width, laid(to, width), laid(source, width)
        row, eighths = laid(FROM[0], width), laid(FROM[1], width)
        for _ in range(6):
            shuffled = [element * width for element in rng.sample(LANES, 32)]
            yield width, shuffled, row
            yield width, shuffled, anywhere(rng, width, 512)
            yield width, row, anywhere(rng, width, 512)
            scattered = [element * width for element in rng.sample(range(8192 // width), 32)]
            yield width, scattered, row
            yield width, scattered, anywhere(rng, width, 512)
            yield width, scattered, eighths
        for active in (1, 4, 8, 16, 24):
            yield width, first(active, width), first(active, width)


# -------------------------------------------------------------------------------- the measurement


def line(kind: str, width: int, *sides: Lanes) -> str:
    """An access as bank_rule.cu reads it."""
    offsets = (-1 if at is None else at for side in sides for at in side)
    return " ".join(map(str, (kind, width, *offsets)))


def measure(program: Path, kind: str, accesses: Sequence[tuple[Any, ...]]) -> list[list[int]]:
    """ncu's wavefronts and conflicts of each access."""
    listed = program.with_suffix(".txt")
    listed.write_text("".join(f"{line(kind, *access)}\n" for access in accesses))
    launches = ncu.profile([program, listed], METRICS[kind])
    if len(launches) != len(accesses):
        raise SystemExit(f"ncu saw {len(launches)} of {len(accesses)} launches")
    return [[ncu.number(columns[name]) for name in METRICS[kind]] for columns in launches]


def collect() -> dict[str, Any]:
    """Everything that the results file holds."""
    accesses, moves = list(patterns()), list(copies())
    major, minor = torch.cuda.get_device_capability()
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder, "bank_rule")
        command = ["nvcc", "-std=c++17", f"-arch=sm_{major}{minor}", "-o", program, SOURCE]
        subprocess.run(command, check=True)
        loads, stores = (measure(program, kind, accesses) for kind in ("load", "store"))
        copied = measure(program, "copy", moves)
    return {
        **ncu.setting(),
        "patterns": [
            {"width": width, "addresses": addresses, "load": load, "store": store}
            for (width, addresses), load, store in zip(accesses, loads, stores, strict=True)
        ],
        "copies": [
            {"width": width, "to": to, "from": source, "copy": copy}
            for (width, to, source), copy in zip(moves, copied, strict=True)
        ],
    }


def differences(results: dict[str, Any]) -> list[str]:
    """The loads and stores for which the rule gives something else, in words."""
    found = []
    for number, pattern in enumerate(results["patterns"]):
        for kind in ("load", "store"):
            rule = banks(pattern["addresses"], pattern["width"], store=kind == "store")
            if [rule.wavefronts, rule.conflicts] != pattern[kind]:
                wavefronts, conflicts = pattern[kind]
                found.append(
                    f"pattern {number}, {kind} of {pattern['width']} bytes: "
                    f"{rule.wavefronts} wavefronts and {rule.conflicts} conflicts, "
                    f"ncu counts {wavefronts} and {conflicts}"
                )
    return found


def text(results: dict[str, Any]) -> str:
    """JSON with a line for each pattern."""
    members = []
    for name, value in results.items():
        if isinstance(value, list):
            rows = ",\n".join(json.dumps(row, separators=(",", ":")) for row in value)
            members.append(f"{json.dumps(name)}: [\n{rows}\n]")
        else:
            members.append(f"{json.dumps(name)}: {json.dumps(value)}")
    return "{\n" + ",\n".join(members) + "\n}\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, help="write the results there, as JSON")
    args = parser.parse_args()
    results = collect()
    if args.out:
        args.out.write_text(text(results))
    found = differences(results)
    print(*found, sep="\n", end="\n" if found else "")
    print(f"{2 * len(results['patterns'])} loads and stores, {len(found)} unlike the rule")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
