"""Fixtures and markers of all tests.

A test of kernels is written once and runs on each device: on "cpu" a kernel asked for by name is
the very CUDA kernel, run by csrc/cpu_emulator.

The tests run in several processes (pytest-xdist), each function's cases in one process, and all
functions of some files in one.
"""

import atexit
import fcntl
import gc
import os
import re
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, settings

from torch_smem_gemm._kernels import chip
from torch_smem_gemm.bench import measure

pytest.register_assert_rewrite("helpers", "fp16x3_checks")

from helpers import TENSOR_CORE_GEMMS, floats_of  # noqa: E402

_QUIET = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large]
settings.register_profile("local", deadline=None, max_examples=100, suppress_health_check=_QUIET)
settings.register_profile("ci", settings.get_profile("local"), derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "local")


# pytest-xdist hands its terminal's width on; what the commands print to a pipe is tested.
os.environ.pop("COLUMNS", None)

if "PYTEST_XDIST_WORKER" in os.environ:
    # The processes share the cores: one thread each, and the programs that they start.
    torch.set_num_threads(1)
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")

GIB = 2**30
# What a process of tests needs: torch, all tests and their largest tensors; on a GPU, code for it.
MEMORY_OF_A_PROCESS, GPU_MEMORY_OF_A_PROCESS = 2 * GIB, 3 * GIB

# Files whose tests share what takes long to make, and what that is: one process is to make it.
TOGETHER = {
    "test_bank_rule.py": "a program that measures bank passes",
    "test_claims.py": "traces",
    "test_fp16x3_mutants.py": "objects around the kernels of fp16x3",
    "test_mma_sm75.py": "a program with the kernels of mma for sm_75",
    "test_sm90_faults.py": "a program of planted faults",
    "test_sm90_mutants.py": "objects around the kernels of sm90",
    "test_torch_suites.py": "the import of torch.testing",
}

# Files whose cases each start an interpreter, which takes longer than dealing them out.
APART = {"test_fresh_process.py"}


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare ``--sweep``."""
    parser.addoption("--sweep", action="store_true", help="run the wide sweeps, too")


def pytest_configure() -> None:
    """Make the folder that the processes of this test run share (compile_kernels.py)."""
    if "PYTEST_XDIST_WORKER" not in os.environ:
        path = tempfile.mkdtemp(prefix="smem_test_run_")
        os.environ["SMEM_TEST_RUN"] = path
        atexit.register(shutil.rmtree, path, ignore_errors=True)


def pytest_report_header(config: pytest.Config) -> str:
    """Say which tests run."""
    return "wide sweeps: " + ("run" if config.getoption("sweep") else "left out; --sweep runs them")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """As many processes as there are cores for this one, and as there is memory for."""
    limits = [len(os.sched_getaffinity(0))]
    limits += [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // MEMORY_OF_A_PROCESS]
    if torch.cuda.is_available():
        memory = torch.cuda.get_device_properties(0).total_memory
        limits += [memory // GPU_MEMORY_OF_A_PROCESS]
    return max(1, min(limits))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Deal out whole functions: by single cases, the dealing takes longer than many a test."""
    from xdist.scheduler import LoadScopeScheduling

    class ByFunction(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file = nodeid.partition("::")[0].rpartition("/")[2]
            if file in APART:
                return nodeid
            return TOGETHER.get(file, nodeid.partition("[")[0])

    return ByFunction(config, log) if config.getvalue("dist") == "loadscope" else None


def _can_be(item: pytest.Item) -> bool:
    """Whether its GEMM kernel is one that takes its dtype on its device, newer GPUs included."""
    params = item.callspec.params if hasattr(item, "callspec") else {}
    if params.get("kernel") not in TENSOR_CORE_GEMMS:
        return True
    taken = floats_of(params["kernel"])
    return params.get("device") != "cpu" and params.get("dtype", taken[-1]) in taken


def _thin_out(items: list[pytest.Item]) -> None:
    """Make sweeps of all cases but one in n of each function that is marked one_in(n).

    Those that need a GPU are counted apart, so that both kinds have one.
    """
    counts: Counter[tuple] = Counter()
    for item in items:
        marker = item.get_closest_marker("one_in")
        if marker is None or item.get_closest_marker("sweep"):
            continue
        function = item.nodeid.partition("[")[0], bool(item.get_closest_marker("gpu"))
        if counts[function] % marker.args[0]:
            item.add_marker("sweep")
        counts[function] += 1


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Drop what no machine can run and what is not asked for; skip what lacks a GPU here."""
    items[:] = filter(_can_be, items)
    _thin_out(items)
    if not config.getoption("sweep"):
        # Each test that is skipped takes some ms, and there are thousands.
        sweeps = [item for item in items if item.get_closest_marker("sweep")]
        config.hook.pytest_deselected(items=sweeps)
        items[:] = [item for item in items if not item.get_closest_marker("sweep")]
    gpus = torch.cuda.device_count() if torch.cuda.is_available() else 0
    for marker, runs, reason in (
        ("gpu", gpus >= 1, "needs a CUDA GPU"),
        ("gpu2", gpus >= 2, "needs two CUDA GPUs"),
        ("gpu4", gpus >= 4, "needs four CUDA GPUs"),
    ):
        for item in items:
            if not runs and item.get_closest_marker(marker):
                item.add_marker(pytest.mark.skip(reason=reason))


REFUSED = re.compile(
    r"kernel '([\w:]+)' (runs on tensor cores and needs a GPU|needs shared memory)"
)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Skip a test of a kernel that a GPU refuses when it passes for an older one (SMEM_CAPABILITY).

    Only a test whose name says that kernel: what ``auto`` chooses must run.
    """
    try:
        return (yield)
    except RuntimeError as error:
        refused = REFUSED.search(str(error))
        if not os.environ.get("SMEM_CAPABILITY") or not refused or refused[1] not in item.name:
            raise
        pytest.skip(f"SMEM_CAPABILITY={os.environ['SMEM_CAPABILITY']}: {error}")


def pytest_collection_finish() -> None:
    """Keep what imports and collection made out of the collector's way: it lives to the end.

    Tests of lifetimes collect often, which takes half a second where all of it is looked through.
    """
    gc.collect()
    gc.freeze()


@pytest.fixture(params=["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def device(request: pytest.FixtureRequest) -> str:
    """The device that the test runs on."""
    return request.param


@pytest.fixture
def hopper() -> None:
    """A GPU that the kernels of compute capability 9.0 run on."""
    if chip("cuda").capability != 90:
        pytest.skip("needs a GPU of compute capability 9.0")


@pytest.fixture(autouse=True)
def _gpu_memory(request: pytest.FixtureRequest) -> Iterator[None]:
    """Keep the GPU's memory for one test at a time of those whose marker says that they need much.

    Skip where not so much is free. The lock is between processes.
    """
    marker = request.node.get_closest_marker("gpu_memory")
    if marker is None:
        yield
        return
    with (Path(tempfile.gettempdir()) / "torch_smem_gemm_gpu_memory.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        torch.cuda.empty_cache()
        if torch.cuda.mem_get_info()[0] < marker.kwargs["gib"] * GIB:
            pytest.skip(f"needs {marker.kwargs['gib']} GiB of free GPU memory")
        yield
        torch.cuda.empty_cache()


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
