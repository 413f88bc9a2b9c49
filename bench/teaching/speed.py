"""Claims about times."""

from __future__ import annotations

import torch_smem_gemm as smem
from teaching.claim import Claim, Part, table
from teaching.evidence import GEMM, Evidence, near
from teaching.shared_memory import drawn, loads_of_fmas
from torch_smem_gemm import analysis

# The texts' times at 4096^3 on an A100, in ms, and the GFLOP/s that they give.
TEXTS_MS = {"naive": 2850, "tiled16": 180, "tiled32": 95}
TEXTS_GFLOPS = {"naive": 48, "tiled16": 760, "tiled32": 1440}
GOAL = 0.8  # of peak


def tile_speedups(evidence: Evidence) -> Claim:
    """The texts' table beside ours."""
    gpu = evidence.gpu
    ms = {name: evidence.ms(GEMM, name) for name in TEXTS_MS}

    def steps(times: dict[str, float]) -> tuple[float, float]:
        return times["naive"] / times["tiled16"], times["tiled16"] / times["tiled32"]

    texts, ours = steps(dict(TEXTS_MS)), steps(ms)
    naive = analysis.roofline(2, 8, "A100").gflops
    passes = {name: loads_of_fmas(evidence, name) for name in ("tiled16", "tiled32")}
    busy = {name: drawn(evidence, name) * 1000 / gpu.shared_gbs for name in passes}
    beyond = evidence.rate(GEMM, "naive") / analysis.roofline(2, 8, gpu).gflops
    rows = [
        (
            f"`{name}`",
            f"{TEXTS_MS[name]:,}",
            f"{TEXTS_GFLOPS[name]:,}",
            f"{TEXTS_MS['naive'] / TEXTS_MS[name]:.1f}",
            f"{ms[name]:.2f}",
            f"{evidence.rate(GEMM, name):,.0f}",
            f"{ms['naive'] / ms[name]:.2f}",
        )
        for name in TEXTS_MS
    ]
    heads = ["GEMM at 4096³", "texts, A100: ms", "GFLOP/s", "× naive"]
    heads += [f"{gpu.name}: ms", "GFLOP/s", "× naive"]
    return Claim(
        title="Speed-up by tiles",
        says="At 4096³ on an A100 the naive kernel takes 2850 ms (48 GFLOP/s), tiles of 16 take "
        "180 ms (760), tiles of 32 take 95 ms (1440): the time falls about as much as the reads.",
        parts=(
            Part(
                f"tiles of 16 make it {texts[0]:.1f} times as fast",
                near(ours[0], texts[0], 0.25),
                f"{ours[0]:.2f} times on this {gpu.name}. At that speed at most 1 of {beyond:.1f} "
                "reads of the naive kernel's threads can have gone to DRAM (see Arithmetic "
                "intensity): broadcasts and caches had already avoided a large part of the reads "
                "that tiles avoid",
                beyond > 1.5,
            ),
            Part(
                f"tiles of 32 make it {texts[1]:.1f} times as fast again",
                near(ours[1], texts[1], 0.25),
                f"{ours[1]:.2f} times. Both kernels are limited by shared memory: they need "
                f"{passes['tiled16'].ncu:.2f} and {passes['tiled32'].ncu:.2f} passes per FMA of "
                f"a warp, and the banks are busy {busy['tiled16']:.0%} and "
                f"{busy['tiled32']:.0%} of the time. Fewer global reads then help little",
                near(passes["tiled16"].ncu, passes["tiled32"].ncu, 0.1),
            ),
        ),
        figures=table(heads, rows)
        + "\n\nThe texts' times could not be repeated without an A100. Their naive kernel has 1/"
        f"{naive / TEXTS_GFLOPS['naive']:.0f} of the speed of their own roofline for it "
        f"({naive:.0f} GFLOP/s), which assumes that every read comes from DRAM. Warps that read "
        "down columns, one sector of 32 bytes per float, would explain this; the kernels here "
        "read along rows.",
        where=f"on an {gpu.name}",
    )


def share_of_peak(evidence: Evidence) -> Claim:
    """80% of peak."""
    on_tensor_cores = {row.name for row in smem.kernels("gemm") if not row.on_cpu}
    rows = [
        row
        for row in evidence.ladder["rows"]
        if row["problem"] == GEMM and row["status"] == "ok" and row["name"] not in on_tensor_cores
    ]
    best = max((row for row in rows if row["kind"] == "kernel"), key=lambda row: row["rate"])
    torchs = evidence.timed(GEMM, "torch")
    peak = evidence.ladder["ceilings"]["ffma_gflops"]
    share = {row["name"]: row["rate"] / peak for row in (best, torchs)}
    return Claim(
        title="80% of peak",
        says="A fully optimised GEMM kernel reaches 80% and more of the chip's peak.",
        parts=(
            Part(
                "a kernel of this ladder reaches 80%",
                share[best["name"]] >= GOAL,
                f"the best, `{best['name']}`, reaches {share[best['name']]:.0%}",
            ),
            Part(
                "cuBLAS's float32 GEMM reaches 80% (torch.matmul, TF32 off)",
                share["torch"] >= GOAL,
                f"it reaches {share['torch']:.0%}, and "
                f"`{best['name']}` {best['rate'] / torchs['rate']:.0%} of that",
            ),
        ),
        figures=table(
            ["GEMM at 4096³", "GFLOP/s", "share of peak"],
            [
                (
                    f"`{row['name'] if row['kind'] == 'kernel' else row['summary']}`",
                    f"{row['rate']:,.0f}",
                    f"{row['rate'] / peak:.0%}",
                )
                for row in rows
            ],
        )
        + f"\n\nThe peak is {peak:,.0f} GFLOP/s: cores × 2 × clock, without tensor cores.",
        where=f"on an {evidence.gpu.name}, in float32",
    )
