"""README's Python runs as it stands."""

from pathlib import Path

import pytest
from pages import blocks_of, run

README = Path(__file__).resolve().parent.parent / "README.md"


def test_its_python(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    names: dict[str, object] = {}
    start, trace = blocks_of(README)
    assert start.code.count("\n") <= 10

    def printed() -> str:
        return capsys.readouterr().out

    assert run(start, names, printed, tmp_path) == "['linear1', 'linear2']\n"
    counts, conflicts, *lines = run(trace, names, printed, tmp_path).splitlines()
    assert counts == trace.code.split("  # ")[1].split(":")[0] == "4224 3968"
    assert conflicts == "0"
    assert any("__syncthreads();" in line for line in lines)
