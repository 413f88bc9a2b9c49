"""Reads the output of a build from standard input and says how far the build is.

ninja prints whole command lines. Here a line has the file that was compiled, how many of how many
are done, and a guess of the time left, by the mean time of the files so far (longest.py). A
terminal shows one such line, written over; what else the build prints is passed on.
"""

import contextlib
import re
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from build_tools.longest import WEIGHT, is_long

DONE = re.compile(r"\[(?P<done>\d+)/(?P<total>\d+)\] .* -c (?P<file>'[^']+'|\S+)")
# Files differ too much in size for a guess after the first few.
SHARE_TO_JUDGE_BY = 0.2
SILENT = "ninja: no work to do."


def lines_of(build: Iterable[str], root: Path, seconds: Iterable[float]) -> Iterator[str]:
    """What to show for each line of the build.

    Args:
        build: the build's lines.
        root: files below it are shown relative to it.
        seconds: since the build began, one for each line of the build.
    """
    longest = 0
    for line, elapsed in zip(build, seconds, strict=False):
        if found := DONE.match(line):
            done, total = int(found["done"]), int(found["total"])
            file = found["file"].strip("'").removeprefix(f"{root}/")
            longest += is_long(file, root)
            left = elapsed / (done + (WEIGHT - 1) * longest) * (total - done)
            text = f"[{done}/{total}] {file}: {elapsed:.0f} s"
            yield f"{text}, about {left:.0f} s left" if done >= SHARE_TO_JUDGE_BY * total else text
        elif line.strip() != SILENT:
            yield line.rstrip("\n")


def clock() -> Iterator[float]:
    begin = time.monotonic()
    while True:
        yield time.monotonic() - begin


def main() -> None:
    is_terminal = sys.stdout.isatty()
    shown = False
    for line in lines_of(sys.stdin, Path.cwd(), clock()):
        over = is_terminal and line.startswith("[")
        sys.stdout.write(("\r\033[K" if shown else "") + line + ("" if over else "\n"))
        sys.stdout.flush()
        shown = over
    if shown:
        sys.stdout.write("\r\033[K")


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):  # make and ninja say that they were interrupted
        main()
