"""bench compare: what is a change and what is noise."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
from helpers import refusal

from torch_smem_gemm.bench.compare import compare
from torch_smem_gemm.bench.results import save
from torch_smem_gemm.bench.rows import Row
from torch_smem_gemm.cli import main

RESULTS = Path(__file__).resolve().parent.parent / "bench" / "results" / "h200.json"
NONE = (None, None, None)


def row(name: str, *ms: float | None, **changes: str) -> Row:
    """A row whose median, p20 and p80 are ``ms``."""
    figures = dict(zip(("ms", "ms_p20", "ms_p80"), ms, strict=True))
    about = {
        "set": "tiny",
        "op": "gemm",
        "problem": "gemm 8 x 8 x 8 float32",
        "shape": "8 8 8",
        "dtype": "float32",
        "name": name,
        "kind": "kernel",
        "summary": "",
    }
    return Row(**about | figures | changes)


def results(*rows: Row, **changes: Any) -> dict[str, Any]:
    return {"device": "a GPU", "versions": {"driver": "1"}, "rows": list(rows)} | changes


def write(path: Path, contents: dict[str, Any]) -> str:
    save(path, contents)
    return str(path)


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ((1.0, 0.99, 1.01), (1.1, 1.09, 1.11), "slower"),
        ((1.0, 0.99, 1.01), (0.9, 0.89, 0.91), "faster"),
        ((1.0, 0.99, 1.01), (1.015, 1.012, 1.017), "same"),  # disjoint, and within 2%
        ((1.0, 0.99, 1.01), (0.985, 0.983, 0.987), "same"),
        ((1.0, 0.9, 1.2), (1.1, 1.09, 1.11), "same"),  # apart, and the intervals overlap
        ((1.0, 0.8, 1.2), (0.7, 0.6, 0.8), "same"),  # they touch
        ((1.0, 0.99, 1.01), NONE, "broken"),
        (NONE, (1.0, 0.99, 1.01), "repaired"),
        (NONE, NONE, "no time"),
    ],
)
def test_verdict(before: tuple[Any, ...], after: tuple[Any, ...], expected: str) -> None:
    (change,) = compare(results(row("it", *before)), results(row("it", *after))).changes
    assert change.verdict == expected
    assert (change.ratio is None) == (NONE in (before, after))


def test_wrong_is_worse_than_refused() -> None:
    refused = results(row("it", *NONE, status="n/a"))
    wrong = results(row("it", *NONE, status="wrong"))
    assert [change.verdict for change in compare(refused, wrong).changes] == ["broken"]
    assert [change.verdict for change in compare(wrong, refused).changes] == ["repaired"]
    assert [change.verdict for change in compare(wrong, wrong).changes] == ["no time"]


def test_rows_are_matched_by_set_problem_and_name() -> None:
    fast, slow = row("a", 1.0, 1.0, 1.0), row("a", 2.0, 2.0, 2.0, problem="another")
    comparison = compare(results(fast, slow, row("b", *NONE)), results(slow, row("c", *NONE), fast))
    assert [change.verdict for change in comparison.changes] == ["same", "same"]
    assert comparison.only_before == (("tiny", fast.problem, "b"),)
    assert comparison.only_after == (("tiny", fast.problem, "c"),)
    assert comparison.worse == ()


def test_what_they_were_measured_on_is_compared() -> None:
    other = results(device="another GPU", versions={"driver": "1", "torch": "2"})
    assert compare(results(), other).differences == (
        "device: a GPU, then another GPU",
        "torch: None, then 2",
    )


def test_command_says_what_changed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = write(
        tmp_path / "a.json",
        results(
            row("slow", 1.0, 0.99, 1.01),
            row("fast", 1.0, 0.99, 1.01),
            row("same", 1.0, 0.99, 1.01),
            row("gone", 1.0, 0.99, 1.01),
        ),
    )
    after = write(
        tmp_path / "b.json",
        results(
            row("slow", 1.5, 1.49, 1.51),
            row("fast", 0.5, 0.49, 0.51),
            row("same", 1.0, 0.99, 1.01),
            row("new", 1.0, 0.99, 1.01),
        ),
    )
    assert main(["bench", "compare", before, after]) == 1
    text = capsys.readouterr().out
    lines = [line.split() for line in text.splitlines()]
    assert [line[-2:] for line in lines if "slow" in line] == [["+50.0%", "slower"]]
    assert [line[-2:] for line in lines if "fast" in line] == [["-50.0%", "faster"]]
    assert not [line for line in lines if line[-1:] == ["same"] and "8" in line]
    assert "only in the first file: tiny, gemm 8 x 8 x 8 float32, gone" in text
    assert "only in the second file: tiny, gemm 8 x 8 x 8 float32, new" in text
    assert "3 rows in both files: 1 slower, 1 faster, 1 same" in text
    assert "Peers" not in text


def test_command_passes_what_only_got_faster(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = write(tmp_path / "a.json", results(row("it", 1.0, 0.99, 1.01)))
    after = write(tmp_path / "b.json", results(row("it", 0.5, 0.49, 0.51), device="another"))
    assert main(["bench", "compare", before, after]) == 0
    assert "NOT THE SAME device: a GPU, then another" in capsys.readouterr().out


def test_command_fails_on_what_broke_and_on_peers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good = row("it", 1.0, 0.99, 1.01)
    before = write(tmp_path / "a.json", results(good))
    wrong = write(tmp_path / "b.json", results(row("it", *NONE, status="wrong")))
    assert main(["bench", "compare", before, wrong]) == 1
    assert "WRONG" in capsys.readouterr().out
    slow = write(tmp_path / "c.json", results(row("it", 2.0, 1.99, 2.01, kind="peer")))
    assert main(["bench", "compare", before, slow]) == 1
    assert "Peers got slower too" in capsys.readouterr().out


def test_command_reads_the_committed_results(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "compare", str(RESULTS), str(RESULTS)]) == 0
    text = capsys.readouterr().out
    assert " rows in both files" in text
    assert "slower" not in text


REPEATED = json.dumps({"rows": [dataclasses.asdict(row("it", *NONE))] * 2})


@pytest.mark.parametrize(
    ("contents", "message"),
    [
        ("{", "is not JSON"),
        ("[]", "has no rows"),
        ('{"rows": 1}', "has no rows"),
        ('{"rows": [1]}', "row 0 is no object"),
        ('{"rows": [{"op": "gemm"}]}', "row 0 has no set, problem, shape"),
        (REPEATED, "row 1 repeats tiny, gemm 8"),
        (None, "No such file"),
    ],
)
def test_what_is_no_results_file(
    contents: str | None, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "a.json"
    if contents is not None:
        path.write_text(contents)
    error = refusal(capsys, "bench", "compare", str(path), str(path))
    assert message in error
    assert "a.json" in error
