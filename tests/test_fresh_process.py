"""Every op as the first thing that a process or a thread does with the GPU (fresh_process.py)."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from fresh_process import CALLS, SITUATIONS

ROOT = Path(__file__).resolve().parent.parent
SECOND = ("second_device_thread", "second_device_backward", "second_device_thread_graph")

pytestmark = pytest.mark.gpu
every_call = pytest.mark.parametrize("call", CALLS)


def run(call: str, situation: str) -> None:
    """Run the pair in an interpreter of its own."""
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run(
        [sys.executable, str(ROOT / "tests" / "fresh_process.py"), call, situation],
        env=os.environ | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("situation", [*SITUATIONS, "spawned_main", "spawned_backward"])
@every_call
def test_first_call(call: str, situation: str) -> None:
    if (call, situation) == ("amax", "thread_double_backward"):
        pytest.skip("amax is linear in pieces: its gradient has no gradient of its own to compare")
    run(call, situation)


@pytest.mark.gpu2
@pytest.mark.parametrize("situation", SECOND)
@every_call
def test_first_call_on_the_second_device(call: str, situation: str) -> None:
    run(call, situation)
