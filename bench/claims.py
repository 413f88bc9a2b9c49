"""Write docs/claims.md: the teaching texts' statements, counted and measured.

    PYTHONPATH=. python bench/claims.py            # rewrite it
    PYTHONPATH=. python bench/claims.py --check    # exit with 1 if that would change anything

Needs the built extension, no GPU: kernels are traced on the CPU, what a GPU measured is read from
bench/results. Takes some ten seconds.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from teaching import global_memory, resources, shared_memory, speed
from teaching.agreement import agreement
from teaching.claim import Claim
from teaching.evidence import COUNTERS, TIMES, TRACED, Evidence

from torch_smem_gemm.bench.report import write_or_check

ROOT = Path(__file__).resolve().parent.parent
DOCUMENT = ROOT / "docs" / "claims.md"

CLAIMS: tuple[Callable[[Evidence], Claim], ...] = (
    shared_memory.bank_conflicts,
    global_memory.tiles_cut_reads,
    global_memory.panel_reads,
    shared_memory.barriers,
    global_memory.intensity,
    resources.occupancy,
    shared_memory.gemm_padding,
    global_memory.wide_loads,
    shared_memory.register_tiles,
    global_memory.coalescing,
    shared_memory.shared_bandwidth,
    resources.capacity,
    speed.tile_speedups,
    speed.share_of_peak,
)


def main(argv: Sequence[str] | None = None) -> int:
    """Rewrite or check the document; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="only say if it is up to date")
    parser.add_argument("--document", type=Path, default=DOCUMENT)
    parser.add_argument("--times", type=Path, default=TIMES, help="of `bench all`")
    parser.add_argument("--counters", type=Path, default=COUNTERS, help="trace_vs_ncu.py's")
    args = parser.parse_args(argv)

    wanted = document(Evidence.load(args.times, args.counters))
    return write_or_check(args.document, wanted, "the results", check=args.check)


def document(evidence: Evidence) -> str:
    """The whole of docs/claims.md."""
    claims = [claim(evidence) for claim in CLAIMS]
    summary = "\n".join(
        f"{number}. {claim.title}: **{claim.judged}**" for number, claim in enumerate(claims, 1)
    )
    sections = [
        introduction(evidence),
        summary,
        *(claim.markdown(number) for number, claim in enumerate(claims, 1)),
        agreement(evidence.counters),
    ]
    return "\n\n".join(sections) + "\n"


def introduction(evidence: Evidence) -> str:
    """What this is, how it is made again, and where its figures come from."""
    sizes = ", ".join(f"{op} {' × '.join(map(str, size))}" for op, size in TRACED.items())
    return f"""# What the texts say, and what is true

The package grew out of teaching texts on shared memory in CUDA. This page checks their statements.
Each is compared with what the kernels do when they are traced (`smem.trace` runs their source on
the CPU), with what Nsight Compute ("ncu") counted when they ran on a GPU, and with their times
there. Verdicts are computed: they change when the figures change.

These commands renew the page. The first two need a GPU; the last one only traces:

```
python -m torch_smem_gemm bench all --json bench/results/{TIMES.name}
PYTHONPATH=. python bench/trace_vs_ncu.py --out bench/results/{COUNTERS.name}
PYTHONPATH=. python bench/claims.py
```

- Times: {_measured_on(evidence.ladder)}.
- Counters: {_measured_on(evidence.counters)}.
- Problems counted by the trace and by ncu: {sizes}, in float32.
- A pass (ncu's wavefront) is one access of all 32 banks at once. A sector is 32 bytes."""


def _measured_on(results: Mapping[str, Any]) -> str:
    versions = results["versions"]
    named = [results["device"], f"driver {versions['driver']}", f"torch {versions['torch']}"]
    named += [f"CUDA {versions['CUDA of the binary']}"]
    named += [f"ncu {versions['ncu']}"] if "ncu" in versions else []
    named += [f"torch_smem_gemm {versions['torch_smem_gemm']}", results["date"][:10]]
    named += [f"commit {versions['commit']}"] if versions["commit"] else []
    return ", ".join(named)


if __name__ == "__main__":
    raise SystemExit(main())
