"""docs/occupancy.md shows what bench/occupancy.py found, of every kernel."""

import json

import needs_bench  # noqa: F401
import occupancy
import pytest

from torch_smem_gemm import analysis

FOUND = json.loads(occupancy.RESULTS.read_text(encoding="utf-8"))


def test_document_shows_the_figures() -> None:
    shown = occupancy.DOCUMENT.read_text(encoding="utf-8")
    assert shown == occupancy.document(FOUND), "run `PYTHONPATH=. python bench/occupancy.py`"


def test_every_kernel_is_there() -> None:
    rows = [(row["op"], tuple(row["sizes"]), row["dtype"], row["kernel"]) for row in FOUND["rows"]]
    assert rows == [
        (op, sizes, dtype, kernel)
        for op, sizes, dtype in occupancy.PROBLEMS
        for kernel in occupancy.kernels_of(op, sizes)
    ]


# The slowest to trace: a second dtype and most kernels of the sums, and tiles without registers of
# a thread's own.
SLOW = {
    *(("sum", name) for name in ("bfloat16", "tree", "shuffle", "columns")),
    *(("gemm", name) for name in ("panel", "tiled16", "tiled32", "tiled32_padded")),
}


@pytest.mark.parametrize(
    "row",
    [
        pytest.param(
            row,
            id=f"{row['op']}-{row['kernel']}-{row['dtype']}",
            marks=[pytest.mark.sweep]
            if {(row["op"], row["kernel"]), (row["op"], row["dtype"])} & SLOW
            else [],
        )
        for row in FOUND["rows"]
    ],
)
@pytest.mark.one_in(3)
def test_the_source_still_launches_so(row: dict) -> None:
    """Threads, shared memory and floor need no CUDA; blocks follow from them and the registers."""
    now = occupancy.row_of(row["op"], row["sizes"], row["dtype"], row["kernel"])
    for name in ("threads", "floor_us", "bottleneck"):
        assert now[name] == row[name]
    carveout = 100 if row["shared_bytes"] > 48 * 1024 else None
    held = analysis.occupancy(
        row["threads"],
        row["registers"] or 0,
        row["shared_bytes"],
        analysis.device("H200").capability,
        carveout=carveout,
    )
    assert (held.blocks, held.percent) == (row["blocks"], row["percent"])
