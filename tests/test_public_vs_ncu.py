"""The script that holds traces of public kernels against ncu, as far as it runs without a GPU."""

import argparse
import json
import os
import random
from pathlib import Path
from typing import Any

import needs_bench
import ncu
import public_random
import public_vs_ncu
import pytest
import sass
import torch
import trace_vs_ncu
from public_case import Case, difference_of, kernel_of

ROOT = needs_bench.BENCH.parent
FOLDER = Path(__file__).parent / "raw_kernels"


def case(**changes: Any) -> Case:
    x = torch.arange(32, dtype=torch.int32)
    return Case("public.cu", "scale<3>", 1, 32, (x, torch.zeros_like(x)), **changes)


@pytest.fixture
def traced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """A row of the traces' file."""
    refused = case(refused="some reason")
    failing = case(faults=("assertion",))
    monkeypatch.setattr(
        public_vs_ncu, "REPOSITORIES", {"sgemm": lambda: [refused, failing, case()]}
    )
    file = tmp_path / "traces.json"
    arguments = ["--sgemm", str(FOLDER), "--random", "0", "--traces", str(file), "--trace-only"]
    assert public_vs_ncu.main(arguments) == 0
    (row,) = json.loads(file.read_text())
    return row


def columns(row: dict[str, Any], **changes: int) -> dict[str, str]:
    """Return what ncu would print if it agreed, but for some counters."""
    counted = row["counts"]["written"] | changes
    metrics = {
        f"{metric}.sum": str(counted[name] if i == 0 else 0)
        for name in public_vs_ncu.COUNTERS
        for i, metric in enumerate(trace_vs_ncu.COUNTERS[name][1])
    }
    opcodes = f"9 (BAR.SYNC.DEFER_BLOCKING: {counted['barriers']}; LDG.E: 1; REDUX: 7)"
    return {**metrics, trace_vs_ncu.OPCODES: opcodes, "Kernel Name": row["function"]}


def test_a_launch_that_agrees(traced: dict[str, Any], capsys: pytest.CaptureFixture) -> None:
    assert (traced["label"], traced["function"]) == ("sgemm: public: scale<3>", "scale")
    row = traced | {"problem": "", "columns": columns(traced)}
    result = public_vs_ncu.compare(row, None)
    assert all(pair["trace"] == pair["ncu"] for pair in result["counters"].values())
    assert result["lines"] == []
    assert public_vs_ncu.show([result])
    assert "1 of 1 launches agree in every counter" in capsys.readouterr().out


def test_a_launch_that_differs_names_the_lines(
    traced: dict[str, Any], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    number = next(line["line"] for line in traced["lines"] if line["memory"] == "shared")
    instructions = [("somewhere/public.cu", number, "STS", 1), ("public.cu", number, "STG.E", 2)]
    monkeypatch.setattr(sass, "by_line", lambda cubin: instructions)
    found = columns(traced, **{"shared store requests": 7})
    row = traced | {"problem": "0: it differs", "columns": found}
    result = public_vs_ncu.compare(row, Path("unit.cubin"))
    (line,) = result["lines"]
    assert line.startswith(f"shared store: public.cu:{number}: traced 4 bytes, 1 requests, ")
    assert line.endswith("; 1 STS")
    assert not public_vs_ncu.show([result])
    said = capsys.readouterr().out
    assert "shared store requests 1 / ncu 7 (85.7%)" in said
    assert "WRONG on the GPU: 0: it differs" in said


def test_a_launch_that_failed(traced: dict[str, Any]) -> None:
    row = traced | {"problem": "no such thing", "columns": None}
    assert public_vs_ncu.compare(row, None)["counters"] == {}


SASS = """
	//## File "/a/b.cu", line 5
        /*0040*/                   LDC R1, c[0x0][0x28] ;
        /*0050*/              @!P0 LDG.E R2, desc[UR4][R2.64] ;
	//## File "/a/b.cu", line 6 inlined at "/a/b.cu", line 9
        /*0060*/                   STS.128 [R2], R4 ;
        /*0070*/                   STS.128 [R2+0x10], R4 ;
"""


def test_instructions_by_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "nvdisasm"
    program.write_text(f"#!/bin/sh\ncat <<'END'\n{SASS}\nEND\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    expected = [("/a/b.cu", 5, "LDG.E", 1), ("/a/b.cu", 6, "STS.128", 2)]
    assert sass.by_line(tmp_path / "unit.cubin") == expected
    monkeypatch.setenv("PATH", "")
    assert sass.by_line(tmp_path / "unit.cubin") == []


@pytest.mark.parametrize("seed", range(3))
def test_exercises_of_random_sizes_are_right(seed: int) -> None:
    torch.manual_seed(seed)
    for problem in public_random.exercises(random.Random(seed)):
        kernel = kernel_of(problem, ROOT)
        kernel(problem.grid, problem.block, problem.args)
        assert difference_of(problem, problem.args, lambda name, dtype: torch.empty(0)) == ""


def test_random_problems_are_the_same_every_time() -> None:
    for family in (public_random.products, public_random.transposes, public_random.exercises):
        first, second = (list(family(random.Random(5))) for _ in range(2))
        assert [(c.label, c.grid) for c in first] == [(c.label, c.grid) for c in second]


def test_a_launch_that_does_not_end_loses_no_other_row(
    traced: dict[str, Any], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    rows = [traced | {"label": label} for label in "abcde"]
    under_one_ncu = []

    def profile_part(_: Any, part: list[dict[str, Any]]) -> tuple[dict[str, Any], Any]:
        labels = [row["label"] for row in part]
        under_one_ncu.append("".join(labels))
        ended = labels[: labels.index("b")] if "b" in labels else labels
        found = {label: {"launched": label != "d", "problem": ""} for label in ended}
        launched = [columns(row) for row in part if row["label"] != "d"]
        return found, launched if ended == labels else None

    monkeypatch.setattr(public_vs_ncu, "profile_part", profile_part)
    profiled = list(public_vs_ncu.profile(argparse.Namespace(slice=3), rows))
    assert under_one_ncu == ["abc", "a", "c", "de"]
    assert sorted(row["label"] for row in profiled) == ["a", "b", "c", "d", "e"]
    without = {row["label"]: row["problem"] for row in profiled if row["columns"] is None}
    assert without == {"b": "does not end under ncu", "d": ""}
    assert "b: does not end under ncu" in capsys.readouterr().out


def test_a_program_that_takes_too_long_is_ended(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    program = tmp_path / "ncu"
    program.write_text("#!/bin/sh\nexec sleep 600\n", encoding="utf-8")
    program.chmod(0o700)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    with pytest.raises(TimeoutError, match=r"not ended after 0\.2 s: ncu .* a program$"):
        ncu.profile(["a program"], ["a metric"], seconds=0.2)
