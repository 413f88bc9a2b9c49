"""Fixtures and markers of all tests.

A test of kernels is written once and runs on each device: on "cpu" a kernel asked for by name is
the very CUDA kernel, run by csrc/host_run.
"""

import os
import sys

import pytest
import torch
from hypothesis import HealthCheck, settings

from torch_smem_gemm.bench import measure

pytest.register_assert_rewrite("helpers")

from helpers import TENSOR_CORE_GEMMS, floats_of  # noqa: E402

_QUIET = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large]
settings.register_profile("local", deadline=None, max_examples=100, suppress_health_check=_QUIET)
settings.register_profile("ci", settings.get_profile("local"), derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "local")


def _can_be(item: pytest.Item) -> bool:
    """Whether its GEMM kernel is one that takes its dtype on its device, newer GPUs included."""
    params = item.callspec.params if hasattr(item, "callspec") else {}
    if params.get("kernel") not in TENSOR_CORE_GEMMS:
        return True
    taken = floats_of(params["kernel"])
    return params.get("device") != "cpu" and params.get("dtype", taken[-1]) in taken


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Drop what no machine can run; skip what this one has no GPU for, and say so."""
    items[:] = filter(_can_be, items)
    gpus = torch.cuda.device_count() if torch.cuda.is_available() else 0
    for marker, needed, reason in (
        ("gpu", 1, "needs a CUDA GPU"),
        ("gpu2", 2, "needs two CUDA GPUs"),
    ):
        if gpus < needed:
            for item in items:
                if item.get_closest_marker(marker):
                    item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture(params=["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def device(request: pytest.FixtureRequest) -> str:
    """The device that the test runs on."""
    return request.param


@pytest.fixture
def hopper() -> None:
    """A GPU that the kernels of compute capability 9.0 run on."""
    if torch.cuda.get_device_capability() != (9, 0):
        pytest.skip("needs a GPU of compute capability 9.0")


@pytest.fixture(autouse=True)
def _same_numbers_every_time() -> None:
    torch.manual_seed(20240229)


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few rounds of every timing: what is tested is not the time."""
    monkeypatch.setattr(measure, "SECONDS", 0.01)
    monkeypatch.setattr(measure, "MAX_ROUNDS", 5)


@pytest.fixture(params=["rich", "plain"])
def with_and_without_rich(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables drawn by rich, then as if it were not installed."""
    if request.param == "rich":
        pytest.importorskip("rich")
    else:
        monkeypatch.setitem(sys.modules, "rich", None)
