"""torch_smem_gemm.bench.host and its command: their structure, never their figures."""

import gc
import itertools
import json
import math
import subprocess
from pathlib import Path
from typing import Any

import pytest
import torch
from helpers import Clock

import torch_smem_gemm as smem
from torch_smem_gemm.bench import host
from torch_smem_gemm.bench.measure import Spread
from torch_smem_gemm.cli import main

CPU = torch.device("cpu")


@pytest.fixture
def imports(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Processes that take 9 s for torch and 9 for ours, then 2 and 1, 4 and 1, 5 and 1."""
    asked: list[dict[str, Any]] = []
    took = itertools.chain([(9.0, 9.0)], itertools.cycle([(2.0, 1.0), (4.0, 1.0), (5.0, 1.0)]))

    def check_output(command: list[str], **options: Any) -> str:
        asked.append({"command": command, **options})
        return json.dumps(next(took))

    monkeypatch.setattr(subprocess, "check_output", check_output)
    return asked


def test_blocks_are_timed_in_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, log = Clock(), []
    monkeypatch.setattr(host, "time", clock)

    def call(name: str, seconds: float) -> None:
        assert not gc.isenabled()
        log.append(name)
        clock.now += seconds

    calls = {"a": lambda: call("a", 1e-6), "b": lambda: call("b", 3e-6)}
    samples = host.blocks_in_turn(calls, CPU, rounds=20)
    assert gc.isenabled()
    blocks = [name for name, _ in itertools.groupby(log[:: host.BLOCK])]
    assert log.count("a") == log.count("b") == 21 * host.BLOCK
    assert len(blocks) < 42, "the order never changed"
    for name, seconds in (("a", 1e-6), ("b", 3e-6)):
        assert list(samples[name].seconds) == list(range(20))
        assert samples[name].median == pytest.approx(seconds)


def test_every_op_in_its_modes(device: str) -> None:
    found = list(host.host_times(torch.device(device), rounds=2))
    products = [("gemm", "autocast"), ("linear", "autocast")]
    plain = [(op, mode) for mode in ("no_grad", "grad") for op in host.OPS]
    assert [(one.op, one.mode) for one in found] == plain + products
    assert {row.op for row in smem.kernels()} < set(host.OPS)
    for one in found:
        assert one.ratio.rounds == 2
        assert all(0 < x < math.inf for x in (one.us, one.torch_us, one.ratio.median))


def test_ratio_is_ours_over_torchs(monkeypatch: pytest.MonkeyPatch) -> None:
    def blocks_in_turn(calls: dict[str, Any], *args: Any, **options: Any) -> dict[str, Any]:
        return {
            name: host.Samples({0: seconds, 1: seconds})
            for name, seconds in zip(calls, (2e-6, 8e-6), strict=True)
        }

    monkeypatch.setattr(host, "blocks_in_turn", blocks_in_turn)
    for one in host.host_times(CPU):
        assert one.us == pytest.approx(2)
        assert one.torch_us == pytest.approx(8)
        assert one.ratio == Spread(0.25, 0.25, 0.25, 2)


def test_import_time(imports: list[dict[str, Any]]) -> None:
    """The first process only warms the disk; the ratio is taken process by process."""
    found = host.import_time(processes=3)
    assert len(imports) == 4
    assert (found.ms, found.torch_ms) == (1000, 4000)
    assert (found.ratio.median, found.ratio.rounds) == (0.25, 3)
    root = str(Path(smem.__file__).parents[1])
    assert all(asked["env"]["PYTHONPATH"].startswith(root) for asked in imports)


def test_what_the_processes_run(capsys: pytest.CaptureFixture[str]) -> None:
    exec(host._IMPORT, {})
    torchs, ours = json.loads(capsys.readouterr().out)
    assert min(torchs, ours) >= 0


@pytest.mark.usefixtures("imports", "with_and_without_rich")
def test_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(host, "BLOCK", 1)
    out = tmp_path / "new folder" / "host.json"
    assert main(["bench", "host", "--device", "cpu", "--json", str(out)]) == 0
    found = json.loads(out.read_text())
    assert found["command"] == f"python -m torch_smem_gemm bench host --device cpu --json '{out}'"
    assert found["import"]["ratio"]["rounds"] == host.IMPORTS
    assert {call["op"] for call in found["calls"]} == set(host.OPS)
    text = capsys.readouterr().out
    assert "import torch_smem_gemm: 1000 ms after torch's " in text
    assert all(op in text for op in host.OPS)
