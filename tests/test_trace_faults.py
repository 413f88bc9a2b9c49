"""The tracer finds what is wrong in a mutant of a shipped kernel.

Kernels with one planted fault each are in test_raw_kernel_faults.py.
"""

from pathlib import Path
from typing import NamedTuple

import pytest
from compile_kernels import CSRC, folder, trace_shipped


class Mutant(NamedTuple):
    """A shipped kernel with one thing changed, and how that must be found."""

    file: str  # of the kernel
    kernel: str
    old: str
    kinds: tuple[str, ...]
    at: str  # stands in a line where the first of `kinds` is found
    new: str = ""
    nth: int = 0  # which occurrence of `old` is changed
    header: str = ""  # changed instead of `file`
    second_file: str = ""  # compiled with `file`

    def write(self, overlay: Path) -> None:
        """Write the mutated source where the compiler looks first."""
        file = self.header or self.file
        parts = (CSRC / file).read_text().split(self.old)
        assert len(parts) > self.nth + 1, f"{file} has no {self.old!r} number {self.nth}"
        before, after = parts[: self.nth + 1], parts[self.nth + 1 :]
        (overlay / file).parent.mkdir(parents=True)
        (overlay / file).write_text(self.old.join(before) + self.new + self.old.join(after))


BARRIER = "__syncthreads();"
RACE, BOUNDS, WAIT = ("race",), ("out of bounds",), ("missing wait",)
UNORDERED = ("race", "uninitialised")  # some threads read before the store, others after it
# A thread ends at an address out of bounds: it stores nothing more and does not wait.
BOUNDS_OF_TILE = (*BOUNDS, "barrier not reached by all")

TILED = ("gemm/ladder/tiled.cu", "gemm::tiled32")
REGISTER_TILED = ("gemm/ladder/register_tiled.cu", "gemm::register_tiled")
DOUBLE_BUFFERED = ("gemm/ladder/double_buffered.cu", "gemm::double_buffered")
FRAGMENT = "load_vector<VEC>(from + vec"
MAINLOOP = "gemm/mainloop_double_buffered.h"
MUTANTS = {
    "tiled32, first barrier": Mutant(*TILED, BARRIER, UNORDERED, "As[ty][k]"),
    "tiled32, second barrier": Mutant(*TILED, BARRIER, RACE, "As[ty][tx] =", nth=1),
    "panel, barrier": Mutant(
        "gemm/ladder/panel.cu", "gemm::panel", BARRIER, UNORDERED, "As[ty * K + k]"
    ),
    "register_tiled, first barrier": Mutant(*REGISTER_TILED, BARRIER, UNORDERED, FRAGMENT),
    "register_tiled, second barrier": Mutant(
        *REGISTER_TILED, BARRIER, RACE, "store_vector<Map::VEC>(&stage[k][mn]", nth=1
    ),
    "double_buffered, wait": Mutant(
        *DOUBLE_BUFFERED, "cp_async_wait_all();", WAIT, FRAGMENT, header=MAINLOOP
    ),
    "double_buffered, barrier": Mutant(
        *DOUBLE_BUFFERED, BARRIER, (*UNORDERED, *WAIT), FRAGMENT, header=MAINLOOP
    ),
    "transpose tiled, barrier": Mutant(
        "transpose/ladder/tiled.cu", "transpose::tiled", BARRIER, UNORDERED, "tile[tx][i]"
    ),
    "sum tree, barrier": Mutant(
        "reduce/ladder/tree.cu", "reduce::tree", BARRIER, UNORDERED, "partials[thread + stride]"
    ),
    "rows, barrier": Mutant(
        *("reduce/rows.cu", "reduce::rows"),
        BARRIER,
        UNORDERED,
        "partials(0, lane)",
        header="reduce/rows.h",
        second_file="reduce/rows_max.cu",
    ),
    "columns, barrier": Mutant(
        *("reduce/columns.cu", "reduce::columns"),
        BARRIER,
        UNORDERED,
        "partials(v, thread) =",
        header="reduce/column_thread_map.h",
        second_file="reduce/columns_max.cu",
    ),
    "sum shuffle, barrier": Mutant(
        "reduce/ladder/shuffle.cu", "reduce::shuffle", BARRIER, UNORDERED, "partials[warp] ="
    ),
    "tiled32, bounds of A": Mutant(
        *TILED,
        "row < M && k0 + tx < K ? *a : T(0.0f)",
        (*BOUNDS_OF_TILE, "uninitialised"),
        "a_element =",
        new="*a",
    ),
    "tiled32, bounds of B": Mutant(
        *TILED, "col < N && k0 + ty < K ? *b : T(0.0f)", BOUNDS_OF_TILE, "b_element =", new="*b"
    ),
    "tiled32, bounds of out": Mutant(
        *TILED,
        "if (!out.contains(row, col)) return;",
        BOUNDS,
        "out(row, col) =",
        header="gemm/epilogue.h",
    ),
    "naive, bounds": Mutant(
        "gemm/ladder/naive.cu",
        "gemm::naive",
        "if (row >= problem.M || col >= problem.N) return;",
        BOUNDS,
        "fma(to_accumulator(*a)",
    ),
    "transpose naive, bounds": Mutant(
        "transpose/ladder/naive.cu",
        "transpose::naive",
        "if (row < block.in.rows && col < block.in.cols)",
        BOUNDS,
        "= in[row",
    ),
    "vectorized, alignment": Mutant(
        "gemm/ladder/vectorized.cu",
        "gemm::vectorized",
        "wide_a = rows_are_vectors<W>(block.A)",
        ("misaligned", "barrier not reached by all", "uninitialised"),
        "load_vector<W>(a,",
        new="wide_a = true",
    ),
}


# One of each kind of fault; the others differ in the kernel, and each is compiled.
FIRST_OF_THEIR_KIND = {mutant.kinds[0]: name for name, mutant in reversed(MUTANTS.items())}


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(
            name, marks=[] if name in FIRST_OF_THEIR_KIND.values() else [pytest.mark.sweep]
        )
        for name in MUTANTS
    ],
)
@pytest.mark.one_in(2)
def test_mutant_of_a_shipped_kernel_is_found(name: str) -> None:
    """A missing barrier, wait or check, in the very source that ships."""
    mutant, stem = MUTANTS[name], name.replace(", ", "_").replace(" ", "_")
    overlay = folder() / f"{stem}_source"
    mutant.write(overlay)
    traced = trace_shipped(
        mutant.file, mutant.kernel, overlay=overlay, name=stem, second_file=mutant.second_file
    )
    faults = [fault for recorded in traced.values() for fault in recorded.faults]
    assert {fault.kind for fault in faults} == set(mutant.kinds)
    lines = {
        Path(fault.file).read_text().splitlines()[fault.line - 1]
        for fault in faults
        if fault.kind == mutant.kinds[0]
    }
    assert any(mutant.at in line for line in lines), lines
