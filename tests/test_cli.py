"""python -m torch_smem_gemm info | demo | bench."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import torch_smem_gemm as smem
from torch_smem_gemm.bench import measure
from torch_smem_gemm.cli import _text, info, main
from torch_smem_gemm.cli._environment import serving_arch
from torch_smem_gemm.cli._smoke import Check

LADDER = ["bench", "ladder", "--device", "cpu", "--size", "24"]
PNG = b"\x89PNG"
needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measure, "SECONDS", 0.01)
    monkeypatch.setattr(measure, "MAX_ROUNDS", 5)


def break_kernel(
    monkeypatch: pytest.MonkeyPatch, op: str, kernel: str, fault: Callable[[Tensor], object]
) -> None:
    """Let ``kernel`` of ``op`` return what ``fault`` makes of the right result, in place."""
    original = getattr(smem, op)

    def broken(*args: Any, kernel: str = "auto", **kwargs: Any) -> Tensor:
        result = original(*args, kernel=kernel, **kwargs)
        if kernel == faulty:
            fault(result)
        return result

    faulty = kernel
    monkeypatch.setattr(smem, op, broken)


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
        (["demo", "--device", "cuda:99"], "torch sees no cuda:99"),
        (["demo", "--device", "abacus"], "abacus"),
        (["demo", "--device", "meta"], "meta is not served: cpu or cuda"),
        (["demo", "--epochs", "0"], "0 is less than 1"),
        (["bench", "ladder", "--dtype", "int8"], "invalid choice: 'int8'"),
    ],
)
def test_wrong_arguments_are_named(
    arguments: list[str], text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as exit_:
        main(arguments)
    assert exit_.value.code == 2
    assert text in capsys.readouterr().err


def test_missing_extra_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sklearn", None)
    with pytest.raises(SystemExit, match=r"pip install 'torch-smem-gemm\[demo\]'") as exit_:
        main(["demo"])
    assert "sklearn" in exit_.value.code
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


# --- info


def test_info_on_this_machine(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["info"]) == 0
    text = capsys.readouterr().out
    assert torch.__version__ in text
    assert "Everything works." in text
    for kernel in smem.kernels():
        assert kernel.name in text


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
    assert set(on_cpu.values()) == {"ok"}
    assert {(kernel.op, kernel.name) for kernel in smem.kernels()} < on_cpu.keys()


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
    break_kernel(monkeypatch, "gemm", "tiled16", fault)
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
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["gemm::tiled_kernel<float,", "32>", "40", "38", "8448", "123"] in lines


def test_problems_say_what_to_do() -> None:
    gpu = {"index": 0, "name": "a GPU", "capability": "12.0", "served_by": None}
    version = {"CUDA of the binary": "13.0", "CUDA of the driver": "12.4"}
    (no_code,) = info.problems(dict.fromkeys(version), [], [gpu], [])
    assert "built without nvcc" in no_code
    assert "pip install" in no_code
    unserved, driver = info.problems(version, ["sm_80"], [gpu], [])
    assert "TORCH_CUDA_ARCH_LIST=12.0" in unserved
    assert "sm_80" in unserved
    assert "update the driver" in driver
    refused = Check("cuda:0", "gemm", "panel", "n/a", "needs more shared memory")
    assert info.problems(version | {"CUDA of the driver": "13.1"}, ["sm_120"], [], [refused]) == []


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


# --- bench


def test_bench_ladder_json_and_plot(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("matplotlib")
    results, plot = tmp_path / "ladder.json", tmp_path / "ladder.png"
    assert main([*LADDER, "--json", str(results), "--plot", str(plot)]) == 0
    assert plot.read_bytes().startswith(PNG)

    report = json.loads(results.read_text())
    assert report["versions"].keys() >= {"torch_smem_gemm", "commit", "torch", "driver"}
    assert report["device"].startswith("CPU")
    assert "Median" in report["method"]
    assert report["ceilings"]["copy_gbs"] > 0
    assert report["ceilings"]["ffma_gflops"] is None
    assert report["telemetry"] is None
    assert report["interrupted"] is False
    names = {
        op: [kernel.name for kernel in smem.kernels(op)] for op in ("gemm", "transpose", "sum")
    }
    peers = {
        "gemm": ["torch.matmul"],
        "transpose": ["x.t().contiguous()", "copy, no transpose"],
        "sum": ["torch.sum"],
    }
    problems: dict[str, list[dict[str, Any]]] = {}
    for row in report["rows"]:
        problems.setdefault(row["problem"], []).append(row)
    assert list(problems) == [
        "gemm 24 x 24 x 24 float32",
        "transpose 24 x 24 float32",
        "sum 576 over all float32",
        "sum 24 x 24 over dim 1 float32",
    ]
    for rows in problems.values():
        op = rows[0]["op"]
        assert [row["name"] for row in rows] == names[op] + peers[op]
        assert rows[0]["speedup"] == rows[0]["speedup_p20"] == rows[0]["speedup_p80"] == 1
        for row in rows:
            assert row["status"] == "ok"
            assert row["rounds"] == 5
            assert 0 < row["ms_p20"] <= row["ms"] <= row["ms_p80"]
            assert row["rate"] > 0
            assert 0 < row["speedup_p20"] <= row["speedup"] <= row["speedup_p80"]
            assert all(share > 0 for share in row["shares"].values())

    text = capsys.readouterr().out
    for row in report["rows"]:
        assert row["name"] in text


@pytest.mark.parametrize("dtype", ["float64", "float16", "bfloat16"])
def test_bench_ladder_of_other_dtypes(dtype: str) -> None:
    assert main([*LADDER, "--dtype", dtype]) == 0


@pytest.mark.parametrize("op", ["gemm", "transpose", "sum"])
@pytest.mark.parametrize(
    "fault",
    [lambda result: result.view(-1)[-1].mul_(1.01), lambda result: result.fill_(torch.nan)],
    ids=["one element off by a hundredth", "nothing written"],
)
def test_bench_prints_wrong_instead_of_a_time(
    op: str,
    fault: Callable[[Tensor], object],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    kernel = smem.kernels(op)[1].name
    torch.manual_seed(0)
    break_kernel(monkeypatch, op, kernel, fault)
    assert main(LADDER) == 1
    wrong = [line for line in capsys.readouterr().out.splitlines() if "WRONG" in line]
    assert wrong
    assert all(line.split()[:2] == [kernel, "WRONG"] for line in wrong)


def test_bench_shows_a_refusal_and_retries_at_a_smaller_k(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    original = smem.gemm

    def gemm(a: Tensor, b: Tensor, **kwargs: Any) -> Tensor:
        if kwargs["kernel"] == "panel" and a.size(1) > 256:
            raise RuntimeError(f"smem.gemm: kernel 'panel' takes a K of 256, got {a.size(1)}")
        return original(a, b, **kwargs | {"kernel": "auto"})

    monkeypatch.setattr(smem, "gemm", gemm)
    results = tmp_path / "ladder.json"
    assert main([*LADDER[:-1], "300", "--json", str(results)]) == 0
    rows = json.loads(results.read_text())["rows"]
    (refused,) = (row for row in rows if row["status"] == "n/a")
    assert refused["name"] == "panel"
    assert refused["ms"] is None
    assert refused["detail"] == "smem.gemm: kernel 'panel' takes a K of 256, got 300"
    retried = [row["name"] for row in rows if row["problem"] == "gemm 300 x 300 x 256 float32"]
    assert retried == ["panel", "tiled16", "torch.matmul"]
    assert "takes a K of 256" in capsys.readouterr().out


def test_bench_keeps_what_is_done_at_ctrl_c(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def impatient(*args: Any, **kwargs: Any) -> Tensor:
        raise KeyboardInterrupt

    monkeypatch.setattr(smem, "transpose", impatient)
    results = tmp_path / "ladder.json"
    assert main([*LADDER, "--json", str(results)]) == 130
    report = json.loads(results.read_text())
    assert report["interrupted"] is True
    assert {row["problem"] for row in report["rows"]} == {"gemm 24 x 24 x 24 float32"}
    assert "interrupted: " in capsys.readouterr().out


def test_bench_does_not_hide_other_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    def gemm(*args: Any, **kwargs: Any) -> Tensor:
        raise RuntimeError("smem: launching kernel 'naive' failed: an illegal memory access")

    monkeypatch.setattr(smem, "gemm", gemm)
    with pytest.raises(RuntimeError, match="illegal memory access"):
        main(LADDER)


@pytest.mark.gpu
@needs_gpu
def test_bench_ladder_on_a_gpu(tmp_path: Path) -> None:
    results = tmp_path / "ladder.json"
    assert main(["bench", "ladder", "--device", "cuda", "--json", str(results)]) == 0
    report = json.loads(results.read_text())
    assert report["device"] == torch.cuda.get_device_name()
    assert report["ceilings"]["read_gbs"] > 0
    assert {row["name"] for row in report["rows"] if row["status"] != "ok"} <= {"panel"}
    for row in report["rows"]:
        # Some slack, because ceilings and kernels are measured, and by few rounds here.
        assert all(0 < share < 1.2 for share in row["shares"].values())


# --- demo


def test_demo(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for module in ("sklearn", "matplotlib", "rich"):
        pytest.importorskip(module)
    out = tmp_path / "new folder"
    assert main(["demo", "--device", "cpu", "--epochs", "10", "--out", str(out)]) == 0
    assert (out / "demo.png").read_bytes().startswith(PNG)
    text = capsys.readouterr().out
    assert "replaced 10 Linear modules" in text
    assert "FAILED" not in text
    assert "test accuracy" in text
    assert "images/s" in text
    assert "Largest difference" in text
    for kernel in smem.kernels("gemm"):
        assert kernel.name in text


def test_demo_fails_where_a_result_is_wrong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for module in ("sklearn", "matplotlib", "rich"):
        pytest.importorskip(module)
    break_kernel(monkeypatch, "gemm", "naive", lambda result: result.add_(1))
    forward = smem.Linear.forward
    monkeypatch.setattr(smem.Linear, "forward", lambda self, x: 2 * forward(self, x))
    assert main(["demo", "--device", "cpu", "--epochs", "1", "--out", str(tmp_path)]) == 1
    failures = [
        line for line in capsys.readouterr().out.splitlines() if line.startswith("FAILED: ")
    ]
    assert len(failures) == 4  # two accuracies after one epoch, the losses, the kernel
    assert any("the losses differ by" in line for line in failures)
    assert any("kernel naive: logits off by 1" in line for line in failures)


@pytest.mark.gpu
@needs_gpu
def test_demo_on_a_gpu(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for module in ("sklearn", "matplotlib", "rich"):
        pytest.importorskip(module)
    assert main(["demo", "--device", "cuda", "--out", str(tmp_path)]) == 0
    for picture in ("demo.png", "ladder.png"):
        assert (tmp_path / picture).read_bytes().startswith(PNG)
    assert "gemm 4096 x 4096 x 4096 float32" in capsys.readouterr().out
