"""%%smem_trace, the magic of notebooks, in an IPython shell."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

pytest.importorskip("IPython", reason="needs IPython, of the extra [test]")

from IPython.core.interactiveshell import ExecutionResult, InteractiveShell
from IPython.utils.capture import capture_output

import torch_smem_gemm as smem

CELL = """__global__ void twice(const float* a, float* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = 2 * a[i];
}
"""
LAUNCH = "--grid 2 --block 32"
Run = Callable[..., tuple[ExecutionResult, str, list[dict[str, Any]]]]


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InteractiveShell]:
    """A shell with the extension, and two tensors."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SMEM_CACHE_DIR", str(tmp_path_factory.mktemp("kernels")))
        patch.setenv("IPYTHONDIR", str(tmp_path_factory.mktemp("ipython")))
        shell = InteractiveShell.instance()
        shell.run_cell("%load_ext torch_smem_gemm")
        yield shell
        InteractiveShell.clear_instance()


@pytest.fixture
def run(shell: InteractiveShell) -> Run:
    """Run a cell of the magic; its result, its output, and what it displays by type."""
    shell.user_ns |= {"x": torch.arange(64.0), "y": torch.full((64,), -1.0)}
    shell.user_ns.pop("_smem", None)

    def run(options: str, cell: str = CELL) -> tuple[ExecutionResult, str, list[dict[str, Any]]]:
        with capture_output() as said:
            result = shell.run_cell(f"%%smem_trace {options}\n{cell}")
        return result, said.stdout + said.stderr, [shown.data for shown in said.outputs]

    return run


def test_a_cell_is_run_on_the_notebooks_variables(run: Run, shell: InteractiveShell) -> None:
    result, _, shown = run(f"{LAUNCH} --arg x --arg y --arg 64 --check 'out == 2 * a'")
    assert result.success
    assert torch.equal(shell.user_ns["y"], 2 * shell.user_ns["x"])
    trace = shell.user_ns["_smem"]
    assert isinstance(trace, smem.Trace)
    assert trace.launches[0].lines[0].text == "if (i < n) out[i] = 2 * a[i];"
    (data,) = shown
    assert "kernel.cu, kernel twice" in data["text/plain"]
    assert data["text/plain"].endswith("Check holds: out == 2 * a\n")
    assert data["text/html"].startswith(trace._repr_html_())
    assert "Check holds: out == 2 * a" in data["text/html"]


def test_makers_macros_and_templates(run: Run, shell: InteractiveShell) -> None:
    cell = "template <int N> __global__ void k(double* a) { a[threadIdx.x] = N + M; }"
    options = "--kernel 'k<3>' --grid 1 --block 8 --arg empty(8) -D M=4 --check 'a == 7'"
    result, _, shown = run(options, cell)
    assert result.success
    assert "Check holds" in shown[0]["text/plain"]


def test_faults_and_failed_checks_are_shown(run: Run, shell: InteractiveShell) -> None:
    result, _, shown = run(f"{LAUNCH} --arg x[:32] --arg y --arg 64")
    assert not result.success
    shell.user_ns["half"] = torch.zeros(32)
    result, _, shown = run(f"{LAUNCH} --arg half --arg y --arg 64 --check 'out < 0'")
    assert result.success
    text = shown[0]["text/plain"]
    assert "FAULT: out of bounds in twice at kernel.cu:3" in text
    assert "CHECK FAILED: out < 0" in text
    assert "CHECK FAILED: out &lt; 0" in shown[0]["text/html"]
    assert shell.user_ns["_smem"].faults


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (f"{LAUNCH} --arg z --arg y --arg 64", "--arg: there is no variable z\n  z\n  ^"),
        (f"{LAUNCH} --arg LAUNCH --arg y --arg 64", "there is no variable LAUNCH"),
        (f"{LAUNCH} --arg x --arg '64", "No closing quotation"),
        ("--grid 2", "required: --block"),
        (f"{LAUNCH} --arg x", "takes 3 arguments (const float* a, float* out, int n), and 1 came"),
        (f"{LAUNCH} --kernel thrice", "the source has no kernel of this name; it has twice"),
        (f"{LAUNCH} --arg In --arg y --arg 64", "expected a tensor, a NumPy array or None"),
    ],
)
def test_errors_are_one_line(options: str, text: str, run: Run, shell: InteractiveShell) -> None:
    result, said, shown = run(options)
    assert type(result.error_in_exec).__name__ == "UsageError"
    assert text in str(result.error_in_exec)
    assert "Traceback" not in said
    assert shown == []
    assert "_smem" not in shell.user_ns


def test_compile_errors_are_at_the_cells_line(run: Run) -> None:
    result, *_ = run(f"{LAUNCH} --arg x --arg y --arg 64", CELL.replace("2 *", "two *"))
    assert "kernel.cu:3:" in str(result.error_in_exec)


def test_help(run: Run) -> None:
    result, said, _ = run("--help")
    assert result.success
    assert "--check COMPARISON" in said
