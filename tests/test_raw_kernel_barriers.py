"""cuda::barrier and cuda::pipeline on the CPU: their values, their counts and their faults."""

import re

import pytest
import torch
from coverage_kernels import FOLDER, counts, ints, marked, trace

import torch_smem_gemm as smem

FILE = "barriers.cu"
MARKS = {
    name: number + 1
    for number, text in enumerate((FOLDER / FILE).read_text().splitlines())
    for names in re.findall(r"// FAULT: (.*)", text)
    for name in names.split()
}


def test_arrivals_apart_from_waits() -> None:
    """They are neither bar.sync nor accesses to shared memory, as on a GPU."""
    x, out = torch.randn(4, 64), torch.empty(64)
    traced = trace(FILE, "split_arrival", 1, 64, x, out)
    torch.testing.assert_close(out, (x - x.flip(1)).sum(0))
    assert marked(FILE, traced) == {}
    assert traced.barriers == 1  # __syncthreads


def test_warps_that_fill_and_empty() -> None:
    x, out = torch.randn(5, 64), torch.empty(64)
    trace(FILE, "specialized_warps", 1, 96, 5, x, out)
    torch.testing.assert_close(out, x.sum(0).flip(0))


def test_arrive_and_drop() -> None:
    out = ints(8, 8)
    trace(FILE, "threads_that_drop_out", 1, 8, out)
    arrived = 0
    for phase in range(7):
        arrived += 7 - phase
        assert out[phase].tolist() == [arrived if t > phase else 0 for t in range(8)]


def test_several_arrivals_and_waits_by_parity() -> None:
    out = ints(3, 96)
    trace(FILE, "arrivals_of_warps", 2, 96, out)
    expected = 100 * torch.arange(3)[:, None] + torch.arange(96).flip(0) + 1
    assert torch.equal(out, expected.int())


def test_copies_that_a_barrier_waits_for() -> None:
    x, out = torch.randn(4, 128), torch.empty(4, 128)
    traced = trace(FILE, "copies", 1, 128, x, out)
    assert torch.equal(out, x.flip(1))
    found = counts(FILE, traced)
    # 512 bytes as one thread's copies of 16 bytes, and as 128 threads' of 4.
    assert found["one", "copy_to", 16] == 32
    assert found["group", "copy_to", 4] == 4
    assert found["each", "copy_to", 4] == 4


@pytest.mark.parametrize("kernel", ["committed_to_a_barrier", "own_pipeline"])
def test_pipeline_of_a_thread(kernel: str) -> None:
    x, out = torch.randn(5, 64), torch.empty(64)
    if kernel == "own_pipeline":
        trace(FILE, kernel, 1, 64, 5, x, out)
        torch.testing.assert_close(out, x.sum(0))
    else:
        trace(FILE, kernel, 1, 64, x, out)
        assert torch.equal(out, x[0].flip(0))


@pytest.mark.parametrize("split", ["BY_ROLE", "BY_COUNT"])
def test_pipelines_with_producers_and_consumers(split: str) -> None:
    x, out = torch.randn(8, 64), torch.empty(64)
    traced = trace(FILE, f"split_pipeline<{split}>", 1, 96, 8, x, out)
    torch.testing.assert_close(out, x.sum(0).flip(0))
    assert counts(FILE, traced)["copy", "copy_to", 8] == 8


def test_pipelines_of_warps() -> None:
    x, out = torch.randn(7, 64), torch.empty(64)
    trace(FILE, "pipelines_of_warps", 1, 64, 7, x, out)
    torch.testing.assert_close(out, x.sum(0).view(2, 32).flip(1).reshape(-1))


def check_fault(kernel: str, fault: str, args: tuple, kind: str, detail: str) -> None:
    """The fault is found at the line that has its mark."""
    faults = smem.RawKernel(FOLDER / FILE, f"{kernel}<{fault}>").trace(1, 64, args).faults
    found = next(found for found in faults if found.line == MARKS[fault])
    assert found.kind == kind
    assert detail in found.detail


@pytest.mark.parametrize(
    ("fault", "kind", "detail"),
    [
        ("NO_INIT", "cuda::barrier", "it is used before its init"),
        ("INIT_WITH_ZERO", "cuda::barrier", "init with a count of 0"),
        ("EARLY_USE", "race", "thread 1 reads what thread 0 stored at barriers.cu"),
        ("THREAD_MISSING", "deadlock", "; a cuda::barrier lacks 1 of 64 arrivals"),
        ("ARRIVAL_TOO_MANY", "cuda::barrier", "65 arrivals in a phase that lacks"),
        ("NO_WAIT", "race", "reads what thread"),
        ("NO_WAIT_FOR_COPY", "missing wait", "copies and has not waited for"),
    ],
)
def test_faults_of_a_barrier(fault: str, kind: str, detail: str) -> None:
    check_fault("faulty_barrier", fault, (torch.randn(64), torch.empty(128)), kind, detail)


@pytest.mark.parametrize(
    ("fault", "kind", "detail"),
    [
        ("NO_WAIT_OF_CONSUMER", "race", "thread 32 reads what thread 31 stored at"),
        ("NO_RELEASE", "deadlock", "; a cuda::barrier lacks 32 of 32 arrivals"),
        ("NO_ACQUIRE", "missing wait", "overwrites what thread 0 copies"),
    ],
)
def test_faults_of_a_pipeline(fault: str, kind: str, detail: str) -> None:
    check_fault("faulty_pipeline", fault, (7, torch.randn(7, 32), torch.empty(32)), kind, detail)


def test_their_twins_are_clean() -> None:
    x, out = torch.randn(7, 32), torch.empty(128)
    trace(FILE, "faulty_barrier<NONE>", 1, 64, x, out)
    assert torch.equal(out, torch.cat((x.view(-1)[:64].flip(0), x.view(-1)[:64])))
    trace(FILE, "faulty_pipeline<RIGHT>", 1, 64, 7, x, out)
    torch.testing.assert_close(out[:32], x.sum(0).flip(0))
