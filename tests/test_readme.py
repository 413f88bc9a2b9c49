"""README's Python runs as it stands."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from pages import blocks_of, run

from torch_smem_gemm.bench import results

ROOT = Path(__file__).resolve().parent.parent
README = ROOT / "README.md"
RESULTS = ROOT / "bench" / "results"
in_a_checkout = pytest.mark.skipif(not RESULTS.exists(), reason="bench/ is not in source packages")


def test_its_python(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names: dict[str, Any] = {}
    start, trace, raw_kernel = blocks_of(README)
    assert start.code.count("\n") <= 10

    def printed() -> str:
        return capsys.readouterr().out

    assert run(start, names, printed, tmp_path) == "['linear1', 'linear2']\n"
    counts, conflicts, *lines = run(trace, names, printed, tmp_path).splitlines()
    assert counts == trace.code.split("  # ")[1].split(":")[0] == "4224 3968"
    assert conflicts == "0"
    assert any("__syncthreads();" in line for line in lines)
    monkeypatch.chdir(tmp_path)
    shutil.copy(ROOT / "docs" / "examples" / "trace" / "tiled.cu", "my.cu")
    names |= {"x": torch.randn(256, 256), "out": torch.empty(256, 256)}
    assert "No faults in transpose" in run(raw_kernel, names, printed, tmp_path)
    assert torch.equal(names["out"], names["x"].T)


def test_it_fits_on_a_few_screens() -> None:
    assert README.read_text(encoding="utf-8").count("\n") <= 180


@in_a_checkout
def test_float32_is_as_fast_as_it_says() -> None:
    rows = results.load(RESULTS / "h200.json")["rows"]
    ratios = [
        row.ratios["torch"].median
        for row in rows
        if (row.set, row.dtype, row.name) == ("squares", "float32", "smem")
        and int(row.shape.split()[0]) >= 1024
    ]
    said = f"squares run at {min(ratios):.1f} to {max(ratios):.1f} times SGEMM's speed"
    assert said in README.read_text(encoding="utf-8")


@in_a_checkout
def test_float32_is_as_exact_as_it_says() -> None:
    found = json.loads((RESULTS / "accuracy-h200.json").read_text(encoding="utf-8"))
    (errors,) = (r["errors"] for r in found["rows"] if (r["data"], r["k"]) == ("normal", 4096))
    ours, sgemm = (f"{errors[way][0]:.1e}" for way in ("fp16x3", "cuBLAS"))
    said = f"the error of the norm is {ours}, and cuBLAS SGEMM's is {sgemm}."
    assert said in README.read_text(encoding="utf-8")


@in_a_checkout
def test_other_gpus_kernels_are_as_fast_as_it_says() -> None:
    """Beside torch, on the ladders' problems."""
    rows = results.load(RESULTS / "h200.json")["rows"]

    def share(kernel: str, dtype: str) -> str:
        rates = {
            row.name: row.rate
            for row in rows
            if row.set == "ladder" and row.problem == f"gemm 4096 x 4096 x 4096 {dtype}"
        }
        return f"{rates[kernel] / rates['torch']:.0%}"

    said = f"`simt` {share('simt', 'float32')} of cuBLAS's speed"
    assert said in README.read_text(encoding="utf-8")
