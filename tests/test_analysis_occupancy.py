"""Occupancy: the texts' figures, cases worked out by hand, and NVIDIA's own calculator."""

import dataclasses
import itertools
import os
import random
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torch_smem_gemm import analysis
from torch_smem_gemm.analysis import CAPABILITIES, Capability, occupancy

KIB = 1024


def test_two_tiles_of_32_on_a100() -> None:
    """8 KB a block: 164 / 8 = 20 blocks in the texts, 18 once each has its reserved 1 KiB."""
    shared = 2 * 32 * 32 * 4
    assert shared == 8 * KIB
    assert occupancy(1, 0, shared, _as_the_texts("A100")).limits["shared memory"] == 20
    assert occupancy(1, 0, shared, "A100").limits["shared memory"] == 18
    whole = occupancy(32 * 32, 32, shared, "A100")
    assert (whole.blocks, whole.percent, whole.limit) == (2, 100, ("warps", "registers"))


def test_32_kib_and_256_threads_on_a100() -> None:
    """128 B a thread. The texts: 5 blocks, 1280 threads, 62%; 164 / 33 gives 4, 1024, 50%."""
    shared = 32 * KIB
    assert shared / 256 == 128
    text = occupancy(256, 32, shared, _as_the_texts("A100"))
    assert (text.blocks, text.threads, text.percent) == (5, 1280, 62.5)
    found = occupancy(256, 32, shared, "A100")
    assert (found.blocks, found.threads, found.percent) == (4, 1024, 50)
    assert found.limit == ("shared memory",)


def _as_the_texts(device: str) -> Capability:
    """The texts do not know that the driver reserves shared memory for each block."""
    return dataclasses.replace(analysis.capability(device), shared_reserved=0)


CASES = [
    # device, threads, registers, shared bytes: blocks, percent, what limits
    # 9.0: 8 warps a block of 64, 64 warps of 1024 registers fill 65536
    ("H200", 256, 32, 0, 8, 100, ("warps", "registers")),
    # 40 registers a thread: 1280 a warp, 12 warps in each partition of 16384: 48 of 64
    ("H200", 256, 40, 0, 6, 75, ("registers",)),
    # 33 are rounded up to 40: 1056 a warp to 1280
    ("H200", 256, 33, 0, 6, 75, ("registers",)),
    # 6400 a warp: 2 in a partition, 8 an SM. One block of 5, though 65536 holds 10 warps
    ("H200", 160, 200, 0, 1, 100 * 5 / 64, ("registers",)),
    ("H200", 32, 16, 0, 32, 50, ("blocks",)),
    ("H200", 1024, 16, 227 * KIB, 1, 50, ("shared memory",)),
    ("H200", 1024, 16, 113 * KIB, 2, 100, ("warps", "shared memory")),
    ("H200", 1024, 16, 113 * KIB + 1, 1, 50, ("shared memory",)),
    # 33 threads take two warps
    ("H200", 33, 16, 0, 32, 100, ("blocks", "warps")),
    # 7.0 reserves nothing: 96 / 12
    ("V100", 128, 32, 12 * KIB, 8, 50, ("shared memory",)),
    ("V100", 128, 32, 12 * KIB + 1, 7, 43.75, ("shared memory",)),
    # 7.5: 32 warps, 16 blocks
    ("T4", 32, 16, 0, 16, 50, ("blocks",)),
    ("T4", 1024, 64, 64 * KIB, 1, 100, ("warps", "registers", "shared memory")),
    ("T4", 1024, 65, 0, 0, 0, ("registers",)),
    # 8.6 and 8.9: 48 warps, 16 and 24 blocks
    ("RTX 3090", 1024, 32, 0, 1, 100 * 32 / 48, ("warps",)),
    ("RTX 3090", 64, 32, 0, 16, 100 * 32 / 48, ("blocks",)),
    ("RTX 4090", 64, 32, 0, 24, 100, ("blocks", "warps")),
    ("RTX 4090", 256, 32, 49 * KIB, 2, 100 * 16 / 48, ("shared memory",)),
    ("8.7", 128, 32, 40 * KIB, 4, 100 * 16 / 48, ("shared memory",)),
    ("B200", 1024, 255, 0, 0, 0, ("registers",)),
    ("11.0", 32, 32, 0, 24, 50, ("blocks",)),
    ("RTX 5090", 512, 32, 33 * KIB, 2, 100 * 32 / 48, ("shared memory",)),
    ("12.1", 512, 42, 0, 2, 100 * 32 / 48, ("registers",)),
]


@pytest.mark.parametrize(
    ("device", "threads", "registers", "shared", "blocks", "percent", "limit"), CASES
)
def test_by_hand(
    device: str,
    threads: int,
    registers: int,
    shared: int,
    blocks: int,
    percent: float,
    limit: tuple[str, ...],
) -> None:
    found = occupancy(threads, registers, shared, device)
    assert (found.blocks, found.limit) == (blocks, limit)
    assert found.percent == pytest.approx(percent)
    assert found.threads == blocks * threads
    assert found.warps == blocks * -(-threads // 32)


def test_what_a_block_takes() -> None:
    found = occupancy(200, 33, 1000, "H200")
    assert found.registers_per_block == 7 * 1280  # 7 warps, 33 registers x 32 lanes up to 256s
    assert found.shared_per_block == 2048  # 1000 + 1024, up to 128s
    assert found.limits == {"blocks": 32, "warps": 9, "registers": 6, "shared memory": 114}
    assert occupancy(200, 33, 1000, "V100").shared_per_block == 1024  # up to 256s


def test_what_is_not_used_sets_no_limit() -> None:
    assert set(occupancy(32, 0, 0, "V100").limits) == {"blocks", "warps"}
    assert set(occupancy(32, 0, 0, "H200").limits) == {"blocks", "warps", "shared memory"}


@pytest.mark.parametrize(
    ("device", "shared", "carveout", "kib"),
    [
        ("V100", 0, 50, 64),  # the programming guide's example
        ("A100", 0, 50, 100),  # and this one: not 82
        ("A100", 8 * KIB, 0, 16),  # a block with its reserve needs 9
        ("A100", 8 * KIB, None, 164),
        ("V100", 0, 0, 0),
        ("T4", 0, 0, 32),
        ("P100", 0, 0, 64),
        ("H200", 0, 100, 228),
        ("H200", 100 * KIB, 10, 132),
    ],
)
def test_carveout(device: str, shared: int, carveout: int | None, kib: int) -> None:
    found = occupancy(32, 16, shared, device, carveout=carveout)
    assert found.shared_per_sm == kib * KIB
    if found.shared_per_block:
        assert found.limits["shared memory"] == kib * KIB // found.shared_per_block


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"threads": 0}, "threads is 0, expected 1 to 1024"),
        ({"threads": 1025}, "threads is 1025, expected 1 to 1024"),
        ({"registers": -1}, "registers is -1, expected 0 to 255"),
        ({"registers": 256}, "registers is 256, expected 0 to 255"),
        ({"shared_bytes": -1}, "shared_bytes is -1, expected 0 to 166912"),
        ({"shared_bytes": 166913}, "expected 0 to 166912 on compute capability 8.0"),
        ({"shared_bytes": 48 * KIB + 1, "device": "P100"}, "expected 0 to 49152"),
        ({"carveout": 101}, "carveout is 101, expected 0 to 100"),
        ({"device": "9.9"}, "got '9.9', expected one of 6.0,"),
    ],
)
def test_errors(arguments: dict, message: str) -> None:
    valid = {"threads": 32, "registers": 32, "shared_bytes": 0, "device": "A100"}
    with pytest.raises(ValueError, match=rf"^smem\.analysis\.\w+: .*{message}"):
        occupancy(**(valid | arguments))


chips = st.sampled_from(CAPABILITIES)
threads = st.integers(1, 1024)
registers = st.integers(0, 255)
shares = st.floats(0, 1)  # of the shared memory that a block may have
carveouts = st.none() | st.integers(0, 100)


@given(chips, threads, registers, st.tuples(shares, shares), carveouts)
def test_more_shared_memory_never_helps(
    chip: Capability,
    threads: int,
    registers: int,
    parts: tuple[float, float],
    carveout: int | None,
) -> None:
    # With a carveout, a block that needs more raises what the SM is set to: only then it may help.
    less, more = (int(part * chip.shared_per_block) for part in sorted(parts))
    few = occupancy(threads, registers, more, chip, carveout=carveout)
    many = occupancy(threads, registers, less, chip, carveout=carveout)
    assert few.blocks <= many.blocks or few.shared_per_sm > many.shared_per_sm


@given(chips, threads, st.tuples(registers, registers), shares)
def test_more_registers_never_help(
    chip: Capability, threads: int, counts: tuple[int, int], part: float
) -> None:
    shared = int(part * chip.shared_per_block)
    less, more = sorted(counts)
    few = occupancy(threads, more, shared, chip)
    assert few.blocks <= occupancy(threads, less, shared, chip).blocks


@given(chips, threads, registers, shares, carveouts)
def test_what_is_resident_fits(
    chip: Capability, threads: int, registers: int, part: float, carveout: int | None
) -> None:
    shared = int(part * chip.shared_per_block)
    found = occupancy(threads, registers, shared, chip, carveout=carveout)
    assert found.blocks <= chip.blocks_per_sm
    assert found.warps <= chip.warps_per_sm
    assert 0 <= found.percent <= 100
    assert found.blocks * found.registers_per_block <= chip.registers_per_sm
    assert shared <= found.shared_per_block <= found.shared_per_sm <= chip.shared_per_sm
    assert found.blocks * found.shared_per_block <= found.shared_per_sm
    assert found.blocks > 0 or found.limit == ("registers",)


CALCULATOR = r"""
#include <cuda_occupancy.h>
#include <cstdio>

int main() {
  cudaOccDeviceProp device;
  cudaOccFuncAttributes kernel;
  cudaOccDeviceState state;
  cudaOccResult found;
  int threads, dynamic;
  device.maxThreadsPerBlock = kernel.maxThreadsPerBlock = 1024;
  device.regsPerBlock = device.regsPerMultiprocessor = 65536;
  device.warpSize = 32;
  device.numSms = 1;
  device.sharedMemPerBlock = 49152;
  kernel.shmemLimitConfig = FUNC_SHMEM_LIMIT_OPTIN;
  while (scanf("%d %d %d %zu %zu %zu %d %d %d %d", &device.computeMajor, &device.computeMinor,
               &device.maxThreadsPerMultiprocessor, &device.sharedMemPerMultiprocessor,
               &device.sharedMemPerBlockOptin, &device.reservedSharedMemPerBlock, &threads,
               &kernel.numRegs, &dynamic, &state.carveoutConfig) == 10) {
    kernel.maxDynamicSharedSizeBytes = device.sharedMemPerBlockOptin;
    if (cudaOccMaxActiveBlocksPerMultiprocessor(&found, &device, &kernel, &state, threads, dynamic))
      return 1;
    printf("%d %d %d %d %d %d %zu\n", found.activeBlocksPerMultiprocessor, found.blockLimitBlocks,
           found.blockLimitWarps, found.blockLimitRegs, found.blockLimitSharedMem,
           found.allocatedRegistersPerBlock, found.allocatedSharedMemPerBlock);
  }
}
"""
TOOLKIT = Path(os.environ.get("CUDA_HOME", "/usr/local/cuda")) / "include"
NO_LIMIT = 2**31 - 1


def _knows_12_1() -> bool:
    """The calculator of a toolkit knows the capabilities that were out when it was."""
    header = TOOLKIT / "cuda_occupancy.h"
    return header.is_file() and "__CUDA_OCC_MINOR__ 1" in header.read_text()


@pytest.mark.skipif(not _knows_12_1(), reason="needs cuda_occupancy.h of CUDA 13")
@pytest.mark.skipif(shutil.which("c++") is None, reason="needs c++")
def test_equals_nvidias_calculator(tmp_path: Path) -> None:
    source, program = tmp_path / "calculator.cpp", tmp_path / "calculator"
    source.write_text(CALCULATOR)
    subprocess.run(["c++", "-I", TOOLKIT, source, "-o", program], check=True)

    pick = random.Random(20240229)
    cases = []
    for chip, _ in itertools.product(CAPABILITIES, range(500)):
        shared = pick.choice([0, chip.shared_per_block, pick.randint(0, chip.shared_per_block)])
        carveout = pick.choice([None, 0, 50, pick.randint(0, 100)])
        cases.append((chip, pick.randint(1, 1024), pick.randint(0, 255), shared, carveout))
    asked = "".join(
        f"{chip.version[0]} {chip.version[1]} {chip.threads_per_sm} {chip.shared_per_sm} "
        f"{chip.shared_per_block} {chip.shared_reserved} "
        f"{threads} {registers} {shared} {-1 if carveout is None else carveout}\n"
        for chip, threads, registers, shared, carveout in cases
    )
    run = subprocess.run([program], input=asked, capture_output=True, text=True, check=True)

    for (chip, threads, registers, shared, carveout), line in zip(
        cases, run.stdout.splitlines(), strict=True
    ):
        found = occupancy(threads, registers, shared, chip, carveout=carveout)
        limits = [
            found.limits.get(name, NO_LIMIT)
            for name in ("blocks", "warps", "registers", "shared memory")
        ]
        ours = [found.blocks, *limits, found.registers_per_block, found.shared_per_block]
        assert ours == [int(number) for number in line.split()], (
            f"{chip.name}: {threads} threads, {registers} registers, {shared} B, {carveout}"
        )
