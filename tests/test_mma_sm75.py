"""mma as it is compiled for sm_75: float16 by 8 of K, copied through registers (sm75.cpp)."""

import functools

import pytest
from compile_kernels import (
    CSRC,
    KERNEL_FLAGS,
    PROGRAMS,
    Recorded,
    compile_object,
    folder,
    link,
    runtime,
    trace_program,
)

pytestmark = pytest.mark.sweep  # the program takes 14 s to compile

MAINLOOP, LOADER = "gemm/sm80/mainloop.h", "gemm/sm80/load_multistage.h"
# What is changed: (file, text, what it becomes, what is found).
MUTANTS = {
    "registers not stored before the barrier": (
        *(MAINLOOP, "    load_a_.finish();\n", "", {"wrong result", "uninitialised", "race"}),
    ),
    "no barrier": (
        MAINLOOP,
        "    cp_async_wait<STAGES - 2>();\n    __syncthreads();",
        "",
        {"race"},
    ),
    "a tile behind the one to be stored": (
        *(LOADER, "to_ + pass * Base::PASS_ELEMENTS", "to_ + pass * Layout::COLS"),
        {"wrong result", "uninitialised"},
    ),
    "elements outside are read": (
        *(LOADER, "bytes / static_cast<int>(sizeof(T))", "Layout::VEC"),
        {"out of bounds"},
    ),
}


def recorded(mutant: str = "") -> dict[str, Recorded]:
    """What the cases of the program did, with the kernel that ships or a mutant."""
    name, overlay = "sm75", None
    if mutant:
        file, old, new, _ = MUTANTS[mutant]
        name = "sm75_" + "_".join(mutant.split())
        overlay = folder() / f"{name}_source"
        text = (CSRC / file).read_text()
        assert text.count(old) == 1
        (overlay / file).parent.mkdir(parents=True)
        (overlay / file).write_text(text.replace(old, new), encoding="utf-8")
    flags = [*KERNEL_FLAGS, "-DSMEM_EMULATE_SM75"]
    own = compile_object(PROGRAMS / "sm75.cpp", flags=flags, overlay=overlay, name=name)
    return trace_program(link(name, [own, *runtime().values()]))


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


@pytest.mark.parametrize("mutant", MUTANTS)
def test_mutant_is_found(mutant: str) -> None:
    found = set()
    for case in recorded(mutant).values():
        found |= {case.error, *(fault.kind for fault in case.faults)}
    assert found & MUTANTS[mutant][-1]
