"""The memory instructions of a cubin, by source line: what nvdisasm prints, where it is on PATH."""

from __future__ import annotations

import collections
import re
import shutil
import subprocess
from pathlib import Path

_LINE = re.compile(r'//## File "(?P<file>[^"]*)", line (?P<line>\d+)')
_INSTRUCTION = re.compile(
    r"/\*[0-9a-f]+\*/\s+(?:@!?U?P\w+\s+)?"
    r"(?P<opcode>(?:LDG|STG|LDS|STS|LDGSTS|LD|ST|ATOM\w?|REDG?|BAR|SHFL)(?:\.[\w.]+)?)\s"
)


def by_line(cubin: Path) -> list[tuple[str, int, str, int]]:
    """Return file, line, instruction and how often the code has it; nothing without nvdisasm."""
    nvdisasm = shutil.which("nvdisasm")
    if not nvdisasm:
        return []
    command = [nvdisasm, "--print-line-info", str(cubin)]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    place = "", 0
    found: collections.Counter[tuple[str, int, str]] = collections.Counter()
    for line in text.splitlines():
        if match := _LINE.search(line):
            place = match["file"], int(match["line"])
        elif match := _INSTRUCTION.search(line):
            found[(*place, match["opcode"])] += 1
    return [(*key, count) for key, count in sorted(found.items())]
