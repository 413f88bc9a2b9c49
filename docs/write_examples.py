"""Put the sources of docs/examples into the pages that explain them.

PYTHONPATH=. python docs/write_examples.py            # rewrite the pages
PYTHONPATH=. python docs/write_examples.py --check    # exit with 1 if that would change them
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from torch_smem_gemm.bench.report import between, write_or_check

DOCS = Path(__file__).resolve().parent
EXAMPLES = {  # marker -> page, source
    "rotated": ("add_a_kernel.md", "examples/rotated.cu"),
    "naive": ("trace_your_kernel.md", "examples/trace/naive.cu"),
    "tiled": ("trace_your_kernel.md", "examples/trace/tiled.cu"),
    "sum": ("trace_your_kernel.md", "examples/trace/sum.cu"),
}


def main(argv: Sequence[str] | None = None) -> int:
    """Rewrite or check the pages; returns the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--check", action="store_true", help="only say if they are up to date")
    args = parser.parse_args(argv)
    statuses = []
    for marker, (page, source) in EXAMPLES.items():
        file, code = DOCS / page, (DOCS / source).read_text(encoding="utf-8")
        shown = file.read_text(encoding="utf-8")
        wanted = between(shown, marker, f"```cpp\n{code}```")
        statuses.append(write_or_check(file, wanted, source, check=args.check))
    return max(statuses)


if __name__ == "__main__":
    raise SystemExit(main())
