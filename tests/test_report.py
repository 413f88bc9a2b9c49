"""bench report: README and docs/performance.md show the measured figures."""

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from torch_smem_gemm.bench import report, results
from torch_smem_gemm.bench.measure import Ceilings, Spread
from torch_smem_gemm.bench.rows import OURS, Row
from torch_smem_gemm.bench.suite import LADDER
from torch_smem_gemm.bench.telemetry import Range, Summary
from torch_smem_gemm.cli import _report, main
from torch_smem_gemm.cli._bench_tables import ceilings_text

KINDS = {"torch": "peer", "compile": "peer", "copy": "bound"}
MARKERS = [*(marker for marker, *_ in report.HIGHLIGHTS), "measured"]
MARKED = "".join(f"before\n<!-- {m}:begin -->\nold\n<!-- {m}:end -->\nafter\n" for m in MARKERS)
FAILED: dict[str, Any] = {"ms": None, "ms_p20": None, "ms_p80": None, "rate": None, "shares": {}}


def row(shape: str, name: str, set_name: str = "squares", **changes: Any) -> Row:
    """A row of a float32 GEMM; ratios may be given as their medians."""
    ratios = {other: Spread(ratio, 0, 9, 5) for other, ratio in changes.pop("ratios", {}).items()}
    figures = {"ms": 2.0, "ms_p20": 1.9, "ms_p80": 2.1, "rate": 1234.0}
    return Row(
        set=set_name,
        op="gemm",
        problem=f"gemm {shape.replace(' ', ' x ')} float32",
        shape=shape,
        dtype="float32",
        name=name,
        kind=KINDS.get(name, "kernel"),
        summary=f"what {name} is",
        ratios=ratios,
        **{"unit": "GFLOP/s", "shares": {"FMA": 0.5, "read": 0.1}, **figures, **changes},
    )


ROWS = [
    row("8 8 8", "naive", LADDER, ratios={"naive": 1.0, "torch": 0.3}),
    row("8 8 8", "panel", LADDER, **FAILED, status="n/a", detail="too long a K"),
    row("8 8 8", "torch", LADDER, ratios={"naive": 3.5}),
    row("1 1 1", OURS, ratios={"torch": 0.5, "compile": 0.8}, host_us=7.3, graph_ms=0.00125),
    row("1 1 1", "torch"),
    row("1 1 1", "compile"),
    row("2 2 2", OURS, ratios={"torch": 2.0}, shares={"FMA": 0.2, "read": 0.7}),
    row("2 2 2", "torch"),
    row("3 3 3", OURS, **FAILED, status="wrong", detail="off by 1|2"),
    row("3 3 3", "torch"),
    row("4 4 4", OURS, ratios={}),
    row("4 4 4", "torch", **FAILED, status="n/a", detail="no <memory>"),
]


def found(rows: list[Row] = ROWS, **changes: Any) -> dict[str, Any]:
    """What was measured."""
    state = Summary(9, Range(1000, 1900, 1980), None, Range(7, 7, 7), Range(30, 40, 50), ("heat",))
    made = results.results(
        rows,
        command="bench all",
        device="a GPU",
        versions={"driver": "1", "torch": "2", "torch_smem_gemm": "3", "commit": "abc"},
        ceilings=Ceilings(12.0, 10.0, 11.0),
        gpu_state=None,
        telemetry=state,
        seconds=61.2,
        interrupted=False,
    )
    return made | {"date": "2026-01-02T03:04:05+00:00", "method": "by a clock"} | changes


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    """Arguments that name a results file, a README with markers, and a document not yet there."""
    results.save(tmp_path / "results.json", found())
    (tmp_path / "README.md").write_text(MARKED)
    paths = (tmp_path / name for name in ("results.json", "README.md", "docs/performance.md"))
    options = ("--results", "--readme", "--performance")
    return [text for pair in zip(options, map(str, paths), strict=True) for text in pair]


def test_ladder_beside_its_first_kernel() -> None:
    lines = report.ladders(ROWS).splitlines()
    assert lines[0] == "**gemm 8 × 8 × 8 float32**"
    assert lines[2:] == [
        "| kernel | ms | GFLOP/s | of FMA | of read | × naive | what it is |",
        "| --- | ---: | ---: | ---: | ---: | ---: | --- |",
        "| `naive` | 2 | 1,234 | 50.0% | 10.0% | 1.00 | what naive is |",
        "| `panel` | n/a |  |  |  |  | too long a K |",
        "| torch | 2 | 1,234 | 50.0% | 10.0% | 3.50 | what torch is |",
    ]


def test_ladder_without_any_figure() -> None:
    failed = row("8 8 8", "naive", LADDER, **FAILED, status="wrong", detail="off")
    assert "| `naive` | WRONG |  |  | off |" in report.ladders([failed])


def test_summary_beside_the_fastest_peer() -> None:
    (summary,) = report.summaries(ROWS)
    assert (summary.op, summary.set, summary.dtype) == ("gemm", "squares", "float32")
    assert summary.problems == 4
    assert summary.ratios == ((0.5, "1 × 1 × 1"), (2.0, "2 × 2 × 2"))
    assert summary.floor == 0.5  # the middle of 0.5, 0.7 and 0.5
    assert summary.untimed == {"smem WRONG": 1, "torch n/a": 1}
    line = report.summary_table(ROWS).splitlines()[-1]
    assert line == (
        "| gemm | squares | float32 | 2 of 4 | 1.00 | 0.50 | 1 × 1 × 1 | 2.00 | 2 × 2 × 2 | 50% "
        "| smem WRONG: 1, torch n/a: 1 |"
    )


def test_summary_has_a_column_of_failures_only_where_there_are_some() -> None:
    table = report.summary_table(ROWS[3:8])
    assert "without a time" not in table
    assert "| 2 | 1.00 | 0.50 | 1 × 1 × 1 | 2.00 | 2 × 2 × 2 | 60% |" in table


def test_summary_of_what_no_peer_computes() -> None:
    assert "| 0 of 1 |  |  |  |  |  |  | smem WRONG: 1 |" in report.summary_table([ROWS[8]])


def test_sets_are_apart_by_op_and_dtype() -> None:
    rows = ROWS[3:6]
    other = [dataclasses.replace(one, op="linear", problem="linear 1") for one in rows]
    kinds = [dataclasses.replace(one, dtype="int8", problem="gemm int8") for one in rows]
    names = [(one.op, one.dtype) for one in report.summaries([*rows, *other, *kinds])]
    assert names == [("gemm", "float32"), ("linear", "float32"), ("gemm", "int8")]


def test_performance_shows_every_problem() -> None:
    text = report.performance(found())
    heads = "shape | ms | p20–p80 | host µs | graph ms | GFLOP/s | share of the floor"
    heads += " | × torch | × compile"
    for line in (
        "Measured on: a GPU, driver 1, torch 2, torch_smem_gemm 3, 2026-01-02, commit abc.",
        "Command: `bench all`, 61 s.",
        "Method: by a clock",
        "- `torch`: what torch is (gemm)",
        "**gemm 8 × 8 × 8 float32**",
        "## gemm squares float32",
        f"| {heads} |",
        "| 1 × 1 × 1 | 2 | 1.9–2.1 | 7.3 | 0.00125 | 1,234 | 50.0% FMA | 0.50 | 0.80 |",
        "| 2 × 2 × 2 | 2 | 1.9–2.1 |  |  | 1,234 | 70.0% read | 2.00 |  |",
        "| 3 × 3 × 3 | WRONG |  |  |  |  |  |  |  |",
        "| 4 × 4 × 4 | 2 | 1.9–2.1 |  |  | 1,234 | 50.0% FMA | n/a |  |",
        "- `smem` WRONG on 3 × 3 × 3: off by 1\\|2",
        "- `torch` n/a on 4 × 4 × 4: no &lt;memory>",
    ):
        assert line in text.splitlines()
    assert "clock 1900 MHz (1000–1980), power 7 W, temperature 40 °C (30–50)" in text
    assert "clocks lowered by: heat." in text
    assert text == report.performance(found())


def test_many_problems_with_the_same_fault_are_counted() -> None:
    failed = [row(f"{n} 1 1", OURS, **FAILED, status="n/a", detail="no") for n in range(5)]
    text = report.performance(found(failed))
    assert "- `smem` n/a on 0 × 1 × 1; 1 × 1 × 1; 2 × 1 × 1; and 2 more: no" in text


def test_what_was_not_recorded_or_finished_is_said() -> None:
    text = report.performance(found(ROWS[:3], telemetry=None, interrupted=True))
    assert "Clocks, power and temperature were not recorded." in text
    assert "It was interrupted" in text
    assert "The other columns" not in report.performance(found(ROWS[:2]))
    assert "Only the ladders were measured." in text
    assert "No ladder was measured." in report.performance(found(ROWS[3:]))


def test_measured_ceilings_are_shown() -> None:
    text = report.measured_on(found())
    assert "float32 FMA 12 GFLOP/s (cores × 2 × clock)." in text
    ceilings = {
        "measured_ffma_gflops": 11.5e3,
        "cublas_bf16_gflops": 790e3,
        "mma_sync_bf16_gflops": 645e3,
        "mma_sync_tf32_gflops": 323e3,
    }
    text = report.measured_on(found(ceilings=found()["ceilings"] | ceilings))
    assert "float32 FMA 11,500 GFLOP/s (cores × 2 × clock: 12), cuBLAS's bfloat16" in text
    assert "peak 790,000 GFLOP/s, mma.sync from registers 645,000 GFLOP/s in bfloat16" in text
    assert "and 323,000 in tf32." in text
    printed = ceilings_text(Ceilings(ffma_gflops=12.0, copy_gbs=1.0, read_gbs=1.0, **ceilings))
    assert "; mma.sync 645,000 GFLOP/s in bfloat16 and 323,000 in tf32 (a kernel" in printed


def test_writes_between_the_markers_and_checks(
    files: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    _, source, _, readme, _, performance = files
    command = ["bench", "report", *files]
    assert main([*command, "--check"]) == 1
    assert f"{readme} does not show {source}" in capsys.readouterr().out
    assert not Path(performance).exists()
    assert Path(readme).read_text() == MARKED
    assert main(command) == 0
    capsys.readouterr()
    assert main([*command, "--check"]) == 0
    assert main(command) == 0
    assert not capsys.readouterr().out  # nothing to write
    text = Path(readme).read_text()
    assert text.startswith("before\n")
    assert text.endswith("\nafter\n")
    assert "old" not in text
    assert "\n**1.00 × the speed of the fastest peer** " in text
    assert "(geometric mean of 2 square products; 0.50 to 2.00).\n" in text
    assert "\nMeasured on: " in text
    shown = Path(performance).read_text()
    assert "| torch | 2 | 1,234 |" in shown
    assert "| gemm | squares | float32 |" in shown
    assert shown == report.performance(results.load(Path(source)))
    Path(performance).write_text("an old text")
    assert main([*command, "--check"]) == 1


def test_highlights_of_nothing() -> None:
    figures = report.highlights(found(ROWS[:3]))
    assert {figures[marker] for marker in MARKERS[:-1]} == {"Not measured."}


def test_a_missing_marker_is_named(files: list[str]) -> None:
    readme = Path(files[3])
    readme.write_text(MARKED.replace("<!-- float32:end -->", ""))
    with pytest.raises(SystemExit, match=r"README\.md: .*<!-- float32:begin -->.*:end -->"):
        main(["bench", "report", *files])
    assert not Path(files[5]).exists()


@pytest.mark.parametrize("broken", [1, 3])
def test_a_file_that_cannot_be_read_is_named(files: list[str], broken: int) -> None:
    Path(files[broken]).unlink()
    with pytest.raises(SystemExit, match=Path(files[broken]).name):
        main(["bench", "report", *files])


def test_outside_a_checkout_files_must_be_named(
    files: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_report, "ROOT", tmp_path)
    with pytest.raises(SystemExit, match=r"no bench/results/h200\.json: name .*--performance"):
        main(["bench", "report", *files[:2]])
    assert main(["bench", "report", *files]) == 0


def test_the_documents_show_the_committed_results() -> None:
    if not (_report.ROOT / _report.FILES["results"]).exists():
        pytest.skip("bench/ is not in source packages")
    assert main(["bench", "report", "--check"]) == 0
