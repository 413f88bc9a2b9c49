"""The emulator finds what is wrong in a mutant of mma's tiles for rows that begin anywhere.

Each mutant is the kernels that ship with one thing changed. tests/cpu_emulator/mma_unaligned.cpp
runs them with several work tiles a block.
"""

import mutants
import pytest
from mutants import WRONG, Mutant, kinds_found

pytestmark = pytest.mark.sweep  # a program takes 12 s to compile

MAINLOOP, LOADER = "gemm/sm80/mainloop_unaligned.h", "gemm/sm80/load_unaligned.h"
MAINLOOP_TF32 = "gemm/sm80/mainloop_unaligned_tf32.h"
MUTANTS = {
    "the epilogue waits for nobody": Mutant(
        MAINLOOP, "named_barrier_sync<Shape::MMA_THREADS>();", "", "race"
    ),
    "the epilogue takes the stage that is shifted": Mutant(
        MAINLOOP, "(stage ^ 1) * Shape::STAGE_BYTES", "stage * Shape::STAGE_BYTES", "race"
    ),
    "no barrier": Mutant(MAINLOOP, "    __syncthreads();", "", "race"),
    "a raw stage too many in flight": Mutant(
        MAINLOOP,
        "cp_async_wait<Shape::STAGES - 2>();",
        "cp_async_wait<Shape::STAGES>();",
        "missing wait",
    ),
    "shifts what was not copied": Mutant(
        MAINLOOP, "if (unshifted_ == 0) return;", "", "uninitialised"
    ),
    "copies the same work tile again": Mutant(MAINLOOP, "work_tile_ += gridDim.x;", "", WRONG),
    "the shift of another stage": Mutant(
        LOADER, "shifts_ >> 4 * raw", "shifts_ >> 4 * (raw ^ 1)", WRONG
    ),
    "the first k-tile as all others": Mutant(
        MAINLOOP, "copy<true>();", "copy<false>();", "out of bounds"
    ),
    "elements beyond a row are read": Mutant(
        LOADER, "min(max(end - VEC_BYTES * vec, 0), VEC_BYTES)", "VEC_BYTES", "out of bounds"
    ),
    "rows of 4 bytes not shifted": Mutant(LOADER, "shift & 4 ?", "shift & 8 ?", WRONG),
    "no barrier, tf32": Mutant(MAINLOOP_TF32, "        __syncthreads();", "", "race"),
    "a raw stage too many in flight, tf32": Mutant(
        MAINLOOP_TF32,
        "cp_async_wait<Shape::STAGES - 2>();",
        "cp_async_wait<Shape::STAGES>();",
        "missing wait",
    ),
    "rows of floats that begin with a vector": Mutant(
        MAINLOOP_TF32, " + misalignment(row_begin)", "", WRONG
    ),
    "a work tile begins with the first raw stage": Mutant(
        MAINLOOP_TF32, "      Mma mma;", "      Mma mma; stage = 0;", "race"
    ),
}


def test_several_work_tiles_a_block_are_right() -> None:
    for name, case in mutants.recorded("mma_unaligned").items():
        assert not case.error, name
        assert not case.faults, name
        (launch,) = case.launches
        assert launch.grid == (1 if "one work tile" in name else 2, 1, 1), "two blocks fit an SM"


@pytest.mark.parametrize("name", MUTANTS)
def test_mutant_is_found(name: str) -> None:
    mutant = MUTANTS[name]
    assert mutant.found in kinds_found(mutants.recorded("mma_unaligned", name, mutant))
