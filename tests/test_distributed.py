"""DTensors, DDP, FSDP2, tensor parallel: by gloo on the CPU, by NCCL on GPUs, two and four each."""

import functools
import json
import math
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
import torch
from distributed_worker import LAYOUTS

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


Outcomes = list[dict[str, str]]


@functools.cache
def _outcomes(backend: str, layout: str) -> Outcomes:
    """What each process found: name of the check -> its traceback, empty where it passed."""
    sizes, checks = LAYOUTS[layout]
    found = []
    with tempfile.TemporaryDirectory() as folder:
        command = [str(ROOT / "tests" / "distributed_worker.py"), backend, layout]
        ranks = range(math.prod(sizes.values()))
        processes = [_run(*command, str(rank), folder) for rank in ranks]
        outputs = [_output(process) for process in processes]
        for rank, output in enumerate(outputs):
            file = Path(folder) / f"{rank}.json"
            outcome = json.loads(file.read_text()) if file.exists() else {}
            found.append({name: outcome.get(name, f"not reached:\n{output}") for name in checks})
    return found


@pytest.mark.parametrize(
    ("backend", "layout", "name"),
    [
        pytest.param(backend, layout, name, marks=marks)
        for backend, layout, marks in (
            ("gloo", "line", ()),
            ("gloo", "four", pytest.mark.sweep),
            ("gloo", "grid", pytest.mark.sweep),
            ("nccl", "line", pytest.mark.gpu2),
            ("nccl", "four", pytest.mark.gpu4),
            ("nccl", "grid", pytest.mark.gpu4),
        )
        for name in LAYOUTS[layout][1]
    ],
)
def test_on_several_processes(backend: str, layout: str, name: str) -> None:
    failures = [
        f"process {rank}:\n{outcome[name]}"
        for rank, outcome in enumerate(_outcomes(backend, layout))
        if outcome[name]
    ]
    assert not failures, "\n".join(failures)


def _losses(output: str) -> list[float]:
    return [float(loss) for loss in re.findall(r"^step +\d+ +loss (\S+)", output, re.MULTILINE)]


@pytest.mark.parametrize(
    ("device", "processes"),
    [
        pytest.param("cpu", 2, marks=pytest.mark.sweep),
        pytest.param("cuda", 2, marks=pytest.mark.gpu2),
        pytest.param("cuda", 4, marks=pytest.mark.gpu4),
    ],
)
def test_the_example_learns_the_same_on_one_process_and_on_several(
    device: str, processes: int
) -> None:
    example = [str(ROOT / "examples" / "train_gpt.py"), f"--device={device}"]
    options = ["--steps=8", "--every=1", "--batch=4", "--context=32", "--width=32", "--layers=1"]
    torchrun = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}"]
    started = [_run(*launch, *example, *options) for launch in ([], torchrun)]
    outputs = [_output(process) for process in started]
    one, several = map(_losses, outputs)
    assert len(one) == 8, outputs[0]
    assert several == pytest.approx(one, abs=2e-4), outputs[1]
    assert one[-1] < one[0]
