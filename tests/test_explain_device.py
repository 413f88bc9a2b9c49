"""explain: what a trace comes to on a GPU: occupancy, the build's registers, ceilings."""

import dataclasses
import json

import pytest
import torch
from explain_command import SMALL, every_kernel, report, text

from torch_smem_gemm import _C, analysis
from torch_smem_gemm._kernels import build_info
from torch_smem_gemm.cli import _explain_kernel, _resources
from torch_smem_gemm.cli._resources import Resources, plain_name


@pytest.fixture
def registers(monkeypatch: pytest.MonkeyPatch) -> Resources:
    """Lets every kernel take 64 registers, whatever the build says."""
    resources = Resources("sm_90a", 64, 1000, 0, 0, 0)
    monkeypatch.setattr(_explain_kernel, "built_resources", lambda *_: resources)
    return resources


def test_occupancy_is_that_of_the_build(
    registers: Resources, capsys: pytest.CaptureFixture[str]
) -> None:
    found = report(capsys, "gemm", "--kernel", "tiled16", *SMALL["gemm"])["residency"]
    expected = analysis.occupancy(256, 64, 1000, "H200")
    assert found["occupancy"] == json.loads(json.dumps(dataclasses.asdict(expected)))
    assert found["resources"] == dataclasses.asdict(registers)
    assert found["waves"] == 9 / (expected.blocks * 132)  # 3 x 3 tiles
    assert not found["opts_in"]
    shown = text(capsys, "gemm", "--kernel", "tiled16", *SMALL["gemm"])
    assert "64, by ptxas for sm_90a" in shown
    assert "limited by registers" in shown


@pytest.mark.usefixtures("registers")
def test_device_changes_occupancy_and_ceilings(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["gemm", "--kernel", "tiled16", *SMALL["gemm"], "--device"]
    h200, t4 = (report(capsys, *arguments, device) for device in ("h200", "T4"))
    assert (h200["device"], t4["device"]) == ("H200", "T4")
    assert h200["trace"]["totals"] == t4["trace"]["totals"]
    assert t4["residency"]["occupancy"]["percent"] > h200["residency"]["occupancy"]["percent"]
    for name, seconds in t4["least_seconds"].items():
        assert seconds > h200["least_seconds"][name]


def test_opting_in_and_carveout_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    """32 K floats: 48 KiB at K = 384, and above it one asks."""
    sizes = ["--kernel", "panel", "-m", "16", "-n", "16"]
    least, more = (report(capsys, "gemm", *sizes, "-k", k)["residency"] for k in ("384", "385"))
    assert (least["dynamic_shared_bytes"], least["opts_in"]) == (48 * 1024, False)
    assert least["carveout"] is None
    assert (more["dynamic_shared_bytes"], more["opts_in"]) == (48 * 1024 + 128, True)
    assert more["carveout"] == 100
    assert "needs no opt-in" in text(capsys, "gemm", *sizes, "-k", "384")
    assert "opts in to more than 48 KiB, prefers a carveout of 100%" in text(
        capsys, "gemm", *sizes, "-k", "385"
    )


def test_a_device_with_too_little_shared_memory(capsys: pytest.CaptureFixture[str]) -> None:
    sizes = ["--kernel", "panel", "-m", "16", "-n", "16", "-k", "1500", "--device", "A100"]
    shown = text(capsys, "gemm", *sizes)
    assert "a block needs 192000 bytes of shared memory, A100 40GB gives it at most 166912" in shown
    found = report(capsys, "gemm", *sizes)["residency"]
    assert found["occupancy"] is None
    assert found["waves"] is None


@pytest.mark.parametrize(
    ("archs", "device", "reason"),
    [
        ([], "H200", "the package was built without CUDA"),
        (["sm_90a"], "V100", "the package was built for sm_90a, and none of it runs on 7.0"),
        (["compute_80"], "H200", "the driver compiles compute_80 to code for 9.0"),
        (["sm_99"], "H200", "the package was built for sm_99, and none of it runs on 9.0"),
        (["sm_89"], "RTX 4090", "the build kept no report of this kernel for sm_89"),
    ],
)
def test_unknown_registers_are_said_to_be(
    archs: list[str],
    device: str,
    reason: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(_resources, "build_info", lambda: {"archs": archs})
    arguments = ["gemm", "--kernel", "tiled32", *SMALL["gemm"], "--device", device]
    shown = text(capsys, *arguments)
    assert f"not known: {reason}" in shown
    assert "(registers left out)" in shown
    found = report(capsys, *arguments)["residency"]
    assert found["resources"] is None
    assert "registers" not in found["occupancy"]["limits"]
    shared = found["static_shared_bytes"]
    assert shared == 2 * 32 * 32 * 4
    assert found["occupancy"]["blocks"] == analysis.occupancy(1024, 0, shared, device).blocks
    assert reason in text(capsys, *arguments[:1], "--ladder", *arguments[3:])


def test_names_of_kernels_in_both_compilers_agree() -> None:
    pairs = [
        (
            "smem::gemm::host_build::f<c10::Half, 32, 0>",
            "smem::gemm::device_build::f<__half, 32, 0>",
        ),
        ("smem::gemm::host_build::f<c10::BFloat16>", "smem::gemm::device_build::f<__nv_bfloat16>"),
        ("smem::reduce::host_build::f<long int>", "smem::reduce::device_build::f<long>"),
        ("smem::reduce::host_build::f<short int>", "smem::reduce::device_build::f<short>"),
        (
            "smem::transpose::host_build::f<long unsigned int, 1>",
            "smem::transpose::device_build::f<unsigned long, 1>",
        ),
        (
            "smem::transpose::host_build::f<short unsigned int>",
            "smem::transpose::device_build::f<unsigned short>",
        ),
        (
            "smem::transpose::host_build::f<Bits128, 0>",
            "smem::transpose::device_build::f<smem::transpose::device_build::Bits128, 0>",
        ),
        ("smem::reduce::host_build::plain", "smem::reduce::device_build::plain"),
    ]
    for host, device in pairs:
        assert plain_name(host) == plain_name(f"void {device}(smem::Problem)")
    names = {plain_name(host) for host, _ in pairs}
    assert len(names) == len(pairs)
    assert plain_name("smem::gemm::a::f<int>") != plain_name("smem::reduce::a::f<int>")


def test_every_kernel_is_in_the_builds_report() -> None:
    archs = [arch for arch in build_info()["archs"] if arch.startswith("sm_")]
    if not archs:
        pytest.skip("built without CUDA")
    capability = divmod(int(archs[-1].strip("smaf_")), 10)
    for row in json.loads(_C.kernel_symbols()):
        # Transposing never looks at the dtype, only at its size.
        by_size = {"1": "bool", "2": "float16", "4": "int32", "8": "complex64", "16": "complex128"}
        dtype = by_size.get(row["dtype"].partition("-byte")[0], row["dtype"])
        found = _resources.built_resources(
            row["op"], row["name"], getattr(torch, dtype), capability
        )
        assert found.arch == archs[-1]
        assert 16 <= found.registers <= 255


@every_kernel
def test_static_shared_memory_is_what_ptxas_counted(
    op: str, kernel: str, capsys: pytest.CaptureFixture[str]
) -> None:
    # As most problems run it: down columns, by whole vectors, several threads a column; along
    # rows, several warps a row.
    larger = {"columns": ["-m", "60", "--dim", "0"], "rows": ["-n", "5000"]}.get(kernel, [])
    found = report(capsys, op, "--kernel", kernel, *SMALL[op], *larger)
    if found["residency"]["resources"] is None:
        pytest.skip(found["residency"]["unknown"])
    (launch,) = found["trace"]["launches"]
    assert found["residency"]["static_shared_bytes"] == launch["static_shared_bytes"]


# -------------------------------------------------------------------------------------- ceilings


@pytest.mark.parametrize(
    ("kernel", "intensity", "gflops"), [("naive", 0.25, 389), ("tiled16", 4.0, 6220)]
)
def test_roofline_is_that_of_the_texts(
    kernel: str, intensity: float, gflops: float, capsys: pytest.CaptureFixture[str]
) -> None:
    """A100: 0.25 FLOP/B give 389 GFLOP/s, tiles of 16 have 4 FLOP/B and 6220. At K = 256 what is
    stored and added besides weighs 2%."""
    found = report(
        capsys,
        *("gemm", "--kernel", kernel, *("-m", "64", "-n", "64", "-k", "256"), "--device", "A100"),
    )
    by_threads = found["rooflines"]["threads"]
    assert by_threads["intensity"] == pytest.approx(intensity, rel=0.025)
    assert by_threads["gflops"] == pytest.approx(gflops, rel=0.025)
    assert by_threads["bound"] == "memory"


def test_least_times(capsys: pytest.CaptureFixture[str]) -> None:
    """tiled, transposed: 32 passes to read a row of 128 bytes that takes one to write."""
    found = report(capsys, "transpose", "--kernel", "tiled", "-m", "64", "-n", "64")
    h200 = analysis.device("H200")
    least = found["least_seconds"]
    assert least["arithmetic"] == 0
    assert least["DRAM"] == pytest.approx(2 * 64 * 64 * 4 / (h200.bandwidth_gbs * 1e9))
    passes, share = 128 + 128 * 32, 4 / h200.sms  # 4 blocks, each on an SM of its own
    of_all = passes * 128 / (h200.shared_gbs * 1e9)
    assert least["shared memory"] == pytest.approx(of_all / share)
    assert found["bottleneck"] == "shared memory"
    naive = report(capsys, "transpose", "--kernel", "naive", "-m", "64", "-n", "64")
    assert naive["bottleneck"] == "DRAM"
    assert naive["traffic"] == {
        "threads": 2 * 16384,
        "sectors": 32 * (512 + 4096),
        "each tensor once": 2 * 16384,
    }
    shown = text(capsys, "transpose", "--kernel", "naive", "-m", "64", "-n", "64")
    assert "Least times on H200, 4 of 132 SMs at work" in shown
    assert "Bottleneck: the launch, 1.6 us: the problem is too small." in shown
    large = text(capsys, "transpose", "--kernel", "naive", "-m", "1100", "-n", "1100")
    assert "Least times on H200, all SMs at work" in large
    assert "Bottleneck: DRAM, 2.0" in large
    assert "GFLOP" not in shown
    assert "22.2%" in shown  # of the bandwidth is left: 32 KiB of 144


def test_loads_that_merge_shorten_the_least_time(capsys: pytest.CaptureFixture[str]) -> None:
    plain, padded = (
        report(capsys, "gemm", "--kernel", name, *SMALL["gemm"])
        for name in ("tiled32", "tiled32_padded")
    )
    assert plain["trace"]["totals"]["wavefronts"] == padded["trace"]["totals"]["wavefronts"]
    assert plain["least_seconds"]["shared memory"] < padded["least_seconds"]["shared memory"]
