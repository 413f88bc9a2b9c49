"""The tables of devices and compute capabilities, and how they are looked up."""

from typing import Any

import pytest

from torch_smem_gemm import analysis

# CUDA C++ programming guide, "Architecture" of each capability: the lanes of an SM that do one
# float32 or float64 multiply-add a clock.
LANES = {
    (6, 0): (64, 32),
    (7, 0): (64, 32),
    (7, 5): (64, 2),
    (8, 0): (64, 32),
    (8, 6): (128, 2),
    (8, 9): (128, 2),
    (9, 0): (128, 64),
    (10, 0): (128, 64),
    (12, 0): (128, 2),
}


@pytest.mark.parametrize("device", analysis.DEVICES, ids=lambda device: device.name)
def test_speeds_are_those_of_the_lanes_at_the_clock(device: analysis.Device) -> None:
    float32, float64 = (
        device.sms * lanes * 2 * device.clock_ghz for lanes in LANES[device.capability]
    )
    assert device.tflops("float32") * 1000 == pytest.approx(float32, rel=0.015)
    assert device.tflops("float64") * 1000 == pytest.approx(float64, rel=0.015)
    assert device.tflops("float16") == device.tflops("bfloat16") == device.tflops("float32")


# NVIDIA's data sheets and architecture papers: dense TFLOP/s of float16 added in float32. Those of
# H100, H200 and B200 are at clocks below the boost clock.
TENSOR = {
    "P100 SXM2": 0,
    "V100 SXM2": 125,
    "T4": 65,
    "A100 40GB": 312,
    "A100 80GB": 312,
    "A10": 125,
    "RTX 3090": 71,
    "L4": 121,
    "L40S": 362,
    "RTX 4090": 165.2,
    "H100 SXM": 989.4,
    "H100 PCIe": 756,
    "H200": 989.4,
    "B200": 2250,
    "RTX 5090": 209.5,
}


@pytest.mark.parametrize("device", analysis.DEVICES, ids=lambda device: device.name)
def test_tensor_cores_are_as_fast_as_the_sheets_say(device: analysis.Device) -> None:
    least = 0.92 if device.capability in ((9, 0), (10, 0)) else 0.985
    peak = device.tensor_tflops
    assert least * peak <= TENSOR[device.name] <= 1.005 * peak


def test_shared_memory_bandwidth_is_of_all_sms_together() -> None:
    """The ~19 TB/s that a text gives for one SM of A100."""
    a100 = analysis.device("A100")
    assert a100.shared_gbs == pytest.approx(19_492, abs=1)
    assert a100.shared_gbs / a100.sms == pytest.approx(180, abs=1)


NAMES = [
    ("H200", "H200"),
    ("NVIDIA H200", "H200"),
    (" nvidia h200 ", "H200"),
    ("A100", "A100 40GB"),
    ("NVIDIA A100-SXM4-40GB", "A100 40GB"),
    ("NVIDIA A100-SXM4-80GB", "A100 80GB"),
    ("Tesla V100-SXM2-32GB", "V100 SXM2"),
    ("Tesla P100-SXM2-16GB", "P100 SXM2"),
    ("Tesla T4", "T4"),
    ("NVIDIA H100 80GB HBM3", "H100 SXM"),
    ("NVIDIA H100 PCIe", "H100 PCIe"),
    ("NVIDIA GeForce RTX 4090", "RTX 4090"),
    ("rtx 5090", "RTX 5090"),
    ("4090", "RTX 4090"),
    ("RTX4090", "RTX 4090"),
    ("h100-pcie", "H100 PCIe"),
    ("PCIe", "H100 PCIe"),
]


@pytest.mark.parametrize(("name", "found"), NAMES)
def test_device_by_name(name: str, found: str) -> None:
    assert analysis.device(name).name == found


def test_every_device_is_found_by_each_name_and_has_limits() -> None:
    for row in analysis.DEVICES:
        for name in (row.name, *row.also):
            assert analysis.device(name) is row
        limits = analysis.capability(row)
        assert limits.version == row.capability
        assert any(row.name.startswith(chip) for chip in limits.chips)


@pytest.mark.parametrize("name", ["", "NVIDIA", "H20", "RTX", "80GB", "A100 PCIe 80GB", "GTX 1080"])
def test_unknown_device(name: str) -> None:
    with pytest.raises(ValueError, match=r"name is .*, expected one of P100 SXM2, .* RTX 5090$"):
        analysis.device(name)


@pytest.mark.parametrize(
    "of",
    ["9.0", (9, 0), 90, "H200", "nvidia h100", analysis.device("H200"), analysis.capability(90)],
)
def test_capability_by(of: Any) -> None:
    assert analysis.capability(of) is analysis.capability("9.0")


@pytest.mark.parametrize(("of", "name"), [(120, "12.0"), ("12.1", "12.1"), (103, "10.3")])
def test_capability_of_two_digits(of: Any, name: str) -> None:
    assert analysis.capability(of).name == name


@pytest.mark.parametrize("of", ["8.1", "GTX 1080", (9, 1), (9,), 9, 9.0, None, True])
def test_unknown_capability(of: Any) -> None:
    with pytest.raises(ValueError, match=r"got .*expected one of 6\.0, .*, or a device: P100"):
        analysis.capability(of)


# Programming guide, "Technical Specifications per Compute Capability": KiB of shared memory an SM
# and a block, warps and blocks an SM.
GUIDE = {
    "6.0": (64, 48, 64, 32),
    "7.0": (96, 96, 64, 32),
    "7.2": (96, 96, 64, 32),
    "7.5": (64, 64, 32, 16),
    "8.0": (164, 163, 64, 32),
    "8.6": (100, 99, 48, 16),
    "8.7": (164, 163, 48, 16),
    "8.9": (100, 99, 48, 24),
    "9.0": (228, 227, 64, 32),
    "10.0": (228, 227, 64, 32),
    "10.3": (228, 227, 64, 32),
    "11.0": (228, 227, 48, 24),
    "12.0": (100, 99, 48, 24),
    "12.1": (100, 99, 48, 24),
}


def test_limits_are_the_programming_guides() -> None:
    found = {
        row.name: (
            row.shared_per_sm // 1024,
            row.shared_per_block // 1024,
            row.warps_per_sm,
            row.blocks_per_sm,
        )
        for row in analysis.CAPABILITIES
    }
    assert found == GUIDE


@pytest.mark.parametrize("limits", analysis.CAPABILITIES, ids=lambda limits: limits.name)
def test_limits_fit_each_other(limits: analysis.Capability) -> None:
    assert limits.threads_per_sm == 32 * limits.warps_per_sm >= limits.threads_per_block == 1024
    assert limits.shared_configurations[-1] == limits.shared_per_sm
    assert list(limits.shared_configurations) == sorted(set(limits.shared_configurations))
    assert limits.shared_per_block + limits.shared_reserved <= limits.shared_per_sm
    assert limits.shared_default == 48 * 1024 <= limits.shared_per_block
    assert limits.shared_per_block % limits.shared_unit == 0
    assert limits.registers_per_sm == 65536


def test_capacity_table() -> None:
    """Shared memory an SM and a block, as the texts list it: P100, V100, A100, and on."""
    table = analysis.capacity_table()
    capacity = {chip: (row.sm_kib, row.block_kib) for row in table for chip in row.chips}
    assert capacity["P100"] == (64, 48)
    assert capacity["V100"] == (96, 96)
    assert capacity["T4"] == (64, 64)
    assert capacity["A100"] == (164, 163)
    assert capacity["RTX 3090"] == capacity["RTX 4090"] == capacity["RTX 5090"] == (100, 99)
    assert capacity["H100"] == capacity["H200"] == capacity["B200"] == (228, 227)
    assert [row.capability for row in table] == list(GUIDE)
