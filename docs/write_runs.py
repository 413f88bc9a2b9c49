"""Run the commands of some pages, and put what they print there.

PYTHONPATH=. python docs/write_runs.py            # rewrite the pages
PYTHONPATH=. python docs/write_runs.py --check    # exit with 1 if that would change them

A command stands below ``<!-- run -->``, and its output follows it. ``<!-- run: Lines, Check -->``
keeps the paragraphs that begin with one of these words.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import re
import shlex
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from torch_smem_gemm.bench.report import write_or_check
from torch_smem_gemm.cli import main as command

DOCS = Path(__file__).resolve().parent
PAGE, FOLDER = DOCS / "trace_your_kernel.md", DOCS / "examples" / "trace"
PAGES = {  # page -> the folder to run in
    PAGE: FOLDER,
    DOCS / "exercises.md": DOCS.parent / "torch_smem_gemm" / "exercises",
    DOCS / "hopper_gemm.md": DOCS,
}
WIDTH = 120  # characters

_RUN = re.compile(
    r"(?P<head><!-- run(?:: (?P<kept>[^\n]*?))? -->\n```bash\n(?P<command>.*?)```\n\n```text\n)"
    r".*?(?P<end>^```\n)",
    re.M | re.S,
)


@contextlib.contextmanager
def _a_terminal_like_any(work: Path) -> Iterator[None]:
    """In the folder ``work``, without rich, with lines of one width."""
    folder, columns, rich = os.getcwd(), os.environ.get("COLUMNS"), sys.modules.get("rich")
    os.chdir(work)
    os.environ["COLUMNS"] = str(WIDTH)
    sys.modules["rich"] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        os.chdir(folder)
        del os.environ["COLUMNS"], sys.modules["rich"]
        if columns is not None:
            os.environ["COLUMNS"] = columns
        if rich is not None:
            sys.modules["rich"] = rich


def output(line: str, kept: Sequence[str], folder: Path = FOLDER) -> str:
    """Return what a command prints: all of it, or the paragraphs that begin with such words."""
    words = shlex.split(line.replace("\\\n", " "))
    if words[:3] != ["python", "-m", "torch_smem_gemm"]:
        raise ValueError(f"not a command of the package: {line}")
    printed = io.StringIO()
    with _a_terminal_like_any(folder), contextlib.redirect_stdout(printed):
        command(words[3:])
    paragraphs = printed.getvalue().strip("\n").split("\n\n")
    return "\n\n".join(p for p in paragraphs if not kept or p.startswith(tuple(kept))) + "\n"


def _rerun(text: str, folder: Path) -> str:
    """Return a page's text with what its commands print now."""

    def rerun(match: re.Match[str]) -> str:
        kept = match["kept"].split(", ") if match["kept"] else []
        return match["head"] + output(match["command"], kept, folder) + match["end"]

    return _RUN.sub(rerun, text)


def main(argv: Sequence[str] | None = None) -> int:
    """Rewrite or check the pages; returns the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--check", action="store_true", help="only say if they are up to date")
    parser.add_argument("--page", type=Path, help="only this one")
    args = parser.parse_args(argv)

    statuses = []
    for page in [args.page] if args.page else PAGES:
        wanted = _rerun(page.read_text(encoding="utf-8"), PAGES.get(page, FOLDER))
        statuses.append(write_or_check(page, wanted, "the commands' output", check=args.check))
    return max(statuses)


if __name__ == "__main__":
    raise SystemExit(main())
