"""The pipeline of a Hopper kernel in a trace: its waits, and its stages over the steps."""

from pathlib import Path

import pytest
import torch
from explain_command import text

import torch_smem_gemm as smem
from torch_smem_gemm.cli.explain import _names
from torch_smem_gemm.pipeline_trace import STATES, Pipeline, pipeline_of
from torch_smem_gemm.trace_report import Launch

TIMINGS = ("0", "1", "early", "late")


def traced(kernel: str, k: int) -> Launch:
    """One tile of 64 columns; of a product in bfloat16, or in float32 by fp16x3."""
    is_float32 = kernel.startswith("fp16x3")
    dtype, m = (torch.float32, 128) if is_float32 else (torch.bfloat16, 64)
    a, b = torch.randn(m, k).to(dtype), torch.randn(k, 32).to(dtype)
    return smem.trace("gemm", a, b, kernel=kernel).launches[-1]


# Stages of the ring, the k of a stage, and consumer warps.
KERNELS = [("wgmma:64x64", 6, 128, 4), ("wgmma:128x64", 8, 64, 8), ("fp16x3:wgmma", 5, 32, 8)]


@pytest.mark.parametrize("timing", TIMINGS)
@pytest.mark.parametrize(("kernel", "stages", "stage_k", "warps"), KERNELS)
def test_stages_and_waits(
    kernel: str,
    stages: int,
    stage_k: int,
    warps: int,
    timing: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SMEM_ASYNC_TIMING", timing)
    fills = 2 * stages + 1
    launch = traced(kernel, fills * stage_k)
    assert launch.faults == ()
    pipeline = launch.pipeline
    assert pipeline
    assert pipeline.stages == stages
    assert 1 < pipeline.mean_depth <= pipeline.depth <= stages
    assert len(pipeline.changes) == fills * len(STATES)
    for stage in range(stages):
        states = [state for changed, state in pipeline.changes if changed == stage]
        assert states == ["loading", "full", "being read", "empty"] * (2 + (stage == 0))
        spans = pipeline.spans(stage)
        assert [end for _, end, _ in spans][:-1] == [begin for begin, _, _ in spans][1:]
        assert spans[-1][1] == len(pipeline.changes)

    producer, consumer = (
        next(line for line in launch.lines if line.action == "mbarrier_wait" and name in line.text)
        for name in ("empty", "full")
    )
    assert producer.requests == fills
    assert consumer.requests == fills * warps
    assert consumer.lanes == consumer.requests * 32
    # The first round finds all stages empty.
    assert stages <= producer.ready <= producer.requests
    assert consumer.ready <= consumer.requests
    if timing == "early":
        assert consumer.ready > 0
    assert launch.count("ready", actions=["mbarrier_wait"]) == producer.ready + consumer.ready


def test_the_figures_of_the_document(monkeypatch: pytest.MonkeyPatch) -> None:
    """docs/hopper_gemm.md says how many waits find the bytes there, by the number of stages."""
    monkeypatch.delenv("SMEM_ASYNC_TIMING", raising=False)
    a, b = (torch.ones(*s, dtype=torch.bfloat16) for s in ((128, 1024), (1024, 64)))
    found = []
    for tile in ("64x64_3cta", "128x64"):
        (launch,) = smem.trace("gemm", a, b, kernel=f"wgmma:{tile}").launches
        line = next(x for x in launch.lines if x.action == "mbarrier_wait" and "full" in x.text)
        assert launch.pipeline
        found.append((launch.pipeline.stages, line.requests, line.ready))
    assert found == [(3, 128, 82), (8, 128, 128)]


def test_spans_and_depth() -> None:
    pipeline = pipeline_of([[3, 0, 1], [5, 1, 1], [6, 0, 2], [7, 0, 3], [9, 0, 0], [9, 1, 2]])
    assert isinstance(pipeline, Pipeline)
    assert pipeline.stages == pipeline.depth == 2
    assert pipeline.mean_depth == pytest.approx((1 + 2 + 2 + 2 + 1 + 1) / 6)
    assert pipeline.spans(0) == [
        (0, 2, "loading"),
        (2, 3, "full"),
        (3, 4, "being read"),
        (4, 6, "empty"),
    ]
    assert pipeline.spans(1) == [(0, 1, "empty"), (1, 5, "loading"), (5, 6, "full")]
    assert pipeline_of([]) is None


def test_a_kernel_without_tma_has_no_pipeline() -> None:
    launch = smem.trace("gemm", torch.ones(40, 8), torch.ones(8, 40), kernel="tiled16").launches[0]
    assert launch.pipeline is None
    assert launch.count("requests", actions=["mbarrier_wait"]) == 0


def test_explain_shows_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    problem = ("--dtype", "bfloat16", "-m", "64", "-n", "64", "-k", "1024")
    page = tmp_path / "page.html"
    shown = text(capsys, "gemm", "--kernel", "wgmma:64x64", *problem, "--html", str(page))
    assert "wgmma: 6 stages, up to 6 in use at once" in shown
    assert "mbarrier_wait" in shown
    assert "shared memory, by wgmma" in shown
    assert "cycles: of the SM's four tensor cores together" in shown
    assert "2,048 SM cycles at Hopper's full rate" in shown
    html = page.read_text(encoding="utf-8")
    assert "Pipeline of wgmma" in html
    assert html.count("<title>being read, steps") == 8
    assert "Roofline of H200" in html
    assert "2,048 SM cycles" in html


def test_explain_draws_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("matplotlib")
    path = tmp_path / "out.png"
    problem = ("-m", "128", "-n", "32", "-k", "320")
    shown = text(capsys, "gemm", "--kernel", "fp16x3:wgmma", *problem, "--plot", str(path))
    assert "kernel fp16x3" in shown
    assert path.stat().st_size > 10_000


def test_what_explain_takes() -> None:
    names = _names("gemm")
    assert "wgmma:64x64" in names
    assert set(_names("gemm", variants=False)) == {row.name for row in smem.kernels("gemm")}
