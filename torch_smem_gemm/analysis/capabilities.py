"""The resources of an SM of each compute capability.

Sources: the CUDA C++ programming guide (table "Technical Specifications per Compute Capability",
and the sections on each capability for the sizes that shared memory can be configured to), CCCL's
``cuda/__device/arch_traits.h`` (10.3, 11.0, 12.1, the reserve), and for allocation units,
sub-partitions and the sizes of 8.7 to 12.1 ``cuda_occupancy.h`` of CUDA 13.0.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from .devices import DEVICES, Device, device

KIB = 1024
WARP = 32  # threads


@dataclass(frozen=True)
class Capability:
    """The limits of a compute capability. Memory is in bytes, registers are of 32 bits.

    ``version`` is (major, minor) and ``chips`` names GPUs that have it.

    Shared memory: an SM has ``shared_per_sm``, split off from its L1 cache in one of the sizes
    ``shared_configurations`` (the carveout). A block may have ``shared_default``, or
    ``shared_per_block`` after opting in; ``shared_reserved`` is added to the size it requests, and
    the sum is rounded up to a multiple of ``shared_unit``.

    Registers: an SM has ``registers_per_sm`` in ``partitions`` equal parts, each with a scheduler
    of its own. A thread may have ``registers_per_thread``; a warp gets a multiple of
    ``register_unit``, all in one partition.
    """

    version: tuple[int, int]
    chips: tuple[str, ...]
    shared_per_sm: int
    shared_per_block: int
    shared_configurations: tuple[int, ...] = field(repr=False)
    warps_per_sm: int
    blocks_per_sm: int
    shared_reserved: int = KIB
    shared_unit: int = 128
    shared_default: int = 48 * KIB
    registers_per_sm: int = 64 * KIB
    registers_per_thread: int = 255
    register_unit: int = 256
    partitions: int = 4
    threads_per_block: int = 1024

    @property
    def name(self) -> str:
        """The version as text: "9.0"."""
        return "{}.{}".format(*self.version)

    @property
    def threads_per_sm(self) -> int:
        """The highest number of threads on an SM."""
        return self.warps_per_sm * WARP


def _before_ampere(
    version: tuple[int, int],
    chip: str,
    sm_kib: int,
    block_kib: int,
    configurations_kib: tuple[int, ...],
    *,
    warps: int = 64,
    blocks: int = 32,
    partitions: int = 4,
) -> Capability:
    """Return the limits of a GPU without reserved shared memory, in units of 256 bytes."""
    return Capability(
        version=version,
        chips=(chip,),
        shared_per_sm=sm_kib * KIB,
        shared_per_block=block_kib * KIB,
        shared_configurations=tuple(size * KIB for size in configurations_kib),
        warps_per_sm=warps,
        blocks_per_sm=blocks,
        shared_reserved=0,
        shared_unit=256,
        partitions=partitions,
    )


def _since_ampere(
    version: tuple[int, int], chips: tuple[str, ...], sm_kib: int, warps: int, blocks: int
) -> Capability:
    """Return the limits of a GPU that reserves 1 KiB of shared memory per block."""
    sizes = (size for size in (0, 8, 16, 32, 64, 100, 132, 164, 196, 228) if size <= sm_kib)
    return Capability(
        version=version,
        chips=chips,
        shared_per_sm=sm_kib * KIB,
        shared_per_block=(sm_kib - 1) * KIB,
        shared_configurations=tuple(size * KIB for size in sizes),
        warps_per_sm=warps,
        blocks_per_sm=blocks,
    )


_VOLTA_KIB = (0, 8, 16, 32, 64, 96)

CAPABILITIES = (
    _before_ampere((6, 0), "P100", 64, 48, (64,), partitions=2),  # the L1 cache is separate
    _before_ampere((7, 0), "V100", 96, 96, _VOLTA_KIB),
    _before_ampere((7, 2), "Jetson Xavier", 96, 96, _VOLTA_KIB),
    _before_ampere((7, 5), "T4", 64, 64, (32, 64), warps=32, blocks=16),
    _since_ampere((8, 0), ("A100",), 164, warps=64, blocks=32),
    _since_ampere((8, 6), ("A10", "RTX 3090"), 100, warps=48, blocks=16),
    _since_ampere((8, 7), ("Jetson Orin",), 164, warps=48, blocks=16),
    _since_ampere((8, 9), ("L4", "L40S", "RTX 4090"), 100, warps=48, blocks=24),
    _since_ampere((9, 0), ("H100", "H200"), 228, warps=64, blocks=32),
    _since_ampere((10, 0), ("B200",), 228, warps=64, blocks=32),
    _since_ampere((10, 3), ("B300",), 228, warps=64, blocks=32),
    _since_ampere((11, 0), ("Jetson Thor",), 228, warps=48, blocks=24),
    _since_ampere((12, 0), ("RTX 5090",), 100, warps=48, blocks=24),
    _since_ampere((12, 1), ("GB10",), 100, warps=48, blocks=24),
)
_BY_VERSION: dict[tuple[int, ...], Capability] = {row.version: row for row in CAPABILITIES}

CapabilityLike = Capability | Device | str | int | tuple[int, int]


def capability(of: CapabilityLike) -> Capability:
    """Return the limits of a compute capability, or of a device's.

    Args:
        of: "9.0", (9, 0), 90, a Device, a device's name, or limits, which are returned as they are.

    Raises ValueError, which lists the known capabilities and devices, for anything else.
    """
    if isinstance(of, Capability):
        return of
    row = _BY_VERSION.get(_version(of))
    if row is None:
        raise ValueError(
            f"smem.analysis.capability: got {of!r}, expected one of "
            f"{', '.join(row.name for row in CAPABILITIES)}, "
            f"or a device: {', '.join(row.name for row in DEVICES)}"
        )
    return row


def _version(of: Device | str | int | tuple[int, int]) -> tuple[int, ...]:
    """Return (major, minor) as ``of`` names it, () if it cannot be parsed."""
    if isinstance(of, Device):
        return of.capability
    if isinstance(of, tuple):
        return of
    if isinstance(of, int):
        return divmod(of, 10)
    if not isinstance(of, str):
        return ()
    written = re.fullmatch(r"\s*(\d+)\.(\d)\s*", of)
    if written:
        return int(written[1]), int(written[2])
    try:
        return device(of).capability
    except ValueError:
        return ()


@dataclass(frozen=True)
class Capacity:
    """A row of :func:`capacity_table`: shared memory in KiB, per SM and at most per block."""

    chips: tuple[str, ...]
    capability: str
    sm_kib: int
    block_kib: int


def capacity_table() -> list[Capacity]:
    """Return the shared memory of each compute capability, oldest first."""
    return [
        Capacity(row.chips, row.name, row.shared_per_sm // KIB, row.shared_per_block // KIB)
        for row in CAPABILITIES
    ]
