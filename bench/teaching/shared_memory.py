"""Claims about banks, padding, barriers, register tiles and shared memory's bandwidth."""

from __future__ import annotations

from itertools import pairwise

from teaching.claim import Claim, Part, table
from teaching.evidence import GEMM, SUM, TRANSPOSE, Evidence, Pair, near
from torch_smem_gemm import analysis

WARP = 32  # threads
PASS = 128  # bytes that all banks give at once
TIMED_GEMM = 4096  # rows, columns and K of evidence.GEMM


def bank_conflicts(evidence: Evidence) -> Claim:
    """Columns of a tile, with and without padding."""

    def of(kernel: str, name: str) -> Pair:
        return evidence.count("transpose", kernel, f"shared load {name}")

    def passes(kernel: str) -> Pair:
        return of(kernel, "wavefronts") / of(kernel, "requests")

    broadcasts = _passes_of_broadcasts(evidence, "tiled32_padded")
    speed = {name: evidence.rate(TRANSPOSE, name) for name in ("tiled", "padded")}
    rows = [
        (
            f"`{kernel}`",
            f"{of(kernel, 'requests').trace:,}",
            *of(kernel, "wavefronts").cells(),
            *of(kernel, "conflicts").cells(),
            f"{speed[kernel]:,.0f}",
        )
        for kernel in speed
    ]
    heads = ["transpose", "warps' reads of columns", "passes: trace", "ncu"]
    heads += ["of these conflicts: trace", "ncu", "GB/s"]
    column, padded = (
        analysis.banks(analysis.tile_addresses(lambda lane: (lane, 0), pitch)).ways
        for pitch in (32, 33)
    )
    return Claim(
        title="Banks",
        says="The bank of a byte is (address / 4) mod 32. Lanes that read the same word are served "
        "at once, n different words of one bank one after the other. Down a column of a tile 32 "
        "wide that makes 32 passes; a pitch of 33 cures it.",
        parts=(
            Part(
                "a column read at pitch 32 takes 32 passes",
                passes("tiled").near(column) and column == 32,
            ),
            Part(
                "at pitch 33 it takes one",
                passes("padded").near(padded) and padded == 1,
                f"{passes('padded').ncu:.2f} passes",
            ),
            Part(
                "a broadcast is free (in the GEMM `tiled32_padded` every other load is one: all "
                "loads take one pass)",
                broadcasts.near(1),
                f"{broadcasts.ncu:.2f} passes a load",
            ),
            Part(
                "the cure is worth having",
                speed["padded"] > 1.05 * speed["tiled"],
                "it brings nothing",
            ),
        ),
        figures=table(heads, rows)
        + f"\n\nWithout its conflicts the transpose runs at {speed['padded'] / speed['tiled']:.2f} "
        "times the speed.",
    )


def _passes_of_broadcasts(evidence: Evidence, kernel: str) -> Pair:
    """Passes of a load by which a warp reads one word; for ncu, of any of the GEMM's loads."""
    lines = [
        line
        for line in evidence.trace("gemm", kernel).launches[0].lines
        if (line.action, line.memory) == ("load", "shared")
        and line.distinct_bytes == line.requests * line.bytes_a_lane
    ]
    requests = sum(line.requests for line in lines)
    every = evidence.count("gemm", kernel, "shared load wavefronts")
    every /= evidence.count("gemm", kernel, "shared load requests")
    return Pair(sum(line.wavefronts for line in lines) / requests, every.ncu)


def gemm_padding(evidence: Evidence) -> Claim:
    """tiled32_padded."""

    def of(kernel: str, name: str) -> Pair:
        return evidence.count("gemm", kernel, f"shared {name}")

    def conflicting(kernel: str) -> Pair:
        return of(kernel, "load conflicts") / of(kernel, "load wavefronts")

    kernels = ("tiled32", "tiled32_padded")
    ms = {kernel: evidence.ms(GEMM, kernel) for kernel in kernels}
    rows = [
        (
            f"`{kernel}`",
            *of(kernel, "load conflicts").cells(),
            *of(kernel, "load requests").cells(),
            f"{evidence.opcodes('gemm', kernel, 'LDS.128'):,}",
            *of(kernel, "load wavefronts").cells(),
            f"{ms[kernel]:.2f}",
        )
        for kernel in kernels
    ]
    heads = ["GEMM", "conflicts: trace", "ncu", "loads: trace", "ncu", "of them LDS.128"]
    heads += ["passes: trace", "ncu", "ms at 4096³"]
    four_rows = [
        analysis.banks(analysis.tile_addresses(lambda lane: (lane // 8, 0), pitch)).ways
        for pitch in (32, 36)
    ]
    none_to_remove = conflicting("tiled32").are(lambda share: share < 0.01)
    removed = conflicting("tiled32").are(lambda share: share > 0.01) and conflicting(
        "tiled32_padded"
    ).are(lambda share: share < 0.01)
    return Claim(
        title="Padding a GEMM's tiles",
        says="Tiles of 32 × 33 instead of 32 × 32 free the tiled GEMM of its bank conflicts and "
        "make it faster.",
        parts=(
            Part(
                "padding removes conflicts",
                removed,
                "this GEMM has none. A warp is a row of C: it reads one word of A's tile (a "
                "broadcast) and 32 neighbours of B's",
                none_to_remove,
            ),
            Part(
                "padding makes it faster",
                ms["tiled32_padded"] < 0.98 * ms["tiled32"],
                f"it takes {ms['tiled32_padded'] / ms['tiled32']:.2f} times as long. At an odd "
                "pitch four neighbours do not lie on 16 bytes, so that nvcc cannot make one "
                "LDS.128 of four loads",
                of("tiled32_padded", "load requests").ncu > of("tiled32", "load requests").ncu,
            ),
        ),
        figures=table(heads, rows)
        + "\n\nThe shape of the warp decides. Where it covers four rows of C, as in `vectorized`, "
        f"its read of A's tile is a {four_rows[0]}-way conflict at pitch 32 and "
        f"{four_rows[1]}-way, that is none, at pitch 36: there padding is right.",
    )


def barriers(evidence: Evidence) -> Claim:
    """How often a block waits."""

    def of(op: str, kernel: str) -> tuple[float, float]:
        """A block's barriers: by the trace, on the GPU."""
        launch = evidence.trace(op, kernel).launches[0]
        executed = evidence.count(op, kernel, "barriers").ncu
        return launch.barriers, executed / launch.blocks / (launch.threads / WARP)

    depth = {"tiled16": 16, "tiled32": 32, "register_tiled": 16, "double_buffered": 16}
    k = evidence.trace("gemm", "tiled16").shapes["0"][1]
    steps = {name: k // size for name, size in depth.items()}
    rounds = (evidence.trace("sum", "tree").launches[0].threads - 1).bit_length()

    def wait(op: str, kernel: str, times: float) -> bool:
        return all(near(count, times) for count in of(op, kernel))

    def row(op: str, kernel: str, why: str) -> tuple[str, ...]:
        return (f"{op} `{kernel}`", why, *(f"{count:g}" for count in of(op, kernel)))

    share = {name: evidence.timed(SUM, name)["shares"]["read"] for name in ("tree", "shuffle")}
    rows = [row("gemm", name, f"{count} steps") for name, count in steps.items()]
    rows += [row("sum", "tree", f"{rounds} rounds"), row("sum", "shuffle", "")]
    return Claim(
        title="Barriers",
        says="The tiled GEMM needs two barriers a step along K: before reading what others stored "
        "and before overwriting what others still read. Double buffering saves one of them. The "
        "tree that sums 256 threads' values has a barrier each round, shuffles need one in all.",
        parts=(
            Part(
                "two a step in the tiled GEMMs",
                all(
                    wait("gemm", name, 2 * steps[name])
                    for name in ("tiled16", "tiled32", "register_tiled")
                ),
            ),
            Part(
                "one a step with double buffering",
                wait("gemm", "double_buffered", steps["double_buffered"]),
            ),
            Part(
                f"{rounds} for the tree of 256 threads",
                wait("sum", "tree", rounds) and rounds == 8,
            ),
            Part("one with shuffles", wait("sum", "shuffle", 1)),
        ),
        figures=table(["kernel", "", "barriers a block: trace", "ncu"], rows)
        + f"\n\nAt 4096³ `register_tiled` takes {evidence.ms(GEMM, 'register_tiled'):.2f} ms and "
        f"`double_buffered`, which also loads while it multiplies, "
        f"{evidence.ms(GEMM, 'double_buffered'):.2f}. For 2^28 floats `tree` takes "
        f"{evidence.ms(SUM, 'tree'):.3f} ms and `shuffle` {evidence.ms(SUM, 'shuffle'):.3f}, "
        f"{share['tree']:.0%} and {share['shuffle']:.0%} of the bandwidth of reading: there is "
        "little to gain.",
    )


def loads_of_fmas(evidence: Evidence, kernel: str) -> Pair:
    """Passes of shared loads for each FMA of a warp."""
    fmas = evidence.count("gemm", kernel, "fma") / WARP
    return evidence.count("gemm", kernel, "shared load wavefronts") / fmas


def register_tiles(evidence: Evidence) -> Claim:
    """Passes through the banks for an FMA."""
    kernels = ("tiled32", "vectorized", "register_tiled")
    passes = {name: loads_of_fmas(evidence, name) for name in kernels}
    ms = {name: evidence.ms(GEMM, name) for name in kernels}
    products = {"tiled32": "1", "vectorized": "1 × 4", "register_tiled": "8 × 8"}
    heads = ["GEMM", "of C a thread", "passes an FMA: trace", "ncu", "ms at 4096³"]
    return Claim(
        title="Register tiles",
        says="A thread that computes a block of C uses each value that it reads from shared memory "
        "several times, so shared memory holds it back less.",
        parts=(
            Part(
                "passes through the banks for each FMA of a warp fall with the block",
                all(
                    (passes[more] / passes[less]).are(lambda ratio: ratio > 1.05)
                    for more, less in pairwise(kernels)
                ),
                "they do not fall",
            ),
            Part(
                "that makes it faster",
                ms["tiled32"] > ms["vectorized"] > ms["register_tiled"],
                "it does not",
            ),
        ),
        figures=table(
            heads,
            [
                (f"`{name}`", products[name], *passes[name].cells(".3f"), f"{ms[name]:.2f}")
                for name in kernels
            ],
        ),
    )


def drawn(evidence: Evidence, kernel: str) -> float:
    """What a GEMM of 4096 draws from shared memory, in TB/s: ncu's passes, scaled up."""
    m, n, k = evidence.profiled("gemm", kernel)["sizes"]
    passes = evidence.count("gemm", kernel, "shared load wavefronts")
    passes += evidence.count("gemm", kernel, "shared store wavefronts")
    moved = passes.ncu * PASS * TIMED_GEMM**3 / (m * n * k)
    return moved / evidence.ms(GEMM, kernel) / 1e9


def shared_bandwidth(evidence: Evidence) -> Claim:
    """Of one SM, and of all."""
    a100, gpu = analysis.device("A100"), evidence.gpu
    texts_say = range(15, 20)  # TB/s
    one, together = a100.shared_gbs / a100.sms / 1000, a100.shared_gbs / 1000
    rates = {
        kernel: drawn(evidence, kernel)
        for kernel in ("tiled16", "tiled32", "vectorized", "register_tiled")
    }
    rows = [
        (f"`{kernel}`", f"{rate:.1f}", f"{rate / gpu.shared_gbs * 1000:.0%}")
        for kernel, rate in rates.items()
    ]
    return Claim(
        title="Bandwidth of shared memory",
        says="Shared memory of an A100's SM delivers about 15 to 19 TB/s.",
        parts=(
            Part(
                "one SM delivers that much",
                int(one) in texts_say,
                f"all {a100.sms} together do: 32 banks × 4 B × {a100.clock_ghz:g} GHz are "
                f"{one:.2f} TB/s each, {together:.1f} TB/s in all",
                int(together) in texts_say,
            ),
        ),
        figures=f"The {gpu.name}'s {gpu.sms} SMs have {gpu.shared_gbs / 1000:.1f} "
        f"TB/s in all. Of these the GEMMs draw (ncu's passes of {PASS} B, scaled up to the timed "
        "size):\n\n" + table(["GEMM at 4096³", "TB/s", "of all"], rows),
    )
