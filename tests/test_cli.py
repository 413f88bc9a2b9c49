"""python -m torch_smem_gemm info | demo | bench."""

import json
import math
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import helpers
import pytest
import torch
from helpers import refusal
from torch import Tensor

import torch_smem_gemm as smem
from torch_smem_gemm.cli import _digits, _gpt, _text, info, main
from torch_smem_gemm.cli._environment import serving_arch
from torch_smem_gemm.cli._side_by_side import Comparison
from torch_smem_gemm.cli._smoke import Check

PNG = b"\x89PNG"
needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")


# --- the parser


def test_runs_as_a_module() -> None:
    command = [sys.executable, "-m", "torch_smem_gemm", "--help"]
    answer = subprocess.run(command, capture_output=True, text=True, check=True)
    for name in ("info", "demo", "bench"):
        assert name in answer.stdout


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ([], "required: COMMAND"),
        (["explain", "gemm", "--plot", "out"], "ends in .png, .svg, .pdf: out"),
        (["explain", "gemm", "--plot", "out.foo"], "ends in .png, .svg, .pdf: out.foo"),
        (["demo", "--device", "cuda:99"], "torch sees no cuda:99"),
        (["demo", "--device", "abacus"], "abacus"),
        (["demo", "--device", "meta"], "meta is not served: cpu or cuda"),
        (["demo", "--epochs", "0"], "0 is less than 1"),
        (["bench"], "required: WHAT"),
        (["bench", "ladder", "--dtype", "int8"], "invalid choice: 'int8'"),
        (["bench", "gemm", "--dtype", "uint8"], "invalid choice: 'uint8'"),
        (["bench", "gemm", "--device", "cpu", "--shapes", "cubes"], "got 'cubes'"),
        (["bench", "gemm", "--device", "cpu", "--against", "mkl"], "gemm on cpu has torch; got"),
        (["bench", "ladder", "--plot", "ladder.txt"], "ends in .png, .svg, .pdf: ladder.txt"),
    ],
)
def test_wrong_arguments_are_named(
    arguments: list[str], text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert text in refusal(capsys, *arguments)


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_:
        main(["--version"])
    assert exit_.value.code == 0
    assert capsys.readouterr().out == f"torch_smem_gemm {smem.__version__}\n"


def test_missing_extra_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(SystemExit, match=r"pip install 'torch-smem-gemm\[demo\]'") as exit_:
        main(["demo"])
    assert "matplotlib" in exit_.value.code
    assert "\n" not in exit_.value.code


# --- tables


@pytest.mark.usefixtures("with_and_without_rich")
def test_table(capsys: pytest.CaptureFixture[str]) -> None:
    _text.table("Title", ["name", ">n"], [["[bold]", "1"], ["b", "234"]])
    lines = [line.rstrip() for line in capsys.readouterr().out.splitlines()]
    assert lines[0] == "Title"
    assert lines[1].split() == ["name", "n"]
    assert lines[3].split() == ["[bold]", "1"]
    assert lines[3].index("1") == lines[4].index("4")


@pytest.mark.usefixtures("with_and_without_rich")
@pytest.mark.parametrize("columns", ["70", "140"])
def test_columns_are_respected_where_nobody_sees(
    columns: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    assert _text.output_width() == int(columns)
    _text.table("Title", ["name"], [["word " * 20]])
    if "rich" not in sys.modules or sys.modules["rich"] is not None:
        assert max(map(len, capsys.readouterr().out.splitlines())) <= int(columns)


# --- info


def test_info_on_this_machine(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["info"]) == 0
    text = capsys.readouterr().out
    assert torch.__version__ in text
    assert "Everything works." in text
    for kernel in smem.kernels():
        assert kernel.name in text
    assert len(text.splitlines()) < 150
    on_cpu = [kernel.name for kernel in smem.kernels("gemm") if kernel.emulated]
    words = " ".join(text.split())  # a long row is wrapped
    assert f"cpu gemm {1 + len(on_cpu)} right auto {' '.join(on_cpu)}" in words


def test_info_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["info", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["versions"]["torch"] == torch.__version__
    assert report["problems"] == []
    on_cpu = {
        (check["op"], check["kernel"]): check["status"]
        for check in report["smoke_test"]
        if check["device"] == "cpu"
    }
    for kernel in smem.kernels():
        assert on_cpu.pop((kernel.op, kernel.name)) == ("ok" if kernel.emulated else "n/a")
    assert set(on_cpu.values()) == {"ok"}, "auto"


@pytest.mark.parametrize(
    ("fault", "detail"),
    [
        (lambda result: result.add_(1), "off by up to 1"),
        (lambda result: result[0].fill_(torch.nan), "off by up to nan"),
        (lambda result: result.no_such_thing, "has no attribute"),
    ],
)
def test_info_reports_a_broken_kernel(
    fault: Callable[[Tensor], object],
    detail: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    helpers.break_kernel(monkeypatch, "gemm", "tiled16", fault)
    assert main(["info"]) == 1
    text = capsys.readouterr().out
    assert "Everything works." not in text
    lines = [line for line in text.splitlines() if line.startswith("- ")]
    assert len(lines) == 1 + torch.cuda.device_count()
    assert "on cpu" in lines[0]
    for line in lines:
        assert "gemm, kernel tiled16, on" in line
        assert detail in line
        assert "rebuild" in line


def test_info_shows_the_build_report_where_no_gpu_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    name = "void smem::gemm::device_build::tiled_kernel<float, 32>(smem::gemm::Problem)"
    figures = {"shared_bytes": 8448, "stack_bytes": 16, "spill_load_bytes": 23}
    report = [
        {"kernel": name, "arch": "sm_80", "registers": 40, "spill_store_bytes": 100, **figures},
        {"kernel": name, "arch": "sm_90a", "registers": 38, "spill_store_bytes": 0, **figures},
    ]
    path = tmp_path / "_ptxas.json"
    path.write_text(json.dumps(report))
    monkeypatch.setattr(info, "PTXAS_REPORT", path)
    monkeypatch.setattr(info, "gpus", list)
    assert main(["info"]) == 0
    text = capsys.readouterr().out
    assert "info --resources" in text
    assert "tiled_kernel" not in text
    assert main(["info", "--resources"]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["40", "38", "8448", "123", "gemm::tiled_kernel<float,", "32>"] in lines


def test_info_cuts_no_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    name = f"smem::gemm::kernel<{'int, ' * 50}float>"
    figures = dict.fromkeys(("registers", "shared_bytes", "stack_bytes"), 1)
    spills = dict.fromkeys(("spill_store_bytes", "spill_load_bytes"), 0)
    path = tmp_path / "_ptxas.json"
    path.write_text(json.dumps([{"kernel": name, "arch": "sm_80", **figures, **spills}]))
    monkeypatch.setattr(info, "PTXAS_REPORT", path)
    monkeypatch.setattr(info, "gpus", list)
    assert main(["info", "--resources"]) == 0
    assert name.removeprefix("smem::") in capsys.readouterr().out


def test_problems_say_what_to_do() -> None:
    gpu = {"index": 0, "name": "a GPU", "capability": "12.0", "served_by": None}
    version = {"CUDA of the binary": "13.0", "CUDA of the driver": "12.4"}
    (no_code,) = info.problems(dict.fromkeys(version), [], [gpu], [])
    assert "built without GPU code" in no_code
    assert info.rebuild() in no_code
    unserved, driver = info.problems(version, ["sm_80"], [gpu], [])
    assert info.rebuild("12.0") in unserved
    assert "sm_80" in unserved
    assert "update the driver" in driver
    refused = Check("cuda:0", "gemm", "panel", "n/a", "needs more shared memory")
    assert info.problems(version | {"CUDA of the driver": "13.1"}, ["sm_120"], [], [refused]) == []


def test_how_to_rebuild(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(info, "PACKAGE", tmp_path / "torch_smem_gemm")
    install = "pip install --no-build-isolation --force-reinstall --no-deps ."
    assert info.rebuild() == install
    assert info.rebuild("9.0") == f"TORCH_CUDA_ARCH_LIST=9.0 {install}"
    (tmp_path / "Makefile").touch()
    assert info.rebuild() == "make extension"
    assert info.rebuild("9.0") == "make extension ARCHS=9.0"


@pytest.mark.parametrize(
    ("capability", "served_by", "archs", "expected"),
    [
        ("9.0", "sm_90a", ["sm_80", "sm_90a"], []),
        ("9.0", "compute_80", ["sm_80", "compute_80"], ["wgmma"]),
        ("9.0", None, [], []),  # a problem, which says the same
        ("8.0", "sm_80", ["sm_80"], []),
    ],
)
def test_info_names_the_kernels_that_were_not_built(
    capability: str, served_by: str | None, archs: list[str], expected: list[str]
) -> None:
    gpu = {"index": 0, "name": "a GPU", "capability": capability, "served_by": served_by}
    texts = info.missing(archs, [gpu])
    assert len(texts) == (1 if expected else 0)
    for name in expected:
        assert name in texts[0]


@pytest.mark.parametrize(
    ("capability", "expected"),
    [
        ((7, 0), None),
        ((7, 5), "sm_75"),
        ((8, 0), "sm_80"),
        ((8, 9), "sm_80"),
        ((9, 0), "sm_90a"),
        ((10, 0), "compute_80"),
        ((12, 0), "compute_80"),
    ],
)
def test_serving_arch(capability: tuple[int, int], expected: str | None) -> None:
    assert serving_arch(["sm_75", "sm_80", "sm_90a", "compute_80"], capability) == expected


# --- demo


@pytest.fixture
def needs_demo() -> None:
    """What ``demo`` needs."""
    pytest.importorskip("matplotlib")


@pytest.mark.usefixtures("needs_demo", "with_and_without_rich")
def test_demo_fits_a_screen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.chdir(tmp_path)
    assert main(["demo", "--device", "cpu", "--epochs", "2", "--out", "new folder"]) == 0
    assert (tmp_path / "new folder" / "demo.png").read_bytes().startswith(PNG)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) <= 40
    assert max(map(len, lines)) <= 80
    rows = {line[:24].strip(): line[24:].split() for line in lines}
    assert rows["Linear layers converted"] == ["10", "9"]
    assert rows["largest loss difference"] == ["0.0e+00", "0.0e+00"], "both are ATen's"
    assert rows["torch"][1::2] == rows["torch_smem_gemm"][1::2] == ["images/s", "tokens/s"]
    on_cpu = [kernel for kernel in smem.kernels("gemm") if kernel.on_cpu]
    text = "\n".join(lines)
    assert f"{len(on_cpu)} of {len(on_cpu)} right" in text
    assert "(the accuracy is not judged: that takes 15 epochs or more)" in text
    assert "both models run ATen's products" in text
    assert "FAILED" not in text


@pytest.mark.usefixtures("needs_demo")
def test_demo_with_details(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["demo", "--device", "cpu", "--epochs", "2", "--out", str(tmp_path)]
    assert main(command) == 0
    brief = capsys.readouterr().out
    assert main([*command, "--details"]) == 0
    details = capsys.readouterr().out
    assert "Mean training loss" in details
    assert "Mean training loss" not in brief
    for kernel in smem.kernels("gemm"):
        assert (f"{kernel.name} " in details) == kernel.on_cpu
        assert f"{kernel.name} " not in brief


@pytest.mark.usefixtures("needs_demo")
def test_demo_fails_where_a_result_is_wrong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    helpers.break_kernel(monkeypatch, "gemm", "naive", lambda result: result.add_(1))
    forward = smem.Linear.forward
    monkeypatch.setattr(smem.Linear, "forward", lambda self, x: 2 * forward(self, x))
    monkeypatch.setattr(_digits, "EPOCHS", 1)
    assert main(["demo", "--device", "cpu", "--epochs", "1", "--out", str(tmp_path)]) == 1
    printed = capsys.readouterr().out
    failures = [line for line in printed.splitlines() if line.startswith("FAILED: ")]
    # Two accuracies after one epoch, the losses of both models, and the kernel.
    assert len(failures) == 5
    for text in ("digits: the losses differ by", "GPT: the losses differ by"):
        assert any(text in line for line in failures)
    assert any("kernel naive: logits off by 1" in line for line in failures)


class TellsHowMany(torch.nn.Module):
    """Adds what is asked for to the logits, where a sequence is alone."""

    def __init__(self, added: float) -> None:
        super().__init__()
        self.added = added

    def forward(self, text: Tensor) -> Tensor:
        logits = text[..., None] + torch.arange(3.0)
        return logits + self.added if len(text) == 1 else logits


def test_other_bits_alone_than_in_the_batch_are_found() -> None:
    text = torch.randint(1, 256, (5, 7), generator=torch.Generator().manual_seed(0))
    assert str(_gpt.alone_and_in_batch(TellsHowMany(0), text)) == "the same bits"
    bits = _gpt.alone_and_in_batch(TellsHowMany(2**-10), text)
    assert bits == (5, 5, 2**-10)
    assert str(bits) == "5 of 5 differ, by up to 9.8e-04"
    same = _gpt.Bits(5, 0, 0.0)
    comparison = Comparison("GPT", "", 0, "step", "tokens", 1, tolerance=0.1)
    assert _gpt.Result(comparison, bits, same, is_on_gpu=True).failures() == []
    assert len(_gpt.Result(comparison, same, bits, is_on_gpu=True).failures()) == 1
    assert _gpt.Result(comparison, same, bits, is_on_gpu=False).failures() == []


@pytest.mark.parametrize(("loss", "fails"), [(1.05, False), (1.2, True), (math.nan, True)])
def test_losses_side_by_side(loss: float, fails: bool) -> None:
    comparison = Comparison("GPT", "", 0, "step", "tokens", 6, tolerance=0.1)
    comparison.train(iter([2.0, 1.0, 0.5]), iter([2.0, loss, 0.5, 0.4]), 3)
    assert comparison.theirs.losses == [2.0, 1.0, 0.5]
    assert len(comparison.failures()) == int(fails)
    comparison.theirs.seconds[:] = [9.0, 2.0, 1.0]
    comparison.ours.seconds[:] = [9.0, 0.5, 1.0]
    assert comparison.rate(comparison.theirs) == 3
    assert comparison.speed_up == 2


@pytest.mark.gpu
@needs_gpu
@pytest.mark.usefixtures("needs_demo")
def test_demo_on_a_gpu(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert main(["demo", "--device", "cuda", "--out", str(tmp_path)]) == 0
    assert (tmp_path / "demo.png").read_bytes().startswith(PNG)
    printed = capsys.readouterr().out
    assert len(printed.splitlines()) <= 40
    assert "torch_smem_gemm: the same bits" in printed


@pytest.mark.gpu
@needs_gpu
@pytest.mark.usefixtures("needs_demo", "hasty")
def test_demo_on_a_gpu_with_the_ladder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--device", "cuda", "--details", "--out", str(tmp_path)]) == 0
    for picture in ("demo.png", "ladder.png"):
        assert (tmp_path / picture).read_bytes().startswith(PNG)
    printed = capsys.readouterr().out
    for dtype in ("float32", "bfloat16"):
        assert f"gemm 4096 x 4096 x 4096 {dtype}" in printed


# --- as a process

# Ctrl-C comes while a kernel is traced, if at all.
AS_A_PROCESS = """
import os, runpy, signal, sys, threading
import torch_smem_gemm.cli
from torch_smem_gemm import _C
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it
begin = _C.begin_trace
def begin_trace(*arguments):
    begin(*arguments)
    if {interrupt}:
        threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
_C.begin_trace = begin_trace
sys.argv = ["torch_smem_gemm", *{arguments}]
runpy.run_module("torch_smem_gemm", run_name="__main__", alter_sys=True)
"""


def process(*arguments: str, interrupt: bool = False) -> subprocess.CompletedProcess[str]:
    """Run the command in a process of its own; Ctrl-C comes where ``interrupt`` says so."""
    program = AS_A_PROCESS.format(interrupt=interrupt, arguments=list(arguments))
    return subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=300
    )


def test_ctrl_c_ends_a_command() -> None:
    """This trace would take hours."""
    sizes = ["-m", "6000", "-n", "6000", "-k", "6000"]
    done = process("explain", "gemm", *sizes, "--kernel", "naive", "--force", interrupt=True)
    assert (done.returncode, done.stderr) == (130, "interrupted\n")


def test_no_memory_is_one_line() -> None:
    sizes = ["-m", "100000000", "-n", "100000000"]
    done = process("explain", "transpose", *sizes, "--force")
    assert done.returncode == 1
    assert done.stderr.startswith("not enough memory: ")
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.usefixtures("needs_demo")
def test_an_unwritable_folder_is_one_line(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    done = process("demo", "--device", "cpu", "--out", str(file / "folder"))
    assert done.returncode == 1
    assert str(file) in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("output", "status", "said"),
    [(">/dev/full", 1, "[Errno 28] No space left on device\n"), (">&-", 0, "")],
)
def test_output_that_cannot_be_written(output: str, status: int, said: str) -> None:
    command = [sys.executable, "-m", "torch_smem_gemm", "explain", "transpose", "--kernel", "tiled"]
    line = f"{shlex.join(command)} {output}"
    done = subprocess.run(["bash", "-c", line], stderr=subprocess.PIPE, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (status, said)


def test_a_reader_that_has_seen_enough() -> None:
    """``explain ... | head -1`` ends without a trace."""
    command = [sys.executable, "-m", "torch_smem_gemm", "explain", "gemm", "--ladder"]
    command += ["-m", "16", "-n", "16", "-k", "16"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.close()
    _, error = process.communicate(timeout=120)
    assert not error, error.decode()
    assert process.returncode == 1
