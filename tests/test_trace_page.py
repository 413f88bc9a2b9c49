"""docs/trace_your_kernel.md and exercises.md: their commands print what the pages show."""

from pathlib import Path

import pytest

from torch_smem_gemm.exercises import EXERCISES

DOCS = Path(__file__).resolve().parent.parent / "docs"
if not DOCS.exists():
    pytest.skip("docs/ is not in source packages", allow_module_level=True)

import write_runs  # noqa: E402


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SMEM_CACHE_DIR", str(tmp_path / "kernels"))


def test_the_page_shows_what_the_commands_print() -> None:
    assert write_runs.main(["--check"]) == 0, "run `PYTHONPATH=. python docs/write_runs.py`"
    page = write_runs.PAGE.read_text(encoding="utf-8")
    assert page.count("<!-- run") == page.count("```bash\n") == 5
    for text in ("Sectors: naive.cu:4", "Bank conflicts: tiled.cu:15", "FAULT: race", "No line"):
        assert text in page


def test_the_exercises_page_shows_every_skeleton() -> None:
    page = (DOCS / "exercises.md").read_text(encoding="utf-8")
    for name in EXERCISES:
        assert (
            f"<!-- run -->\n```bash\npython -m torch_smem_gemm exercise {name} {name}.cu\n" in page
        )


def test_check_finds_a_page_that_shows_something_else(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "page.md"
    command = "python -m torch_smem_gemm trace naive.cu --grid 1 --block 1 --arg None --arg None"
    page.write_text(f"<!-- run: FAULT -->\n```bash\n{command} --arg 1\n```\n\n```text\n```\n")
    assert write_runs.main(["--check", "--page", str(page)]) == 1
    assert "does not show the commands' output" in capsys.readouterr().out
    assert write_runs.main(["--page", str(page)]) == 0
    assert "FAULT: null" in page.read_text() or "FAULT: out of bounds" in page.read_text()
    assert write_runs.main(["--check", "--page", str(page)]) == 0


def test_only_commands_of_the_package_are_run() -> None:
    with pytest.raises(ValueError, match="not a command of the package"):
        write_runs.output("rm -r /", [])
