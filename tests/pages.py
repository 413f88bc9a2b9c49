"""Runs the Python of a Markdown file: what a page shows is so.

The blocks of a page are run in order and share their names, as if typed into one session.

- ``python``: run as it stands. What it prints is the ``text`` block right after it, and nothing
  where there is none.
- ``python`` whose first line is ``# torchrun ARGUMENTS FILE``: a program, run by that command.
- ``pycon``: a session, whose answers are checked as doctest does.

Blocks of other languages (``py`` too) are not run.
"""

import doctest
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
_BLOCK = re.compile(r"^```(python|pycon)\n(.*?)^```\n(?:\n```text\n(.*?)^```\n)?", re.M | re.S)


@dataclass(frozen=True)
class Block:
    """A block that is run, and what it prints."""

    path: Path
    line: int  # of its fence
    language: str
    code: str
    output: str

    @property
    def place(self) -> str:
        """File and line of the first line of code, for people."""
        return f"{self.path.name}:{self.line + 1}"


def blocks_of(path: Path) -> list[Block]:
    """The blocks of a page that are run, in order."""
    text = path.read_text(encoding="utf-8")
    return [
        Block(path, text.count("\n", 0, found.start()) + 1, found[1], found[2], found[3] or "")
        for found in _BLOCK.finditer(text)
    ]


def run(block: Block, names: dict[str, Any], printed: Callable[[], str], folder: Path) -> str:
    """Run a block in ``names`` and return what it printed, by ``printed`` (capsys).

    ``folder`` is where programs are written.
    """
    if block.language == "pycon":
        return _run_session(block, names)
    if block.code.startswith("# torchrun "):
        return _run_program(block, folder)
    # Empty lines before it, so that tracebacks have the lines of the page.
    exec(compile("\n" * block.line + block.code, str(block.path), "exec"), names)
    return printed()


def _run_session(block: Block, names: dict[str, Any]) -> str:
    test = doctest.DocTestParser().get_doctest(
        block.code, {}, block.place, str(block.path), block.line
    )
    test.globs = names
    report: list[str] = []
    failed = doctest.DocTestRunner(verbose=False).run(test, out=report.append, clear_globs=False)
    assert not failed.failed, "".join(report)
    return ""


def _run_program(block: Block, folder: Path) -> str:
    """By torch's launcher, on CPUs; returns what the processes printed, without their warnings."""
    *options, name = shlex.split(block.code.partition("\n")[0])[2:]
    file = folder / name
    file.write_text(block.code, encoding="utf-8")
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", *options, str(file)]
    environment = os.environ | {
        "PYTHONPATH": str(ROOT),
        "OMP_NUM_THREADS": "1",
        "GLOO_SOCKET_IFNAME": "lo",  # a host's own name need not be known to it
        "CUDA_VISIBLE_DEVICES": "",
    }
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=280, check=False
    )
    assert done.returncode == 0, f"{block.place}:\n{done.stdout}{done.stderr}"
    return done.stdout
