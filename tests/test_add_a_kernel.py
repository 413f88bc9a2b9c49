"""docs/add_a_kernel.md: the kernel on the page works, on the CPU emulator and traced."""

from pathlib import Path

import pytest
from compile_kernels import Recorded, folder, trace_shipped

DOCS = Path(__file__).resolve().parent.parent / "docs"
if not DOCS.exists():
    pytest.skip("docs/ is not in source packages", allow_module_level=True)

import write_examples  # noqa: E402

EXAMPLES = DOCS / "examples"
BARRIER = "  __syncthreads();\n"


def traced(source: Path, name: str) -> Recorded:
    """Its launch on a matrix of 40 x 45; a wrong result is its ``error``."""
    kernel = "transpose::rotated"
    return trace_shipped(source.name, kernel, overlay=source.parent, name=name)["rotated"]


def test_the_page_shows_the_source() -> None:
    assert write_examples.main(["--check"]) == 0, "run `PYTHONPATH=. python docs/write_examples.py`"


@pytest.mark.sweep
def test_it_is_right_and_free_of_conflicts() -> None:
    recorded = traced(EXAMPLES / "rotated.cu", "rotated")
    assert (recorded.error, recorded.faults) == ("", [])
    (launch,) = recorded.launches
    shared = [line for line in launch.lines if line.memory == "shared"]
    assert {line.action for line in shared} == {"load", "store"}
    assert all(line.wavefronts == line.requests for line in shared)


@pytest.mark.sweep
def test_without_its_barrier_there_is_a_race() -> None:
    source = folder() / "no_barrier" / "rotated.cu"
    source.parent.mkdir()
    text = (EXAMPLES / "rotated.cu").read_text(encoding="utf-8")
    assert BARRIER in text
    source.write_text(text.replace(BARRIER, ""), encoding="utf-8")
    faults = traced(source, "rotated_no_barrier").faults
    assert "race" in {fault.kind for fault in faults}
