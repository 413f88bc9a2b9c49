"""bench/report.py, and that README shows the measured figures."""

import importlib.util
import json
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="module")
def report() -> ModuleType:
    spec = importlib.util.spec_from_file_location("report", ROOT / "bench" / "report.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def row(name: str, **changes: object) -> dict:
    return {
        "op": "gemm",
        "problem": "gemm 8 x 8 x 8 float32",
        "name": name,
        "kind": "kernel",
        "summary": "what it is",
        "status": "ok",
        "detail": "",
        "ms": 2.0,
        "rate": 1234.0,
        "unit": "GFLOP/s",
        "shares": {"FMA": 0.5},
        "speedup": 1.0,
    } | changes


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    """Arguments that name a README with markers and a results file, both made up."""
    readme, results = tmp_path / "README.md", tmp_path / "results.json"
    readme.write_text("before\n<!-- ladder:begin -->\nold\n<!-- ladder:end -->\nafter\n")
    refused = {"status": "n/a", "detail": "too long a K", "ms": None, "rate": None, "shares": {}}
    results.write_text(
        json.dumps(
            {
                "date": "2026-01-02T03:04:05+00:00",
                "device": "a GPU",
                "versions": {"driver": "1", "torch": "2", "torch_smem_gemm": "3", "commit": "abc"},
                "ceilings": {"copy_gbs": 10.0, "read_gbs": 11.0, "ffma_gflops": 12.0},
                "rows": [
                    row("naive"),
                    row("panel", **refused, speedup=None),
                    row("torch.matmul", kind="torch", summary=""),
                ],
            }
        )
    )
    return ["--readme", str(readme), "--results", str(results)]


def test_writes_between_the_markers_and_checks(report: ModuleType, files: list[str]) -> None:
    assert report.main([*files, "--check"]) == 1
    assert report.main(files) == 0
    assert report.main([*files, "--check"]) == 0
    text = Path(files[1]).read_text()
    assert text.startswith("before\n")
    assert text.endswith("\nafter\n")
    assert "old" not in text
    assert "| `naive` | 2 | 1,234 | 50.0% | 1.00 | what it is |" in text
    assert "| `panel` | n/a |  |  |  | too long a K |" in text
    assert "a GPU" in text
    assert "commit abc" in text


def test_measured_ceilings_are_shown(report: ModuleType, files: list[str]) -> None:
    path = Path(files[3])
    results = json.loads(path.read_text())
    results["ceilings"] |= {"measured_ffma_gflops": 11.5e3, "cublas_bf16_gflops": 790e3}
    path.write_text(json.dumps(results))
    assert report.main(files) == 0
    text = Path(files[1]).read_text()
    assert "float32 FMA 11,500 GFLOP/s (cores × 2 × clock: 12), cuBLAS's bfloat16" in text
    assert "peak 790,000 GFLOP/s." in text


def test_missing_markers_are_named(report: ModuleType, files: list[str]) -> None:
    Path(files[1]).write_text("no markers")
    with pytest.raises(SystemExit, match="ladder:begin"):
        report.main(files)


def test_readme_shows_the_results(report: ModuleType) -> None:
    if not (report.README.exists() and report.RESULTS.exists()):
        pytest.skip("no README or no results yet")
    assert report.main(["--check"]) == 0
