"""bench/sweep.py: how far a kernel's choice is from the best of its variants."""

import json
from pathlib import Path

import needs_bench  # noqa: F401
import pytest
import sweep
import torch
from gemm_kernels import takes

from torch_smem_gemm.bench.shapes import GemmShape

CPU = torch.device("cpu")


def test_times_are_those_of_the_kernels() -> None:
    times = sweep.time_one(GemmShape(40, 30, 20), torch.float32, CPU, ["naive", "tiled32"])
    assert list(times) == ["naive", "tiled32"]
    assert all(ms > 0 for ms in times.values())


def test_a_wrong_kernel_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweep.smem, "gemm", lambda a, b, **_: torch.zeros(4, 4))
    with pytest.raises(RuntimeError, match=r"^naive on 4 4 4: off by up to"):
        sweep.time_one(GemmShape(4, 4, 4), torch.float32, CPU, ["naive"])


def test_only_variants_that_exist() -> None:
    assert sweep.exists("simt:64x128", torch.float32, CPU)
    assert not sweep.exists("simt:64x128", torch.float64, CPU)
    with pytest.raises(ValueError, match="64x129"):
        sweep.exists("simt:64x129", torch.float32, CPU)


def test_the_choice_is_held_against_the_best_of_the_others() -> None:
    row = sweep.row_of("a set", GemmShape(1, 2, 3), "k", {"k": 3.0, "k:x": 2.0, "k:y": 4.0})
    assert (row["best"], row["regret"], row["shape"]) == ("k:x", 1.5, "1 2 3")


def test_summary() -> None:
    rows = [
        sweep.row_of(name, GemmShape(m, 1, 1), "k", {"k": took, "k:x": 1.0})
        for name, m, took in (("one", 1, 1.0), ("one", 2, 4.0), ("two", 3, 1.0), ("two", 4, 1.1))
    ]
    lines = sweep.summary(rows).splitlines()
    assert lines[0] == (
        "one: 2 problems, slower than the best by 2.500 (median), 2.000 (geometric mean), "
        "4.000 (worst)"
    )
    assert lines[2].startswith("all: 4 problems, slower than the best by 1.050 (median), 1.448 (g")
    assert lines[4] == "  4.000  2 1 1: k:x is better"


def test_problems() -> None:
    found = sweep.shapes(sweep.SETS, 20)
    assert {name for name, _ in found} == {*sweep.SETS, "random"}
    assert sum(name == "random" for name, _ in found) == 20
    assert all(2 * s.batch * s.m * s.n * s.k <= sweep.LARGEST for _, s in found)


def test_variants() -> None:
    assert "wgmma:128x256_cluster2" in sweep.variants("wgmma")
    with pytest.raises(ValueError, match="no GEMM kernel 'naive' that chooses among variants"):
        sweep.variants("naive")


@pytest.mark.gpu
def test_a_sweep_on_a_gpu(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    if not takes("wgmma", torch.float16, "cuda"):
        pytest.skip("wgmma needs a GPU of compute capability 9.0")
    out = tmp_path / "sweep.json"
    assert sweep.main(["--sets", "", "--random", "2", "--out", str(out)]) == 0
    rows = json.loads(out.read_text())["rows"]
    assert [row["set"] for row in rows] == ["random"] * 2
    assert "all: 2 problems" in capsys.readouterr().out
