"""Finds words that standard terms have replaced here: ``python -m build_tools.retired_words``.

A word is listed only if no file of this repository has a correct use for it.
"""

import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

# Regular expression: what to write instead.
RETIRED = {
    r"(?i)(?<!streaming )\bmultiprocessors?\b": "SM",  # CUDA's names join it to others
    r"(?i)\bcopy engines?\b": "TMA",
    r"\bhost_run\b": "cpu_emulator",
    r"\bfew_rows\b": "skinny_m",
    r"\bSoFar\b|\bso_far\b": "RunningScale, running_scale",
    r"\bTOLD(_AS)?\b": "layout pair",
    r"\bLies?\b": "Layout, LoadMode",
    r"\blet_next_begin\b": "launch_dependent_grids",
    r"\bwait_for_previous\b": "wait_on_dependent_grids",
    r"\b(give|take)_registers\b": "warpgroup_reg_dealloc, warpgroup_reg_alloc",
    r"\barrive_expecting\b": "arrive_and_expect_tx",
    r"\bpublish_barriers\b": "fence_barrier_init",
    r"\bbegin_products\b": "warpgroup_arrive",
    r"\bend_product_group\b": "warpgroup_commit_batch",
    r"\bwait_for_products\b": "warpgroup_wait",
    r"\b(load|store)_box\b": "tma_load, tma_store",
    r"\b(copy_async|commit_copies|wait_for_(groups|copies))\b": "cp_async, cp_async_wait",
    r"\bgemm/lanes\b|\blanes/\w+\.(h|cu|cpp)\b": "gemm/simt",
    r"\bgemm/(halves|split)\b|\bhalves/\w+\.(h|cu|cpp)\b": "gemm/fp16x3",
    r"\bhopper/": "sm90/",
    r"\bcsrc/sum\b": "csrc/reduce",
    r"\d+x\d+_thrice\b": "64x64_3cta",
    r"\d+x\d+_pair\b": "_cluster2",
}
_PATTERNS = [(re.compile(pattern), instead) for pattern, instead in RETIRED.items()]

FOLDERS = (
    ".github",
    "bench",
    "build_tools",
    "csrc",
    "docs",
    "examples",
    "tests",
    "torch_smem_gemm",
)
SUFFIXES = {".cpp", ".cu", ".cuh", ".h", ".md", ".py", ".pyi", ".toml", ".txt", ".yml"}


def findings(name: str, text: str) -> Iterator[str]:
    """Yield "name:line: word: write ..." for each retired word of a file."""
    for number, line in enumerate(text.splitlines(), 1):
        for pattern, instead in _PATTERNS:
            for found in pattern.finditer(line):
                yield f"{name}:{number}: {found[0]!r} is retired, write {instead}"


def default_files() -> list[Path]:
    """All texts but results, which keep the names of their time, and this list and its test."""
    files = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*")]
    files += ROOT.iterdir()
    named = (path for path in files if path.suffix in SUFFIXES or path.name == "Makefile")
    own = (Path(__file__).resolve(), ROOT / "tests" / "test_build_tools.py")
    return sorted(path for path in named if path.is_file() and path.resolve() not in own)


def main(files: Iterable[Path] | None = None) -> int:
    """Print the findings; return 1 if there are any."""
    found = 0
    for path in files or default_files():
        for line in findings(str(path.relative_to(ROOT)), path.read_text(encoding="utf-8")):
            print(line)
            found += 1
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main([Path(argument).resolve() for argument in sys.argv[1:]]))
