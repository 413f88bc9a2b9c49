"""The tracer finds what would be wrong on a GPU: every planted fault, and no other."""

from pathlib import Path
from typing import Any, NamedTuple

import pytest
from compile_kernels import CSRC, PROGRAMS, build, folder, marked_lines, results, run

SOURCE = PROGRAMS / "faults.cpp"

# kernel: (kind, threads of the first time, how often)
PLANTED = {
    "shared_out_of_bounds": ("out of bounds", "31", 1),
    "shared_next_row": ("out of bounds", "31", 1),
    "dynamic_shared_out_of_bounds": ("out of bounds", "0", 32),
    "global_view": ("out of bounds", "31", 1),
    "global_address": ("out of bounds", "31", 1),
    "one_block_of_a_cube": ("out of bounds", "0", 32),
    "misaligned_global": ("misaligned", "0", 32),
    "misaligned_shared": ("misaligned", "0", 32),
    # Every fifth lane copies nothing.
    "misaligned_copy": ("misaligned", "1", 25),
    # One lane in each of two blocks.
    "uninitialised": ("uninitialised", "7", 2),
    # The last lane to reach the barrier is the first to go on.
    "copy_without_wait": ("missing wait", "31 and 24", 32),
    "copy_of_the_wrong_group": ("missing wait", "31", 32),
    "overwritten_copy": ("missing wait", "0", 32),
    "copy_without_barrier": ("race", "32 and 0", 32),
    "race_in_warp": ("race", "1 and 0", 31),
    "race_across_shuffle": ("race", "30 and 29", 31),
    "race_between_masks": ("race", "16 and 15", 1),
    "race_between_warps": ("race", "63 and 31", 32),
    "race_with_early_reader": ("race", "32 and 31", 1),
    "race_of_two_stores": ("race", "32 and 0", 32),
    "early_return": ("barrier not reached by all", "576 of 1024", 1),
    "barrier_in_if": ("barrier not reached by all", "16 of 32", 1),
    "two_barriers": ("different barriers", "64 of 64", 1),
    # The mask of the warp, and four lanes that take the value of one that has ended.
    "shuffle_with_ended_lanes": ("absent lanes", "warp 0", 5),
    "shuffle_from_outside_mask": ("absent lanes", "5", 1),
    "lane_outside_its_mask": ("lane outside its mask", "9", 1),
    # Lane 4 after lane 0; then lanes 5 to 15, which lane 4 names.
    "different_masks": ("different masks", "4", 12),
    "deadlock": ("deadlock", "31", 1),
}
BLOCKS = {"global_view": [2, 0, 0], "one_block_of_a_cube": [1, 2, 1]}
RIGHT = [
    "halves_of_a_warp",
    "two_types_in_dynamic_shared",
    "every_block_its_own",
    "warps_that_return",
]


def faults_of(report: dict[str, Any]) -> list[dict[str, Any]]:
    """All faults of a case's launches."""
    return [fault for launch in report["launches"] for fault in launch["faults"]]


def assert_clean(report: dict[str, Any]) -> None:
    """Assert that the case launched something, found no fault and threw nothing."""
    assert report["error"] == ""
    assert report["launches"]
    assert faults_of(report) == []


@pytest.mark.parametrize("kernel", PLANTED)
def test_planted_fault_is_found(kernel: str) -> None:
    """Once for its line: kind, file, line, block and threads; the other lines are clean."""
    (fault,) = faults_of(results("faults")[f"{kernel}/faulty"])
    kind, threads, count = PLANTED[kernel]
    assert Path(fault["file"]) == SOURCE
    assert fault["line"] == marked_lines(SOURCE, "FAULT")[kernel]
    assert (fault["kind"], fault["threads"], fault["count"]) == (kind, threads, count)
    assert fault["block"] == BLOCKS.get(kernel, [0, 0, 0])


@pytest.mark.parametrize("kernel", PLANTED)
def test_its_twin_is_clean(kernel: str) -> None:
    assert_clean(results("faults")[f"{kernel}/sound"])


@pytest.mark.parametrize("kernel", RIGHT)
def test_nothing_is_found_where_nothing_is_wrong(kernel: str) -> None:
    """Patterns that a coarser tracer takes for faults."""
    assert_clean(results("faults")[kernel])


def test_a_fault_says_what_happened() -> None:
    def detail(kernel: str) -> str:
        return faults_of(results("faults")[f"{kernel}/faulty"])[0]["detail"]

    lines = marked_lines(SOURCE, "FAULT")
    assert detail("global_view") == "element (0, 95) of a view of 2x95"
    assert detail("global_address") == "an address in no tensor and no tile"
    assert detail("early_return") == "576 of 1024 threads wait, the others have ended"
    stored = f"thread 1 reads what thread 0 stored at faults.cpp:{lines['race_in_warp'] - 2}"
    assert detail("race_in_warp").startswith(stored)
    # The fault's own line is that of the thread that noticed.
    barrier, shuffle = lines["deadlock"], lines["deadlock"] - 2
    for text in (
        f"12 at __syncthreads (faults.cpp:{barrier})",
        f"20 at a shuffle (faults.cpp:{shuffle})",
    ):
        assert text in detail("deadlock")


def test_what_a_thread_throws_reaches_the_caller() -> None:
    """Such a launch is not recorded, and those after it are as if nothing had happened."""
    assert results("faults")["exception/faulty"] == {"launches": [], "error": "planted"}
    assert_clean(results("faults")["exception/sound"])


# ---------------------------------------------------------------------------- the shipped kernels


def run_shipped(
    file: str, kernels: str, overlay: Path | None = None, name: str = "", second_file: str = ""
) -> dict:
    """Trace shipped kernels on small ragged problems; files in ``overlay`` replace csrc's."""
    flags = ["-O0", f'-DSHIPPED_FILE="{file}"', f"-DSHIPPED=smem::{kernels}"]
    if second_file:
        flags.append(f'-DSECOND_SHIPPED_FILE="{second_file}"')
    return run(build(PROGRAMS / "shipped.cpp", flags=flags, overlay=overlay, name=name))


@pytest.mark.parametrize("op", ["gemm", "transpose", "sum"])
def test_every_shipped_kernel_is_clean(op: str) -> None:
    second_file = "gemm/simt/simt_traced.cpp" if op == "gemm" else ""
    reports = run_shipped(
        f"{op}/{op}_traced.cpp", f"{op}::KERNELS", name=f"all_{op}", second_file=second_file
    )
    assert reports
    for report in reports.values():
        assert_clean(report)


class Mutant(NamedTuple):
    """A shipped kernel with one thing changed, and how that must be found."""

    file: str  # of the kernel
    kernel: str
    old: str
    kinds: set[str]
    at: str  # stands in a line where the first of `kinds` is found
    new: str = ""
    nth: int = 0  # which occurrence of `old` is changed
    header: str = ""  # changed instead of `file`

    def write(self, overlay: Path) -> None:
        """Write the mutated source where the compiler looks first."""
        file = self.header or self.file
        parts = (CSRC / file).read_text().split(self.old)
        assert len(parts) > self.nth + 1, f"{file} has no {self.old!r} number {self.nth}"
        before, after = parts[: self.nth + 1], parts[self.nth + 1 :]
        (overlay / file).parent.mkdir(parents=True)
        (overlay / file).write_text(self.old.join(before) + self.new + self.old.join(after))


BARRIER = "__syncthreads();"
RACE, BOUNDS, WAIT = {"race"}, {"out of bounds"}, {"missing wait"}
UNORDERED = {"race", "uninitialised"}  # some threads read before the store, others after it

TILED = ("gemm/ladder/tiled.cu", "gemm::tiled32")
REGISTER_TILED = ("gemm/ladder/register_tiled.cu", "gemm::register_tiled")
DOUBLE_BUFFERED = ("gemm/ladder/double_buffered.cu", "gemm::double_buffered")
TWO_STAGES = "gemm/mainloop_double_buffered.h"
MUTANTS = {
    "tiled32, first barrier": Mutant(*TILED, BARRIER, UNORDERED, "As(ty, k)"),
    "tiled32, second barrier": Mutant(*TILED, BARRIER, RACE, "As(ty, tx) =", nth=1),
    "panel, barrier": Mutant(
        "gemm/ladder/panel.cu", "gemm::panel", BARRIER, UNORDERED, "As(ty, k)"
    ),
    "register_tiled, first barrier": Mutant(*REGISTER_TILED, BARRIER, UNORDERED, "As.at("),
    "register_tiled, second barrier": Mutant(*REGISTER_TILED, BARRIER, RACE, "next(As)", nth=1),
    "double_buffered, wait": Mutant(
        *DOUBLE_BUFFERED, "cp_async_wait_all();", WAIT, "As.at(", header=TWO_STAGES
    ),
    "double_buffered, barrier": Mutant(
        *DOUBLE_BUFFERED, BARRIER, UNORDERED, "As.at(", header=TWO_STAGES
    ),
    "transpose tiled, barrier": Mutant(
        "transpose/ladder/tiled.cu", "transpose::tiled", BARRIER, UNORDERED, "tile(tx, i)"
    ),
    "sum tree, barrier": Mutant(
        "reduce/ladder/tree.cu", "reduce::tree", BARRIER, UNORDERED, "sums(0, thread + stride)"
    ),
    "rows, barrier": Mutant("reduce/rows.h", "reduce::rows", BARRIER, UNORDERED, "nodes(0, lane)"),
    "columns, barrier": Mutant(
        *("reduce/columns.h", "reduce::columns"),
        BARRIER,
        UNORDERED,
        "nodes(v, thread) =",
        header="reduce/column_thread_map.h",
    ),
    "sum shuffle, barrier": Mutant(
        "reduce/ladder/shuffle.cu", "reduce::shuffle", BARRIER, UNORDERED, "sums(0, warp) ="
    ),
    "tiled32, bounds of A": Mutant(*TILED, "at_or_zero", BOUNDS, "block.A", new="operator()"),
    "tiled32, bounds of B": Mutant(
        *TILED, "at_or_zero", BOUNDS, "block.B", new="operator()", nth=1
    ),
    "tiled32, bounds of out": Mutant(
        *TILED,
        "if (!out.contains(row, col)) return;",
        BOUNDS,
        "out(row, col) =",
        header="gemm/block.h",
    ),
    "naive, bounds": Mutant(
        "gemm/ladder/naive.cu",
        "gemm::naive",
        "if (row >= problem.M || col >= problem.N) return;",
        BOUNDS,
        "a.next()",
    ),
    "transpose naive, bounds": Mutant(
        "transpose/ladder/naive.cu",
        "transpose::naive",
        "if (block.in.contains(row, col))",
        BOUNDS,
        "block.in(row, col)",
    ),
    "vectorized, alignment": Mutant(
        "gemm/ladder/vectorized.cu",
        "gemm::vectorized",
        "wide_a = rows_are_vectors<W>(block.A)",
        {"misaligned"},
        "row_run<W>(block.A",
        new="wide_a = true",
    ),
}


# One of each kind of fault; the others differ in the kernel, and each is compiled.
FIRST_OF_THEIR_KIND = {min(mutant.kinds): name for name, mutant in reversed(MUTANTS.items())}


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(
            name, marks=[] if name in FIRST_OF_THEIR_KIND.values() else [pytest.mark.sweep]
        )
        for name in MUTANTS
    ],
)
def test_mutant_of_a_shipped_kernel_is_found(name: str) -> None:
    """A missing barrier, wait or check, in the very source that ships."""
    mutant, stem = MUTANTS[name], name.replace(", ", "_").replace(" ", "_")
    overlay = folder() / f"{stem}_source"
    mutant.write(overlay)
    reports = run_shipped(mutant.file, mutant.kernel, overlay, stem)
    faults = [fault for report in reports.values() for fault in faults_of(report)]
    assert {fault["kind"] for fault in faults} == mutant.kinds
    lines = {
        Path(fault["file"]).read_text().splitlines()[fault["line"] - 1]
        for fault in faults
        if fault["kind"] == min(mutant.kinds)
    }
    assert any(mutant.at in line for line in lines), lines
