"""Claims about how much shared memory there is, and how many blocks it leaves room for."""

from __future__ import annotations

import re

from teaching.claim import Claim, Part, table
from teaching.evidence import GEMM, Evidence
from torch_smem_gemm import analysis

KIB = 1024
# Chip: KiB of an SM, of a block.
TEXTS_CAPACITY = {"P100": (64, 48), "V100": (96, 96), "A100": (164, 163)}


def occupancy(evidence: Evidence) -> Claim:
    """Blocks of an A100's SM."""
    launch = evidence.trace("gemm", "tiled32").launches[0]
    tiles = analysis.occupancy(launch.threads, 0, launch.shared_bytes, "A100")
    large = analysis.occupancy(256, 0, 32 * KIB, "A100")
    chip = analysis.capability("A100")
    by_shared = tiles.limits["shared memory"]
    before = analysis.capability("V100")
    rows = [
        (
            f"{name}, {found.shared_per_block - chip.shared_reserved:,} B",
            f"{found.shared_per_block:,}",
            *(found.limits[limit] for limit in ("shared memory", "warps", "blocks")),
            f"{found.threads:,} of {chip.threads_per_sm:,}",
            f"{found.percent:.0f}%",
        )
        for name, found in (("`tiled32`", tiles), ("256 threads", large))
    ]
    heads = ["block on an A100", "taken, B", "blocks by shared memory", "by warps"]
    heads += ["SM's most", "threads", "occupancy"]
    return Claim(
        title="Occupancy",
        says="Two tiles of 32 × 32 floats are 8 KB a block, so that 164 / 8 = 20 blocks fit an "
        "A100's SM by shared memory alone. With 32 KB and 256 threads 5 blocks fit: "
        "1280 of 2048 threads, 62%.",
        parts=(
            Part(
                f"20 blocks of {launch.shared_bytes // KIB} KB",
                by_shared == 20,
                f"{by_shared}, since {chip.shared_reserved // KIB} KiB is reserved for each block "
                f"on top of what it asks for; and with {launch.threads:,} threads a block, as "
                f"32 × 32 tiles have, {tiles.blocks}, by {' and '.join(tiles.limit)}",
                chip.shared_reserved > 0,
            ),
            Part(
                "5 blocks of 32 KB and 256 threads, 62%",
                (large.blocks, large.threads) == (5, 1280),
                f"{large.blocks} blocks, {large.threads:,} threads, {large.percent:.0f}%",
                large.limit == ("shared memory",),
            ),
        ),
        figures=table(heads, rows)
        + f"\n\nThe trace finds {launch.shared_bytes:,} B and {launch.threads:,} threads a block "
        f"in `tiled32`. Before compute capability 8.0 nothing is reserved: "
        f"{before.shared_per_sm // launch.shared_bytes} such blocks fit a V100's shared memory. "
        "On a GPU `tests/test_analysis_driver.py` holds this arithmetic against the driver's.",
    )


def capacity(evidence: Evidence) -> Claim:
    """Shared memory by architecture."""
    rows = analysis.capacity_table()
    found = {chip: (row.sm_kib, row.block_kib) for row in rows for chip in row.chips}
    gpu = analysis.capability(evidence.gpu)
    refused = re.search(r"with (\d+) bytes a block", evidence.timed(GEMM, "panel")["detail"])
    measured = ""
    if refused:
        told = int(refused[1])
        agrees = "as in the table" if told == gpu.shared_per_block else "not as in the table"
        measured = (
            f"\n\nThe {evidence.gpu.name} itself allows a block {told:,} B, {told // KIB} KiB, "
            f"{agrees}."
        )
    return Claim(
        title="Capacity",
        says="An SM of P100 has 64 KB of shared memory, of which a block may have 48, "
        "V100 96 and 96, A100 164 and 163.",
        parts=tuple(
            Part(
                f"{chip}: {sm} and {block}",
                found.get(chip) == (sm, block),
                "{} and {}".format(*found[chip]) if chip in found else "",
            )
            for chip, (sm, block) in TEXTS_CAPACITY.items()
        ),
        figures=table(
            ["chips", "compute capability", "KiB an SM", "a block at most"],
            [(", ".join(row.chips), row.capability, row.sm_kib, row.block_kib) for row in rows],
        )
        + "\n\nAbove 48 KiB a kernel must opt in. From NVIDIA's documents, not counted; sources "
        f"in `torch_smem_gemm/analysis/capabilities.py`.{measured}",
    )
