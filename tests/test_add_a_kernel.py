"""docs/add_a_kernel.md: the kernel on the page works, on the CPU emulator and traced."""

from pathlib import Path
from typing import Any

import pytest
from compile_kernels import PROGRAMS, build, folder, run

DOCS = Path(__file__).resolve().parent.parent / "docs"
if not DOCS.exists():
    pytest.skip("docs/ is not in source packages", allow_module_level=True)

import write_examples  # noqa: E402

EXAMPLES = DOCS / "examples"
BARRIER = "  __syncthreads();\n"


def traced(source: Path, name: str) -> dict[str, Any]:
    """The report of its launch on a matrix of 40 x 45; a wrong result is its ``error``."""
    flags = ["-O0", f'-DSHIPPED_FILE="{source.name}"', "-DSHIPPED=smem::transpose::rotated"]
    program = build(PROGRAMS / "shipped.cpp", flags=flags, overlay=source.parent, name=name)
    return run(program)["rotated"]


def test_the_page_shows_the_source() -> None:
    assert write_examples.main(["--check"]) == 0, "run `PYTHONPATH=. python docs/write_examples.py`"


def test_it_is_right_and_free_of_conflicts() -> None:
    report = traced(EXAMPLES / "rotated.cu", "rotated")
    assert report["error"] == ""
    (launch,) = report["launches"]
    assert launch["faults"] == []
    shared = [row for row in launch["rows"] if row["memory"] == "shared"]
    assert {row["action"] for row in shared} == {"load", "store"}
    assert all(row["wavefronts"] == row["requests"] for row in shared)


def test_without_its_barrier_there_is_a_race() -> None:
    source = folder() / "no_barrier" / "rotated.cu"
    source.parent.mkdir()
    text = (EXAMPLES / "rotated.cu").read_text(encoding="utf-8")
    assert BARRIER in text
    source.write_text(text.replace(BARRIER, ""), encoding="utf-8")
    report = traced(source, "rotated_no_barrier")
    kinds = {fault["kind"] for launch in report["launches"] for fault in launch["faults"]}
    assert "race" in kinds
