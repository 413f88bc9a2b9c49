"""README's Python runs as it stands."""

import re
from pathlib import Path

import pytest

README = Path(__file__).resolve().parent.parent / "README.md"


def test_its_python(capsys: pytest.CaptureFixture[str]) -> None:
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    start, trace = blocks
    assert start.count("\n") <= 10
    names: dict[str, object] = {}
    exec(compile(start, "README.md", "exec"), names)
    assert capsys.readouterr().out == "['linear1', 'linear2']\n"
    exec(compile(trace, "README.md", "exec"), names)
    counts, conflicts, *lines = capsys.readouterr().out.splitlines()
    assert counts == trace.split("  # ")[1].split(":")[0] == "4224 3968"
    assert conflicts == "0"
    assert any("__syncthreads();" in line for line in lines)
