"""``bench report``: README's tables and docs/performance.md from a results file."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from torch_smem_gemm.bench import report, results

SUMMARY = "write README's tables and docs/performance.md from a results file"
ROOT = Path(__file__).resolve().parents[2]  # of the repository, if this is a checkout
# Option -> its default, relative to the root.
FILES = {
    "results": "bench/results/h200.json",
    "readme": "README.md",
    "performance": "docs/performance.md",
}


def add_parser(what: Any) -> None:
    """Declare the command.

    Args:
        what: argparse's action that holds the subcommands of ``bench``.
    """
    parser = what.add_parser(
        "report", help=SUMMARY, description=f"{SUMMARY[:1].upper()}{SUMMARY[1:]}."
    )
    parser.add_argument(
        "--check", action="store_true", help="write nothing; the exit status is 1 if that would"
    )
    for option, default in FILES.items():
        parser.add_argument(
            f"--{option}", type=Path, metavar="FILE", help=f"default, in a checkout: {default}"
        )
    parser.set_defaults(run_what=run)


def run(args: argparse.Namespace) -> int:
    """Write or check both files; returns 1 if a check fails."""
    source, readme, performance = (_path(args, option) for option in FILES)
    try:
        found = results.load(source)
        shown = readme.read_text(encoding="utf-8")
        wanted = {performance: report.performance(found)}
    except (OSError, ValueError) as error:
        raise SystemExit(f"bench report: {error}") from None
    try:
        wanted[readme] = report.readme(shown, found)
    except ValueError as error:
        raise SystemExit(f"bench report: {readme}: {error}") from None
    old = [path for path, text in wanted.items() if not _has(path, text)]
    for path in old:
        if args.check:
            print(f"{path} does not show {source}: run `python -m torch_smem_gemm bench report`")
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(wanted[path], encoding="utf-8")
            print(f"wrote {path}")
    return int(args.check and bool(old))


def _path(args: argparse.Namespace, option: str) -> Path:
    """The file that was named, else the checkout's."""
    named = getattr(args, option)
    if named is not None:
        return named
    missing = [FILES[name] for name in ("results", "readme") if not (ROOT / FILES[name]).exists()]
    if missing:
        raise SystemExit(
            f"bench report: {ROOT} has no {' and no '.join(missing)}: name the files by "
            + ", ".join(f"--{name}" for name in FILES)
        )
    return ROOT / FILES[option]


def _has(path: Path, text: str) -> bool:
    return path.exists() and path.read_text(encoding="utf-8") == text
