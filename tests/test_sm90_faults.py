"""What the emulator of sm_90 says of each fault of asynchronous code, and of which lines.

tests/cpu_emulator/async_faults.cpp has a kernel with one fault at a time. What is asynchronous
happens as late as it may, when every fault shows.
"""

import functools
import os
from unittest import mock

import pytest
from compile_kernels import KERNEL_FLAGS, PROGRAMS, Recorded, compile_object, link, runtime
from compile_kernels import trace_program as traced

SOURCE = PROGRAMS / "async_faults.cpp"

pytestmark = pytest.mark.sweep  # the program takes half a minute to compile

# The kind of each fault, and a part of its text. {name} is the line of another fault's name.
FAULTS = {
    "no_wait_for_bytes": ("reads before the wait", "a TMA load at {load_outside} still writes"),
    "bytes_missing": (
        "deadlock",
        "wait 128 at mbarrier.try_wait ({bytes_missing}); 0 have ended; mbarrier 0 of block 0: "
        "phase 0, 0 of 1 arrivals and 128 bytes missing",
    ),
    "bytes_in_excess": ("deadlock", "phase 0, 0 of 1 arrivals and -128 bytes missing"),
    "tile_reloaded": (
        "overwrites what is in use",
        "a TMA load writes bytes 1024 to 9216 of the shared window, which a wgmma at "
        "{tile_not_fenced} still reads",
    ),
    "tile_overwritten": (
        "overwrites what is in use",
        "a thread writes bytes 1024 to 1028 of the shared window, which a wgmma at",
    ),
    "tile_not_fenced": ("missing fence", "a wgmma reads what thread 0 wrote by a plain store"),
    "accumulators_written": (
        "overwrites what is in use",
        "a thread writes accumulators before the wait",
    ),
    "no_wgmma_fence": ("missing fence", "without wgmma.fence between them"),
    "staging_overwritten": ("overwrites what is in use", "a TMA store at {store_outside} still"),
    "staging_not_fenced": ("missing fence", "a TMA store reads what thread"),
    "no_wait_for_store": ("missing wait", "nobody has waited for a TMA store at {store_outside}"),
    "load_outside": ("out of bounds", "a box at 0, 0, 1 of a tensor of 64 x 64 x 1"),
    "store_outside": ("out of bounds", "a box at 64, 0, 0 of a tensor of 64 x 64 x 1"),
    "misaligned_box": ("misaligned", "a box at a multiple of 128 bytes in shared memory"),
    "misaligned_descriptor": ("misaligned", "address is not that of a swizzle atom"),
    "misaligned_barrier": ("misaligned", "an mbarrier is not at a multiple of 8 bytes"),
}


@functools.cache
def recorded() -> dict[str, Recorded]:
    own = compile_object(SOURCE, flags=KERNEL_FLAGS)
    with mock.patch.dict(os.environ, {"SMEM_ASYNC_TIMING": "late"}):
        return traced(link("async_faults", [own, *runtime().values()]))


@functools.cache
def lines() -> dict[str, int]:
    """The line of each fault: the one below the comment that has its name."""
    found = {}
    for number, line in enumerate(SOURCE.read_text().splitlines(), 1):
        text = line.strip()
        if text.startswith("// "):
            found |= dict.fromkeys(text.removeprefix("// ").split(", "), number + 1)
    return found


def test_without_a_fault_the_kernel_is_right() -> None:
    case = recorded()["none"]
    assert not case.error
    assert not case.faults


@pytest.mark.parametrize("name", FAULTS)
def test_fault_is_named_with_its_lines(name: str) -> None:
    kind, detail = FAULTS[name]
    (fault,) = recorded()[name].faults
    assert (fault.kind, fault.line) == (kind, lines()[name])
    places = {other: f"{SOURCE.name}:{line}" for other, line in lines().items()}
    assert detail.format_map(places) in fault.detail


def test_accumulators_that_are_read_before_the_wait_are_nan() -> None:
    case = recorded()["accumulators_read"]
    assert case.error == "wrong result"
    assert not case.faults


def test_every_fault_of_the_program_is_expected() -> None:
    assert recorded().keys() == {"none", "accumulators_read", *FAULTS}
