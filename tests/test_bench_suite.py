"""Which problems the bench measures, and against whom."""

import random
from collections import Counter
from typing import Any

import pytest
import torch
from torch import Tensor

import torch_smem_gemm as smem
from torch_smem_gemm import _kernels
from torch_smem_gemm.bench import problems, suite
from torch_smem_gemm.bench.measure import Ceilings
from torch_smem_gemm.bench.shapes import GemmShape, load

CPU, CUDA = torch.device("cpu"), torch.device("cuda")
CEILINGS = Ceilings(ffma_gflops=100.0, copy_gbs=10.0, read_gbs=20.0)


def names(job: suite.Job) -> list[str]:
    return [contender.name for contender in job.contenders]


def test_jobs_of_a_set() -> None:
    jobs = suite.jobs("gemm", "squares", "bfloat16", ["torch", "compile"], CUDA)
    assert [job.shape for job in jobs] == load("squares", "gemm")
    for job in jobs:
        assert (job.set, job.op, job.dtype) == ("squares", "gemm", torch.bfloat16)
        assert names(job) == ["smem", "torch", "compile"]
    marked = suite.jobs("gemm", "squares", "bfloat16", ["torch"], CUDA, marked=True)
    assert 0 < len(marked) < len(jobs)


def test_random_jobs() -> None:
    one, same, other = (
        suite.jobs("sum", name, "float32", ["torch"], CPU)
        for name in ("random", "random:0", "random:1")
    )
    assert [job.shape for job in one] == [job.shape for job in same]
    assert [job.shape for job in one] != [job.shape for job in other]
    assert {job.set for job in one} == {"random:0"}
    assert len(one) == suite.CPU_RANDOM_PROBLEMS
    assert all(suite.fits_a_cpu(job.shape) for job in one)
    assert len(suite.jobs("sum", "random", "float32", ["torch"], CPU, marked=True)) < len(one)
    gemms = suite.jobs("gemm", "random:7", "float32", ["torch"], CUDA)
    assert len(gemms) == 500
    assert [job.shape for job in suite.jobs("gemm", "random:7:9", "float32", ["torch"], CUDA)] == [
        job.shape for job in gemms[:9]
    ]


def test_new_random_jobs_are_others_and_name_their_seed() -> None:
    one, other = (suite.jobs("sum", "random:new:5", "float32", ["torch"], CUDA) for _ in range(2))
    assert one[0].set != other[0].set
    again = suite.jobs("sum", f"{one[0].set}:5", "float32", ["torch"], CUDA)
    assert [job.shape for job in again] == [job.shape for job in one]


@pytest.fixture(autouse=True)
def _an_h200(monkeypatch: pytest.MonkeyPatch) -> None:
    """Jobs for a GPU are made where there is none, too."""
    h200 = _kernels.Chip(90, 132, 227 * 1024, 90)
    monkeypatch.setattr(_kernels, "chip", lambda device: h200)


def test_what_there_is_not_is_named() -> None:
    for name in ("random:x", "random:1:x", "random:1:2:3", "random:"):
        with pytest.raises(ValueError, match=f"expected random.* got '{name}'"):
            suite.jobs("sum", name, "float32", ["torch"], CPU)
    with pytest.raises(ValueError, match="against: sum on cpu has torch; got 'compile'"):
        suite.jobs("sum", "sum", "float32", ["torch", "compile"], CPU)
    with pytest.raises(ValueError, match=r"expected one of .*squares.* got 'cubes'"):
        suite.jobs("gemm", "cubes", "float32", ["torch"], CPU)
    with pytest.raises(ValueError, match="dtype: tf32 needs a GPU"):
        suite.jobs("gemm", "squares", "tf32", ["torch"], CPU)


def test_picture_holds_every_shipped_set() -> None:
    jobs = suite.picture(CUDA, quick=False)
    counts = Counter((job.op, job.set, str(job.dtype)) for job in jobs)
    assert {set_name for _, set_name, _ in counts} >= {
        *(set_name for sets in suite.SETS.values() for set_name in sets),
        *("random:1", "random:2", "random:3"),
    }
    assert len({set_name for _, set_name, _ in counts if set_name.startswith("random")}) > 3
    assert counts["linear", "llm", "torch.bfloat16"] == 72
    assert {job.op for job in jobs if job.set == suite.LADDER} == {"gemm", "transpose", "sum"}
    assert any(
        job.set == suite.LADDER and job.dtype == torch.bfloat16 and "tensor_core" in names(job)
        for job in jobs
    )
    compiled = [job for job in jobs if {"compile", "compile-max"} & set(names(job))]
    for job in compiled:
        assert job.shape in load(job.set, job.op, marked=True)
    assert {job.op for job in compiled} == {"gemm", "linear", "transpose", "sum"}
    assert all("torch" in names(job) for job in jobs)


def test_quick_picture_is_a_small_part_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(random.SystemRandom, "randrange", lambda self, below: 77)
    quick, whole = (suite.picture(CUDA, quick=quick) for quick in (True, False))
    assert {(job.op, job.set, job.dtype) for job in quick} == {
        (job.op, job.set, job.dtype) for job in whole if job.set != suite.LADDER
    }
    assert "random:77" in {job.set for job in quick}
    assert sum(job.weight() for job in quick) < sum(job.weight() for job in whole) / 5


def test_what_fits_a_cpu_is_chosen_before_the_marked() -> None:
    """No marked square fits."""
    small = suite.jobs("gemm", "squares", "float32", ["torch"], CPU, marked=True, small=True)
    assert [job.shape.m for job in small] == [256, 384, 512, 768]
    both = suite.jobs("transpose", "transpose", "float32", ["torch"], CPU, marked=True, small=True)
    assert [job.shape.sizes for job in both] == [(1024, 1024)]
    assert "gemm" in {job.op for job in suite.picture(CPU, quick=True)}


def test_picture_of_a_cpu_is_small() -> None:
    for job in suite.picture(CPU, quick=False):
        assert suite.fits_a_cpu(job.shape)
        assert {contender.name for contender in job.contenders if contender.peer} <= {
            "torch",
            "copy",
        }


@pytest.mark.usefixtures("hasty")
def test_ladder_retries_a_refusal_at_a_smaller_k(monkeypatch: pytest.MonkeyPatch) -> None:
    original = smem.gemm

    def gemm(a: Tensor, b: Tensor, **kwargs: Any) -> Tensor:
        if kwargs["kernel"] == "panel" and a.size(1) > 256:
            raise RuntimeError(f"smem.gemm: kernel 'panel' takes a K of 256, got {a.size(1)}")
        return original(a, b, **kwargs | {"kernel": "auto"})

    monkeypatch.setattr(smem, "gemm", gemm)
    job = suite.ladder_jobs(CPU, 300)[0]
    whole, again = suite.run(job, CEILINGS, CPU, budget=0.001)
    (refused,) = (row for row in whole if row.status == "n/a")
    assert (refused.name, refused.ms) == ("panel", None)
    assert refused.detail == "smem.gemm: kernel 'panel' takes a K of 256, got 300"
    assert {row.problem for row in again} == {"gemm 300 x 300 x 256 float32"}
    assert [row.name for row in again] == ["panel", "tiled16", "torch"]
    assert {row.status for row in again} == {"ok"}


def test_inputs_that_do_not_fit_into_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    def make_problem(*args: Any) -> problems.Problem:
        raise torch.OutOfMemoryError("tried to allocate a lot\nmore")

    monkeypatch.setattr(suite, "make_problem", make_problem)
    (job, *_) = suite.jobs("gemm", "squares", "float32", ["torch"], CPU)
    (rows,) = suite.run(job, CEILINGS, CPU)
    assert [row.name for row in rows] == ["smem", "torch"]
    assert {(row.status, row.detail) for row in rows} == {("n/a", "tried to allocate a lot")}
    assert rows[0].problem == "gemm 256 x 256 x 256 float32"


@pytest.mark.gpu
@pytest.mark.parametrize("op", ["gemm", "linear"])
def test_tf32_is_float32_where_torch_allows_it(op: str) -> None:
    shape = GemmShape(300, 200, 1000, layout="nt")
    job = suite.Job(
        "s", op, shape, "tf32", suite.jobs(op, "llm", "tf32", ["torch"], CUDA)[0].contenders
    )
    (rows,) = suite.run(job, CEILINGS, CUDA, budget=0.01)
    assert [(row.dtype, row.status) for row in rows] == [("tf32", "ok")] * 2
    assert torch.backends.cuda.matmul.fp32_precision != "tf32"


def test_weights_grow_with_the_work() -> None:
    small, large = (
        suite.Job("s", "gemm", GemmShape(n, n, n), "float32", (suite.rows.ours(),))
        for n in (256, 16384)
    )
    assert 0 < small.weight() < large.weight()
