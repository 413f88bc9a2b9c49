"""Claims about what kernels read from and write to global memory."""

from __future__ import annotations

from teaching.claim import Claim, Part, listed, table
from teaching.evidence import GEMM, SHORT_GEMM, TRANSPOSE, Evidence, Pair, near
from torch_smem_gemm import analysis
from torch_smem_gemm.trace_report import LOADS, SECTOR

FLOAT = 4  # bytes
PANEL_TILE = 16
FULL = 4096  # rows, columns and K of evidence.GEMM


def _elements(evidence: Evidence, kernel: str) -> float:
    """Elements of A and B that a GEMM's threads read."""
    return evidence.trace("gemm", kernel).global_bytes_loaded / FLOAT


def _sizes(evidence: Evidence) -> tuple[int, int, int]:
    a, b = (evidence.trace("gemm", "naive").shapes[name] for name in "01")
    return a[0], b[1], a[1]


def _cubed(sizes: tuple[int, int, int]) -> str:
    return " × ".join(map(str, sizes))


def tiles_cut_reads(evidence: Evidence) -> Claim:
    """By TILE?"""
    sizes = _sizes(evidence)
    tiles = {"naive": 1, "tiled16": 16, "tiled32": 32, "register_tiled": 128}
    read = {name: _elements(evidence, name) for name in tiles}
    sectors = {name: evidence.count("gemm", name, "global load sectors") for name in tiles}
    cut = {name: read["naive"] / read[name] for name in tiles}
    asked = {name: sectors["naive"] / sectors[name] for name in tiles}
    by_formula = all(
        near(read[name], analysis.gemm_reads(*sizes, tile)) for name, tile in tiles.items()
    )
    at_full = [analysis.gemm_reads(FULL, FULL, FULL, tile) for tile in (1, 32)]
    heads = [f"GEMM {_cubed(sizes)}", "elements that threads read (trace)", "naive has times"]
    heads += ["sectors asked for: trace", "ncu", "naive has times"]
    rows = [
        (
            f"`{name}`",
            f"{read[name]:,.0f}",
            f"{cut[name]:.1f}",
            *sectors[name].cells(),
            f"{asked[name].ncu:.1f}",
        )
        for name in tiles
    ]
    return Claim(
        title="Tiles cut global reads",
        says="The naive GEMM reads 2·M·N·K elements of global memory. Tiles in shared memory cut "
        "that by TILE: for 4096³ and tiles of 32 from 137e9 to 4.3e9. The traffic falls as much.",
        parts=(
            Part(
                "the naive kernel's threads read 2·M·N·K elements",
                near(read["naive"], 2 * sizes[0] * sizes[1] * sizes[2]),
            ),
            Part(
                "tiles of 16 and 32 make it 16 and 32 times less",
                all(near(cut[name], tiles[name]) for name in ("tiled16", "tiled32")),
            ),
            Part(
                "at 4096³ that is from 137e9 to 4.3e9 (by the formula that fits the counts above)",
                by_formula and near(at_full[0], 137e9) and near(at_full[1], 4.3e9),
            ),
            Part(
                "the traffic falls by 16 and 32",
                all(asked[name].near(tiles[name]) for name in ("tiled16", "tiled32")),
                f"by {listed([f'{asked[name].ncu:.0f}' for name in ('tiled16', 'tiled32')])}. "
                "A warp's threads that read the same element of A read it once, and memory is "
                f"asked for sectors of {SECTOR} bytes: the naive kernel asks for "
                f"{read['naive'] * FLOAT / (sectors['naive'].ncu * SECTOR):.1f} times less than "
                "its threads read",
                near(sectors["naive"].trace, sectors["naive"].ncu),
            ),
        ),
        figures=table(heads, rows),
    )


def panel_reads(evidence: Evidence) -> Claim:
    """V1."""
    m, n, k = _sizes(evidence)
    once = m * k + k * n
    counted = Pair(
        _elements(evidence, "panel"),
        evidence.count("gemm", "panel", "global load bytes").ncu / FLOAT,
    )
    right = analysis.gemm_reads(m, n, k, PANEL_TILE)
    gpu = analysis.capability(evidence.gpu)
    conflicts = evidence.count("gemm", "panel", "shared load conflicts")
    held = analysis.occupancy(PANEL_TILE**2, 0, 2 * PANEL_TILE * 1024 * FLOAT, gpu).blocks
    limits = [
        size // (2 * PANEL_TILE * FLOAT) for size in (gpu.shared_default, gpu.shared_per_block)
    ]
    ms = {name: evidence.ms(SHORT_GEMM, name) for name in ("panel", "tiled16")}
    heads = [f"GEMM {_cubed((m, n, k))}", "elements read: trace", "ncu"]
    rows = [
        ("`panel`", *counted.cells(",.0f")),
        ("M·K + K·N", f"{once:,}", ""),
        ("M·K·⌈N/16⌉ + K·N·⌈M/16⌉", f"{right:,}", ""),
        ("`tiled16`", f"{_elements(evidence, 'tiled16'):,.0f}", ""),
    ]
    return Claim(
        title="The whole K panel in shared memory",
        says="With the block's rows of A and columns of B in shared memory (V1), global reads "
        "fall to M·K + K·N: each element is read once.",
        parts=(
            Part(
                "global reads are M·K + K·N",
                counted.near(once),
                "M·K·⌈N/16⌉ + K·N·⌈M/16⌉, because every block reads its own panels: as many as "
                "the tiles of 16 that slide along K",
                counted.near(right) and near(right, _elements(evidence, "tiled16")),
            ),
        ),
        figures=table(heads, rows)
        + "\n\nBoth panels take 2·16·K elements of shared memory, so for float32 on the "
        f"{evidence.gpu.name} K is at most {limits[0]:,}, or {limits[1]:,} after opting in. "
        f"At 4096 × 4096 × 1024 `panel` takes {ms['panel']:.2f} ms and `tiled16` "
        f"{ms['tiled16']:.2f}: an SM then holds {held} of its blocks at a time, so that "
        "nothing hides its loads, and a warp reads two rows of A's panel, in one bank where K is "
        f"a multiple of 32 (at {_cubed((m, n, k))} {conflicts.trace:,} conflicts by the trace, "
        f"{conflicts.ncu:,} by ncu).",
    )


def wide_loads(evidence: Evidence) -> Claim:
    """float4."""
    counters = ("global load requests", "shared load requests", "shared store requests")
    narrow, wide = (
        {name: evidence.count("gemm", kernel, name) for name in counters}
        for kernel in ("tiled32", "vectorized")
    )
    ratio = {name: narrow[name] / wide[name] for name in counters}
    rows = [
        (
            name.replace(" requests", "s"),
            *narrow[name].cells(),
            *wide[name].cells(),
            f"{ratio[name].ncu:.2f}",
        )
        for name in counters
    ]
    heads = ["instructions of warps", "`tiled32`: trace", "ncu", "`vectorized`: trace", "ncu"]
    ms = {name: evidence.ms(GEMM, name) for name in ("tiled32", "vectorized")}
    return Claim(
        title="float4 loads",
        says="Loading four floats at once takes a quarter of the load instructions, in global and "
        "in shared memory.",
        parts=tuple(
            Part(
                f"a quarter of the {name.replace(' requests', 's')}",
                ratio[name].near(4),
                f"1 of {ratio[name].ncu:.1f}",
                near(ratio[name].trace, ratio[name].ncu),
            )
            for name in counters
        ),
        figures=table([*heads, "times fewer"], rows)
        + "\n\nBytes and tiles are the same; a thread now computes four neighbours of C. At "
        f"4096³: {ms['tiled32']:.2f} ms become {ms['vectorized']:.2f}.",
    )


def coalescing(evidence: Evidence) -> Claim:
    """Stores down a column."""

    def of(kernel: str, name: str) -> Pair:
        return evidence.count("transpose", kernel, f"global store {name}")

    def sectors(kernel: str) -> Pair:
        return of(kernel, "sectors") / of(kernel, "requests")

    def filled(kernel: str) -> Pair:
        return of(kernel, "bytes") / of(kernel, "sectors") / SECTOR

    speed = {name: evidence.rate(TRANSPOSE, name) for name in ("naive", "padded")}
    rows = [
        (f"`{name}`", *sectors(name).cells("g"), *filled(name).cells(".1%"), f"{speed[name]:,.0f}")
        for name in speed
    ]
    heads = ["transpose", "sectors a store: trace", "ncu", "of them filled: trace", "ncu", "GB/s"]
    return Claim(
        title="Coalescing",
        says="A transpose that reads rows and writes columns spoils its stores: a warp writes to "
        "32 sectors and fills an eighth of each. By way of shared memory it writes whole sectors.",
        parts=(
            Part("a warp's store touches 32 sectors", sectors("naive").near(32)),
            Part("it fills an eighth of them", filled("naive").near(1 / 8)),
            Part("by way of shared memory all of them are full", filled("padded").near(1)),
            Part(
                "that makes it faster",
                speed["padded"] > 1.05 * speed["naive"],
                "it does not",
            ),
        ),
        figures=table(heads, rows)
        + f"\n\nEight times the sectors cost {speed['padded'] / speed['naive']:.1f} times the "
        "time.",
    )


def _intensity(evidence: Evidence, kernel: str) -> float:
    """FLOP of the products for a byte that threads load."""
    trace = evidence.trace("gemm", kernel)
    fma = sum(launch.fma for launch in trace.launches)
    return 2 * fma / trace.count("bytes", actions=LOADS, memory="global")


def intensity(evidence: Evidence) -> Claim:
    """And the roofline."""
    gpu = evidence.gpu
    expected = {"naive": 0.25, "tiled16": 4, "tiled32": 8}
    found = {name: _intensity(evidence, name) for name in expected}
    a100 = {name: analysis.roofline(flop, 1, "A100") for name, flop in found.items()}
    here = {name: analysis.roofline(flop, 1, gpu) for name, flop in found.items()}
    reached = {name: evidence.rate(GEMM, name) for name in expected}
    loaded = FLOAT * analysis.gemm_reads(FULL, FULL, FULL) / evidence.ms(GEMM, "naive") / 1e9
    rows = [
        (
            f"`{name}`",
            f"{found[name]:g}",
            f"{a100[name].gflops:,.0f} ({a100[name].fraction:.0%})",
            f"{here[name].gflops:,.0f} ({here[name].fraction:.0%})",
            f"{reached[name]:,.0f} ({reached[name] / here[name].peak_gflops:.0%})",
        )
        for name in expected
    ]
    heads = ["GEMM", "FLOP/B (trace)", "A100's roofline, GFLOP/s", f"{gpu.name}'s roofline"]
    return Claim(
        title="Arithmetic intensity",
        says="The naive GEMM makes 2 FLOP of 8 bytes, 0.25 FLOP/B, tiles of 16 make 4 FLOP/B. The "
        "roofline then gives an A100 (1555 GB/s, 19.5 TFLOP/s) at most 389 GFLOP/s, 2% of its "
        "peak, and 6220, 32%.",
        parts=(
            Part(
                f"{listed([f'{flop:g}' for flop in expected.values()])} FLOP for each byte that "
                "threads load, by the naive kernel and tiles of 16 and 32",
                all(near(found[name], flop) for name, flop in expected.items()),
            ),
            Part(
                "389 GFLOP/s are 2% of an A100's peak, 6220 are 32%",
                near(a100["naive"].gflops, 389)
                and near(a100["tiled16"].gflops, 6220)
                and [f"{a100[name].fraction:.0%}" for name in ("naive", "tiled16")]
                == ["2%", "32%"],
            ),
            Part(
                f"so much is the most that the kernels can reach (on an {gpu.name} "
                f"{listed([f'{here[name].gflops:,.0f}' for name in ('naive', 'tiled16')])})",
                all(reached[name] <= here[name].gflops for name in ("naive", "tiled16")),
                f"`naive` reaches {reached['naive']:,.0f} GFLOP/s, "
                f"{reached['naive'] / here['naive'].gflops:.1f} times its roofline. The roofline "
                "counts bytes of DRAM, not of threads: the naive kernel's threads load "
                f"{loaded:.1f} TB/s where DRAM gives {gpu.bandwidth_gbs / 1000:.1f}, so most of "
                "it is read once for a whole warp, or comes from the caches",
                loaded * 1000 > gpu.bandwidth_gbs,
            ),
        ),
        figures=table([*heads, f"{gpu.name} reached at 4096³"], rows),
    )
