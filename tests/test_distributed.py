"""DTensors, DDP, FSDP2 and tensor parallel on two processes: gloo here, NCCL on two GPUs."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from distributed_worker import CHECKS, WORLD

ROOT = Path(__file__).resolve().parent.parent
pytestmark = pytest.mark.skipif(
    not torch.distributed.is_available(), reason="torch was built without torch.distributed"
)


def _run(*command: str) -> subprocess.Popen[str]:
    # Over the loopback device: a host's own name need not be known to it.
    environment = os.environ | {
        "PYTHONPATH": str(ROOT),
        "OMP_NUM_THREADS": "1",
        "GLOO_SOCKET_IFNAME": "lo",
    }
    return subprocess.Popen(
        [sys.executable, *command],
        env=environment,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )


def _output(process: subprocess.Popen[str]) -> str:
    """What it printed; it is killed after five minutes."""
    try:
        return process.communicate(timeout=300)[0]
    except subprocess.TimeoutExpired:
        process.kill()
        return process.communicate()[0] + "\ntook too long"


@pytest.fixture(scope="module", params=["gloo", pytest.param("nccl", marks=pytest.mark.gpu2)])
def outcomes(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> list[dict[str, str]]:
    """What each process found: name of the check -> its traceback, empty where it passed."""
    folder = tmp_path_factory.mktemp(request.param)
    worker = str(ROOT / "tests" / "distributed_worker.py")
    processes = [_run(worker, request.param, str(rank), str(folder)) for rank in range(WORLD)]
    outputs = [_output(process) for process in processes]
    found = []
    for rank, output in enumerate(outputs):
        file = folder / f"{rank}.json"
        outcome = json.loads(file.read_text()) if file.exists() else {}
        found.append({name: outcome.get(name, f"not reached:\n{output}") for name in CHECKS})
    return found


@pytest.mark.parametrize("name", CHECKS)
def test_on_two_processes(name: str, outcomes: list[dict[str, str]]) -> None:
    failures = [
        f"process {rank}:\n{outcome[name]}"
        for rank, outcome in enumerate(outcomes)
        if outcome[name]
    ]
    assert not failures, "\n".join(failures)


def _losses(output: str) -> list[float]:
    return [float(loss) for loss in re.findall(r"^step +\d+ +loss (\S+)", output, re.MULTILINE)]


def test_the_example_learns_the_same_on_one_process_and_on_two() -> None:
    example = [str(ROOT / "examples" / "train_gpt.py")]
    options = ["--steps=8", "--every=1", "--batch=4", "--context=32", "--width=32", "--layers=1"]
    torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    processes = [_run(*launch, *example, *options) for launch in ([], torchrun)]
    outputs = [_output(process) for process in processes]
    one, two = map(_losses, outputs)
    assert len(one) == 8, outputs[0]
    assert two == pytest.approx(one, abs=2e-4), outputs[1]
    assert one[-1] < one[0]


def test_no_program_imports_dtensor_that_needs_none() -> None:
    code = (
        "import sys, torch; before = set(sys.modules); import torch_smem_gemm;"
        "print([m for m in set(sys.modules) - before if m.startswith('torch.distributed')])"
    )
    assert _output(_run("-c", code)) == "[]\n"
