"""mma as it is compiled for sm_75: float16 by 8 of K, copied through registers (sm75.cpp)."""

import functools

import mutants
import pytest
from compile_kernels import Recorded
from mutants import WRONG, Mutant, kinds_found

pytestmark = pytest.mark.sweep  # the program takes 14 s to compile

MAINLOOP, LOADER = "gemm/sm80/mainloop.h", "gemm/sm80/load_multistage.h"
# Each with what may be found first.
MUTANTS = {
    "registers not stored before the barrier": (
        Mutant(MAINLOOP, "    load_a_.finish();\n", "", ""),
        {WRONG, "uninitialised", "race"},
    ),
    "no barrier": (
        Mutant(MAINLOOP, "    cp_async_wait<STAGES - 2>();\n    __syncthreads();", "", ""),
        {"race"},
    ),
    "a tile behind the one to be stored": (
        Mutant(LOADER, "to_ + pass * Base::PASS_ELEMENTS", "to_ + pass * Layout::COLS", ""),
        {WRONG, "uninitialised"},
    ),
    "elements outside are read": (
        Mutant(LOADER, "bytes / static_cast<int>(sizeof(T))", "Layout::VEC", ""),
        {"out of bounds"},
    ),
}


def recorded(name: str = "shipped", mutant: Mutant | None = None) -> dict[str, Recorded]:
    return mutants.recorded("sm75", name, mutant, ("-DSMEM_EMULATE_SM75",))


shipped = functools.cache(recorded)


def test_every_layout_is_right_and_without_faults() -> None:
    assert len(shipped()) == 36
    for name, case in shipped().items():
        assert not case.error, name
        assert not case.faults, name


def test_one_tile_by_8_of_k_and_without_bank_conflicts() -> None:
    (launch,) = shipped()["128x128_k32/kk/128x128x64"].launches
    assert launch.count("requests", actions=["mma"]) == 128 // 16 * 128 // 8 * 64 // 8
    assert launch.count("requests", actions=["store"], memory="shared") > 0
    assert launch.count("conflicts", memory="shared") == 0


@pytest.mark.parametrize("name", MUTANTS)
def test_mutant_is_found(name: str) -> None:
    mutant, kinds = MUTANTS[name]
    assert kinds_found(recorded(name, mutant)) & kinds
