"""Occupancy: how many blocks of a kernel are resident on an SM at once, and which limit applies.

The rules are those of NVIDIA's occupancy calculator, as ``cuda_occupancy.h`` of CUDA 13.0 states
them, so that the result equals cudaOccupancyMaxActiveBlocksPerMultiprocessor's: warps, registers
and shared memory are each allocated in units, and the scarcest one is the limit.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from .capabilities import WARP, Capability, CapabilityLike, capability


@dataclass(frozen=True)
class Occupancy:
    """What :func:`occupancy` found for one SM.

    ``blocks``, ``warps`` and ``threads`` are resident at once; ``percent`` is the share of the
    highest number of warps. ``limits`` says how many blocks "blocks" (their highest number),
    "warps", "registers" and "shared memory" would each allow; a resource that the kernel does not
    use is absent. ``limit`` names the smallest of them, or all that are equally small. With 0
    blocks the kernel cannot run, because it needs too much of the resource in ``limit``.

    ``registers_per_block`` and ``shared_per_block`` (bytes) are the amounts allocated per block,
    with reserve and rounding; ``shared_per_sm`` (bytes) is the configured shared memory of the SM.
    """

    blocks: int
    warps: int
    threads: int
    percent: float
    limits: Mapping[str, int] = field(hash=False)
    limit: tuple[str, ...]
    registers_per_block: int
    shared_per_block: int
    shared_per_sm: int


def occupancy(
    threads: int,
    registers: int,
    shared_bytes: int,
    device: CapabilityLike,
    *,
    carveout: int | None = None,
) -> Occupancy:
    """Return how many blocks of a kernel are resident on an SM of ``device``.

    Args:
        threads: threads per block, 1 to 1024.
        registers: 32-bit registers per thread, as ptxas reports them; 0 sets no limit.
        shared_bytes: shared memory per block, static and dynamic together. Above 48 KiB the
            kernel is assumed to have opted in.
        device: any value that :func:`capability` accepts: "H200", "9.0", (9, 0), ...
        carveout: cudaFuncAttributePreferredSharedMemoryCarveout, the percentage of the largest
            shared memory to configure; it is raised if one block needs more. None, the driver's
            default, configures as much as raises the occupancy.

    Raises ValueError if an argument is out of its range on ``device``.
    """
    chip = capability(device)
    _check("threads", threads, 1, chip.threads_per_block, chip)
    _check("registers", registers, 0, chip.registers_per_thread, chip)
    _check("shared_bytes", shared_bytes, 0, chip.shared_per_block, chip)
    if carveout is not None:
        _check("carveout", carveout, 0, 100, chip)

    warps = -(-threads // WARP)
    registers_per_warp = _round_up(registers * WARP, chip.register_unit)
    shared = _round_up(shared_bytes + chip.shared_reserved, chip.shared_unit)
    shared_per_sm = _configured(chip, shared, carveout)

    limits = {"blocks": chip.blocks_per_sm, "warps": chip.warps_per_sm // warps}
    if registers_per_warp:
        limits["registers"] = _limit_by_registers(chip, warps, registers_per_warp)
    if shared:
        limits["shared memory"] = shared_per_sm // shared
    blocks = min(limits.values())

    return Occupancy(
        blocks=blocks,
        warps=blocks * warps,
        threads=blocks * threads,
        percent=100 * blocks * warps / chip.warps_per_sm,
        limits=limits,
        limit=tuple(name for name, most in limits.items() if most == blocks),
        registers_per_block=registers_per_warp * warps,
        shared_per_block=shared,
        shared_per_sm=shared_per_sm,
    )


def _check(name: str, value: int, least: int, most: int, chip: Capability) -> None:
    if not least <= value <= most:
        raise ValueError(
            f"smem.analysis.occupancy: {name} is {value}, "
            f"expected {least} to {most} on compute capability {chip.name}"
        )


def _round_up(value: int, unit: int) -> int:
    return -(-value // unit) * unit


def _limit_by_registers(chip: Capability, warps: int, registers_per_warp: int) -> int:
    """Return how many blocks the registers allow."""

    def warps_held(partitions: int) -> int:
        # A warp's registers are in one partition, so the remainder of each partition is unused.
        return chip.registers_per_sm // partitions // registers_per_warp * partitions

    # P100 has two partitions, but the limit of the other Pascal chips' four applies to it too.
    return warps_held(chip.partitions) // warps if warps <= warps_held(4) else 0


def _configured(chip: Capability, block: int, carveout: int | None) -> int:
    """Return the smallest size in bytes that meets the carveout and suffices for one block."""
    wanted = chip.shared_per_sm if carveout is None else chip.shared_per_sm * carveout // 100
    return min(size for size in chip.shared_configurations if size >= max(wanted, block))
