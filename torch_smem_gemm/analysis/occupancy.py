"""How many blocks of a kernel an SM holds at once, and what stops it from holding more.

The rules are those of NVIDIA's occupancy calculator, as ``cuda_occupancy.h`` of CUDA 13.0 states
them, so that the result equals cudaOccupancyMaxActiveBlocksPerMultiprocessor's: warps, registers
and shared memory are each handed out in units, and the scarcest decides.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from .capabilities import WARP, Capability, CapabilityLike, capability


@dataclass(frozen=True)
class Occupancy:
    """What :func:`occupancy` found for one SM.

    ``blocks``, ``warps`` and ``threads`` fit at once; ``percent`` is the warps' share of the most
    that the SM holds. ``limits`` says how many blocks "blocks" (their largest number), "warps",
    "registers" and "shared memory" would each allow; what the kernel does not use is absent.
    ``limit`` names the smallest of them, all where several are equal. With 0 blocks the kernel
    cannot run, for want of what ``limit`` names.

    ``registers_per_block`` and ``shared_per_block`` (bytes) are what a block takes, reserve and
    rounding included; ``shared_per_sm`` (bytes) is how much shared memory the SM is set to.
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
    """Return how many blocks of a kernel an SM of ``device`` holds.

    Args:
        threads: threads a block, 1 to 1024.
        registers: 32-bit registers a thread, as ptxas reports them; 0 sets no limit.
        shared_bytes: shared memory a block asks for, static and dynamic together. Above 48 KiB the
            kernel is taken to have opted in.
        device: whatever :func:`capability` takes: "H200", "9.0", (9, 0), ...
        carveout: cudaFuncAttributePreferredSharedMemoryCarveout, the percentage of the largest
            shared memory that the SM is set to; raised where one block needs more. None, the
            driver's default, stands for as much as helps.

    Raises ValueError where an argument is out of its range on ``device``.
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
    """How many blocks the registers allow, 0 if none."""

    def warps_held(partitions: int) -> int:
        # A warp's registers lie in one partition: what is left over in each is lost.
        return chip.registers_per_sm // partitions // registers_per_warp * partitions

    # What does not fit the other Pascal chips' four partitions is kept off P100's two as well.
    return warps_held(chip.partitions) // warps if warps <= warps_held(4) else 0


def _configured(chip: Capability, block: int, carveout: int | None) -> int:
    """The smallest size that meets the carveout and holds one block, in bytes."""
    wanted = chip.shared_per_sm if carveout is None else chip.shared_per_sm * carveout // 100
    return min(size for size in chip.shared_configurations if size >= max(wanted, block))
