"""README's quick start runs as it stands."""

import re
from pathlib import Path

import pytest

README = Path(__file__).resolve().parent.parent / "README.md"


def test_quick_start(capsys: pytest.CaptureFixture[str]) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    assert code.count("\n") <= 10
    exec(compile(code, "README.md", "exec"), {})
    assert capsys.readouterr().out == "['linear1', 'linear2']\n"
