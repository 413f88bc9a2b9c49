"""The analysis of one kernel for ``explain``: its trace, and the resulting costs on a GPU."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

import torch

from torch_smem_gemm._kernels import kernels
from torch_smem_gemm.analysis import (
    Device,
    Occupancy,
    Roofline,
    banks,
    capability,
    occupancy,
    roofline,
)
from torch_smem_gemm.cli._resources import Resources, built_resources
from torch_smem_gemm.trace_report import BULK, WARP, Launch, Line, Trace, finite_or_none

WAVEFRONT = 128  # bytes that shared memory delivers in one pass


@dataclass(frozen=True)
class Residency:
    """The occupancy of a launch. All sizes are bytes per block.

    If the build does not know the ``resources``, they are None and ``unknown`` has the reason. If
    the kernel cannot run on the device, ``occupancy`` is None and ``refusal`` has the reason.
    ``waves`` is the grid divided by the blocks that all SMs hold at once.
    """

    resources: Resources | None
    unknown: str
    static_shared_bytes: int
    dynamic_shared_bytes: int
    opts_in: bool  # requests more than a block gets by default
    carveout: int | None  # the percentage that launch.h prefers; None: the driver's own choice
    occupancy: Occupancy | None
    refusal: str
    waves: float | None


@dataclass(frozen=True)
class Explained:
    """A kernel on a problem, run on the CPU and analysed for a device.

    ``rooflines`` are by what counts as traffic: what "threads" load and store, the "sectors" that
    warps touch, "each tensor once"; without FLOP, those without bytes are left out.
    ``least_seconds`` are by what would be busy: "arithmetic" (FMA units), "tensor cores", "DRAM"
    (each tensor once), "shared memory"; all but DRAM on as many SMs as a launch has blocks. What
    the launches themselves take is not among them. ``peak_tflops`` is that of the tensor cores, at
    the rate of the kernel's dtype, if the kernel uses them; None if the device has none for it.
    """

    trace: Trace
    device: Device
    residency: Residency
    rooflines: dict[str, Roofline]
    traffic: dict[str, int]  # bytes, under the names of ``rooflines``
    least_seconds: dict[str, float]
    peak_tflops: float | None

    @property
    def bottleneck(self) -> str:
        """The resource with the longest least time."""
        return max(self.least_seconds, key=lambda name: self.least_seconds[name])

    def to_dict(self) -> dict[str, Any]:
        """Return everything as JSON can hold it."""
        return {
            "trace": self.trace.to_dict(),
            "device": self.device.name,
            "residency": dataclasses.asdict(self.residency),
            "traffic": self.traffic,
            "rooflines": {
                name: finite_or_none(dataclasses.asdict(r)) for name, r in self.rooflines.items()
            },
            "least_seconds": self.least_seconds,
            "peak_tflops": self.peak_tflops,
            "bottleneck": self.bottleneck,
        }


def judge(trace: Trace, device: Device) -> Explained:
    """Analyse a trace for a device."""
    # All types but float64 have the peak of float32.
    dtype = "float64" if trace.dtype == "float64" else "float32"
    peak = _tensor_tflops(trace, device) if trace.tensor_flop else device.tflops(dtype)
    traffic = {
        "threads": trace.global_bytes_loaded + trace.global_bytes_stored,
        "sectors": trace.sector_bytes,
        "each tensor once": compulsory_bytes(trace),
    }
    least_seconds = {
        "arithmetic": sum(
            (launch.flop - launch.count("tensor_flop"))
            / sms_at_work(launch, device)
            / device.tflops(dtype)
            / 1e12
            for launch in trace.launches
        ),
        "DRAM": traffic["each tensor once"] / device.bandwidth_gbs / 1e9,
        "shared memory": sum(
            launch.count("merged_wavefronts", memory="shared")
            * WAVEFRONT
            / sms_at_work(launch, device)
            / device.shared_gbs
            / 1e9
            for launch in trace.launches
        ),
    }
    if trace.tensor_flop and peak:
        least_seconds["tensor cores"] = sum(
            launch.count("tensor_flop") / sms_at_work(launch, device) / peak / 1e12
            for launch in trace.launches
        )
    return Explained(
        trace=trace,
        device=device,
        residency=_residency(trace, device),
        rooflines={
            name: roofline(trace.flop, moved, device, tflops=peak)
            for name, moved in traffic.items()
            if peak and (trace.flop or moved)
        },
        traffic=traffic,
        least_seconds=least_seconds,
        peak_tflops=peak,
    )


def _tensor_tflops(trace: Trace, device: Device) -> float | None:
    """Return the peak of the device's tensor cores for the trace's mixture of dtypes.

    None if the device has none, or cannot run the instructions of one of the package's kernels.
    """
    names = {launch.kernel.split()[0] for launch in trace.launches} if not trace.sources else ()
    for row in kernels():
        if row.name not in names or row.capability is None:
            continue
        if device.capability < row.capability:
            return None
    actions = {line.action for launch in trace.launches for line in launch.lines}
    if not trace.sources and actions.intersection(BULK) and device.capability != (9, 0):
        return None
    of_16_bits = 1024 * trace.count("tensor_cycles")
    return device.tensor_tflops * trace.tensor_flop / of_16_bits or None


def sms_at_work(launch: Launch, device: Device) -> float:
    """Return the fraction of SMs that get a block."""
    return min(1.0, launch.blocks / device.sms)


def compulsory_bytes(trace: Trace) -> int:
    """Return the bytes of the inputs and the output, the traffic with an unlimited cache."""
    return sum(bytes_ for name, bytes_ in trace.tensor_bytes.items() if name != "partial")


def largest_launch(trace: Trace) -> Launch:
    """Return the launch with the most arithmetic, or blocks; others prepare it or follow it."""
    return max(trace.launches, key=lambda launch: (launch.flop, launch.blocks))


def _residency(trace: Trace, device: Device) -> Residency:
    launch, chip = largest_launch(trace), capability(device)
    resources, unknown = None, ""
    if trace.sources:
        unknown = "nvcc reports them (-Xptxas -v)"
    else:
        try:
            dtype = getattr(torch, trace.dtype, torch.float32)
            resources = built_resources(trace.op, trace.kernel, dtype, device.capability)
        except LookupError as error:
            unknown = str(error.args[0])
    static = resources.static_shared_bytes if resources else launch.static_shared_bytes
    dynamic = launch.dynamic_shared_bytes
    opts_in = dynamic > chip.shared_default  # as csrc/device/launch.h decides
    carveout = 100 if opts_in else None

    held, refusal = None, ""
    if static + dynamic > chip.shared_per_block:
        refusal = (
            f"a block needs {static + dynamic} bytes of shared memory, "
            f"{device.name} gives it at most {chip.shared_per_block}"
        )
    else:
        registers = resources.registers if resources else 0
        held = occupancy(launch.threads, registers, static + dynamic, chip, carveout=carveout)
    return Residency(
        resources=resources,
        unknown=unknown,
        static_shared_bytes=static,
        dynamic_shared_bytes=dynamic,
        opts_in=opts_in,
        carveout=carveout,
        occupancy=held,
        refusal=refusal,
        waves=launch.blocks / (held.blocks * device.sms) if held and held.blocks else None,
    )


def ways(line: Line) -> int | None:
    """Return the words per bank of the line's worst request; None if it is not a shared access.

    Nor has a cp.async such a number, whose passes depend on where it copies from, nor an access of
    TMA or wgmma, nor a misaligned access, which is a fault.
    """
    if line.memory != "shared" or line.action == "copy_to" or line.is_bulk:
        return None
    if any(at is not None and at % line.bytes_a_lane for at in line.example):
        return None
    return banks(line.example, line.bytes_a_lane, store=line.action == "store").ways


def worst_ways(trace: Trace) -> int | None:
    """The largest of its lines' :func:`ways`; None where it uses no shared memory."""
    found = [ways(line) for launch in trace.launches for line in launch.lines]
    return max((n for n in found if n is not None), default=None)


def passes(line: Line) -> list[int | None]:
    """In which pass through the banks each lane of the line's worst request is served, from 1 on.

    For a line that has :func:`ways`. Lanes are served as early as they can be, the lower first.
    """
    store, lanes = line.action == "store", line.example
    # Lanes of a load that agree in pairs are served together in larger groups, and banks() would
    # find agreement in a part of the lanes where there is none in all.
    if not store:
        alone = banks(lanes, line.bytes_a_lane, store=True).ideal
        store = banks(lanes, line.bytes_a_lane).ideal == alone
    nobody: list[int | None] = [None] * WARP
    served: list[list[int | None]] = []
    number = nobody.copy()
    for lane, at in enumerate(lanes):
        if at is None:
            continue
        for i, together in enumerate([*served, nobody]):
            joined = [*together[:lane], at, *together[lane + 1 :]]
            if banks(joined, line.bytes_a_lane, store=store).wavefronts == 1:
                served[i : i + 1] = [joined]
                number[lane] = i + 1
                break
    return number
