"""The script that tries public kernels: what it says of kernels, and the tables in docs."""

import json
from pathlib import Path
from typing import Any

import numpy
import public_kernels
import public_llmc
import public_samples
import public_sgemm
import pytest
import torch
from public_case import Case, Result, as_dict, run, table

FOLDER = Path(__file__).parent / "raw_kernels"


def scale(**changes: Any) -> Case:
    """Return a case of a kernel that is right."""
    x = torch.arange(32, dtype=torch.int32)
    fields: dict[str, Any] = {
        "file": "public.cu",
        "kernel": "scale<3>",
        "grid": 1,
        "block": 32,
        "args": (x, torch.zeros_like(x)),
        "expected": {1: 3 * x.flip(0) + 5, "last": torch.tensor([7], dtype=torch.int32)},
        "variables": {"offset": numpy.array([5], dtype=numpy.int32)},
    }
    return Case(**(fields | changes))


def race(**changes: Any) -> Case:
    """Return a case of a kernel with a race."""
    out = torch.zeros(32, dtype=torch.int32)
    return Case("public.cu", "race", 1, 32, (out,), **changes)


def test_a_kernel_that_is_right() -> None:
    result = run(scale(), "some", FOLDER)
    assert (result.outcome, result.problem, result.faults) == ("right", "", [])
    assert (result.repository, result.kernel) == ("some", "public: scale<3>")
    # The load of the constant is not one of global memory.
    assert (result.global_requests, result.sectors) == (3, 4 + 4 + 1)
    assert (result.shared_requests, result.wavefronts, result.conflicts) == (2, 2, 0)
    assert min(result.compile_seconds, result.cached_seconds) > 0


def test_a_kernel_that_is_wrong() -> None:
    result = run(scale(expected={1: torch.zeros(32)}), "some", FOLDER)
    assert result.outcome == "wrong"
    assert result.problem.startswith("1: Tensor-likes are not")
    expected = torch.tensor([8], dtype=torch.int32)
    assert run(scale(expected={"last": expected}), "some", FOLDER).problem.startswith("last: ")
    assert run(scale(kernel="absent"), "some", FOLDER).outcome == "wrong"


def test_faults_must_be_those_that_the_case_explains() -> None:
    assert (run(race(), "", FOLDER).outcome, run(race(), "", FOLDER).problem) == ("wrong", "race")
    explained = run(race(faults=("race",), why="it has one"), "", FOLDER)
    assert (explained.outcome, explained.why) == ("right", "it has one")
    assert explained.faults[0].startswith("race in race at public.cu:")
    assert run(scale(faults=("race",)), "", FOLDER).problem == "race"


def test_a_kernel_that_is_refused_or_differs() -> None:
    refused = scale(kernel="absent", refused="no kernel of this name")
    assert run(refused, "", FOLDER).outcome == "refused"
    assert run(scale(refused="no kernel of this name"), "", FOLDER).outcome == "wrong"
    differs = scale(expected={1: torch.zeros(32)}, differs=True, why="so it is")
    assert run(differs, "", FOLDER).outcome == "differs"
    assert run(scale(differs=True), "", FOLDER).outcome == "wrong"


def test_the_table() -> None:
    fast = Result("r", "f: k<1>", "right", accesses=1000, compile_seconds=0.52, sectors=12)
    note = Result("r", "f: g", "right", "", ["race in g at x"], "it is so")
    no = Result("r", "f: h", "refused", "it cannot")
    shown = table(map(as_dict, (fast, note, no))).splitlines()
    assert shown[2] == "| f: k<1> | right | 0 | 1,000 | 0.5 | 0.00 | 0, 12 | 0, 0, 0 |"
    assert shown[-2:] == ["- f: g (race): it is so.", "- f: h: it cannot."]


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def cases() -> list[Case]:
        return [scale(), race()]

    out = tmp_path / "results.json"
    arguments = ["--sgemm", str(FOLDER), "--json", str(out)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SMEM_CACHE_DIR", str(tmp_path / "cache"))
        patch.setitem(public_kernels.REPOSITORIES, "sgemm", cases)
        assert public_kernels.main(arguments) == 1
        assert public_kernels.main([*arguments, "--only", "scale"]) == 0
    assert [values["outcome"] for values in json.loads(out.read_text())] == ["right"]
    said = capsys.readouterr().out
    assert "wrong   public: race (64 accesses" in said
    assert "Of 1 kernels 1 are right" in said


def test_the_document_shows_the_results() -> None:
    assert public_kernels.main(["--check"]) == 0


def test_every_case_can_be_made() -> None:
    """Data and references, without the repositories; a label stands once in a repository."""
    for cases in (public_sgemm.cases, public_samples.cases, public_llmc.cases):
        torch.manual_seed(0)
        labels = [case.label for case in cases()]
        assert len(labels) == len(set(labels)) > 10
