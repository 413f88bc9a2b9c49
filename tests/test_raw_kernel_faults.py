"""A kernel's errors on a GPU are found on the CPU: every planted fault, and no other."""

import copy
import pickle
import re
from pathlib import Path

import pytest
import torch

import torch_smem_gemm as smem
from torch_smem_gemm.trace_report import Trace

SOURCE = Path(__file__).parent / "raw_kernels" / "faults.cu"
TEXT = SOURCE.read_text()
NUMBERS = {name: int(n) for n, name in re.findall(r"(?:PAIR|SOUND)\((\d+), (\w+)\)", TEXT)}
MARKS = {
    mark: i + 1
    for i, line in enumerate(TEXT.splitlines())
    for mark in re.findall(r"FAULT: (\w+)", line)
}
RIGHT = re.findall(r"SOUND\(\d+, (\w+)\)", TEXT)

# function: (kind, threads of the first time, how often)
PLANTED = {
    "shared_out_of_bounds": ("out of bounds", "31", 1),
    "dynamic_shared_out_of_bounds": ("out of bounds", "31", 1),
    "global_out_of_bounds": ("out of bounds", "31", 1),
    "before_the_begin": ("out of bounds", "0", 1),
    "null_pointer": ("out of bounds", "0", 32),
    "misaligned_global": ("misaligned", "0", 32),
    "misaligned_shared": ("misaligned", "0", 32),
    "misaligned_copy": ("misaligned", "0", 32),
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
    # Four lanes take the values of lanes that have ended.
    "shuffle_with_ended_lanes": ("absent lanes", "20", 4),
    "shuffle_from_outside_mask": ("absent lanes", "5", 1),
    "lane_outside_its_mask": ("lane outside its mask", "9", 1),
    # Lane 4 after lane 0; then lanes 5 to 15, which lane 4 names.
    "different_masks": ("different masks", "4", 12),
    "deadlock": ("deadlock", "31", 1),
    # The launch ends with the first.
    "endless_loop": ("endless loop", "0", 1),
    "endless_computation": ("endless loop", "0", 1),
    "endless_recursion": ("stack overflow", "0", 32),
    "empty_loop": ("endless loop", "0", 32),
    "division_by_zero": ("division by zero", "7", 1),
    "remainder_that_overflows": ("division by zero", "0", 32),
    "local_array_out_of_bounds": ("out of bounds", "31", 1),
    "no_function": ("out of bounds", "0", 32),
    "cleared_out_of_bounds": ("out of bounds", "0", 32),
    "copied_out_of_bounds": ("out of bounds", "31", 1),
}
THREADS = {"early_return": 1024, "warps_that_return": 96, "part_of_a_warp": 48}
TWO_WARPS = (
    *("copy_without_barrier", "race_between_warps", "race_with_early_reader"),
    *("race_of_two_stores", "race_with_an_atomic", "two_barriers"),
)
BLOCKS = {"uninitialised": 2, "every_block_its_own": 32}


def trace(function: str, faulty: bool) -> Trace:
    """Trace one of the functions."""
    kernel = smem.RawKernel(SOURCE, "call")
    threads = 64 if function in TWO_WARPS else THREADS.get(function, 32)
    # As many bytes as the function uses, which only then is at fault beyond them.
    shared = 128 if function == "dynamic_shared_out_of_bounds" else 512
    args = (NUMBERS[function], faulty, torch.ones(1024), torch.zeros(1024))
    blocks = BLOCKS.get(function, 1)
    return kernel.trace(blocks, threads, args, shared_mem=shared, max_steps=20_000)


def test_every_function_is_tried() -> None:
    assert NUMBERS.keys() == {*PLANTED, *RIGHT, "race_with_an_atomic"}


@pytest.mark.parametrize("function", PLANTED)
def test_planted_fault_is_found(function: str) -> None:
    """Once for its line: kind, file, line, block and threads; the other lines are clean."""
    (fault,) = trace(function, True).faults
    assert (fault.kind, fault.threads, fault.count) == PLANTED[function]
    assert (fault.file, fault.line) == (str(SOURCE), MARKS[function])
    assert fault.block == (0, 0, 0)


@pytest.mark.parametrize("function", [*PLANTED, "race_with_an_atomic"])
def test_its_twin_is_clean(function: str) -> None:
    assert trace(function, False).faults == ()


@pytest.mark.parametrize("function", RIGHT)
def test_nothing_is_found_where_nothing_is_wrong(function: str) -> None:
    """Patterns that a coarser tool takes for faults."""
    assert trace(function, False).faults == ()


def test_a_race_with_an_atomic_names_both_lines() -> None:
    """Found where the later of the two happens: the load, behind all atomics of its warp."""
    (fault,) = trace("race_with_an_atomic", True).faults
    line = MARKS["race_with_an_atomic"]
    assert (fault.kind, fault.line) == ("race", line)
    assert f"stored at faults.cu:{line - 2}" in fault.detail


def test_a_fault_says_what_happened() -> None:
    def detail(function: str) -> str:
        return trace(function, True).faults[0].detail

    assert detail("shared_out_of_bounds") == (
        "0 bytes after the end of row (128 bytes of shared memory)"
    )
    assert detail("dynamic_shared_out_of_bounds") == (
        "0 bytes after the end of dynamic_row (128 bytes of shared memory)"
    )
    assert detail("global_out_of_bounds") == "0 bytes after the end of in (4096 bytes)"
    assert detail("before_the_begin") == "4 bytes before out (4096 bytes)"
    assert detail("null_pointer") == "a null pointer"
    assert detail("early_return") == "576 of 1024 threads wait, the others have ended"
    line = MARKS["race_in_warp"]
    stored = f"thread 1 reads what thread 0 stored at faults.cu:{line - 2}"
    assert detail("race_in_warp").startswith(stored)
    # The fault's own line is that of the thread that noticed.
    barrier, shuffle = MARKS["deadlock"], MARKS["deadlock"] - 2
    assert f"12 at __syncthreads (faults.cu:{barrier})" in detail("deadlock")
    assert f"20 at a shuffle (faults.cu:{shuffle})" in detail("deadlock")


def test_a_call_raises_what_a_trace_reports() -> None:
    kernel = smem.RawKernel(SOURCE, "call")
    x, y = torch.ones(1024), torch.zeros(1024)
    number = NUMBERS["global_out_of_bounds"]
    with pytest.raises(smem.KernelFault, match=r"out of bounds in call at .*faults\.cu") as raised:
        kernel(1, 32, (number, True, x, y))
    assert raised.value.faults == trace("global_out_of_bounds", True).faults
    for copied in (pickle.loads(pickle.dumps(raised.value)), copy.copy(raised.value)):
        assert str(copied) == str(raised.value)
        assert copied.faults == raised.value.faults
    # The other threads have run on, and the process goes on.
    assert y[:31].eq(1).all()
    assert y[31] == 0
    kernel(1, 32, (number, False, x, y))
    assert y[31] == 1


@pytest.mark.parametrize(
    ("value", "is_race"),
    [("7", False), ("blockDim.x", False), ("threadIdx.x", True), ("(int)(threadIdx.x / 63)", True)],
)
def test_stores_of_the_same_value_are_no_race(value: str, is_race: bool) -> None:
    """As for compute-sanitizer, which only notes them; two that differ are one."""
    code = f"""__global__ void k(int* out) {{
      __shared__ int all;
      all = {value};
      __syncthreads();
      out[threadIdx.x] = all;
    }}"""
    trace = smem.RawKernel(code, "k").trace(1, 64, (torch.zeros(64, dtype=torch.int32),))
    assert [fault.kind for fault in trace.faults] == ["race"] * is_race


def test_a_store_of_the_same_value_after_a_read_is_a_race() -> None:
    code = """__global__ void k(int* out) {
      __shared__ int all;
      if (threadIdx.x == 0) all = 7;
      __syncthreads();
      out[threadIdx.x] = all;
      all = 7;
    }"""
    trace = smem.RawKernel(code, "k").trace(1, 64, (torch.zeros(64, dtype=torch.int32),))
    assert {fault.kind for fault in trace.faults} == {"race"}
