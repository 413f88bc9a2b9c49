"""The roofline: the highest speed of a kernel, given its arithmetic and its DRAM traffic.

A kernel of intensity I (FLOP per byte of DRAM traffic) cannot exceed min(peak, I x bandwidth).
The two meet at the ridge: memory bounds the kernels left of it, arithmetic those right of it. (S.
Williams, A. Waterman, D. Patterson, "Roofline", CACM 52(4), 2009.)
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from .devices import Device
from .devices import device as find_device


@dataclass(frozen=True)
class Roofline:
    """What :func:`roofline` found.

    ``intensity`` and ``ridge`` are in FLOP/B, ``gflops`` (attainable) and ``peak_gflops`` in
    1e9 FLOP/s, ``bandwidth_gbs`` in 1e9 B/s. ``fraction`` is gflops / peak_gflops and ``seconds``
    the least time.
    """

    intensity: float
    ridge: float
    bound: Literal["memory", "compute"]
    gflops: float
    fraction: float
    seconds: float
    peak_gflops: float
    bandwidth_gbs: float


def roofline(
    flop: float,
    bytes: float,
    device: Device | str | None = None,
    *,
    dtype: str = "float32",
    bandwidth_gbs: float | None = None,
    tflops: float | None = None,
) -> Roofline:
    """Return the ceiling for a kernel of ``flop`` operations and ``bytes`` of DRAM traffic.

    Args:
        flop: floating-point operations, a fused multiply-add counting as two.
        bytes: DRAM traffic. All but ``seconds`` depend on the ratio only; one of the two may be 0.
        device: a Device or its name; its data sheet gives the two ceilings.
        dtype: which peak of the device: "float64", "float32", "float16" or "bfloat16".
        bandwidth_gbs: DRAM bandwidth in 1e9 B/s, e.g. a measured one, instead of the sheet's.
        tflops: peak in 1e12 FLOP/s, instead of the sheet's for ``dtype``.

    Raises ValueError for an unknown device or dtype, a number out of range, or a ceiling that
    neither ``device`` nor its own argument gives.
    """
    for name, work in (("flop", flop), ("bytes", bytes)):
        if not 0 <= work < math.inf:
            raise ValueError(f"smem.analysis.roofline: {name} is {work}, expected 0 or more")
    if not flop and not bytes:
        raise ValueError("smem.analysis.roofline: flop and bytes are both 0")

    sheet = find_device(device) if isinstance(device, str) else device
    if bandwidth_gbs is None and sheet is not None:
        bandwidth_gbs = sheet.bandwidth_gbs
    if tflops is None and sheet is not None:
        tflops = sheet.tflops(dtype)
    bandwidth = _ceiling("bandwidth_gbs", bandwidth_gbs)
    peak = _ceiling("tflops", tflops) * 1000

    intensity = flop / bytes if bytes else math.inf
    ridge = peak / bandwidth
    gflops = min(peak, intensity * bandwidth)
    return Roofline(
        intensity=intensity,
        ridge=ridge,
        bound="memory" if intensity < ridge else "compute",
        gflops=gflops,
        fraction=gflops / peak,
        seconds=max(flop / peak, bytes / bandwidth) / 1e9,
        peak_gflops=peak,
        bandwidth_gbs=bandwidth,
    )


def _ceiling(name: str, value: float | None) -> float:
    if value is None:
        raise ValueError(f"smem.analysis.roofline: expected a device, or {name}")
    if not 0 < value < math.inf:
        raise ValueError(f"smem.analysis.roofline: {name} is {value}, expected more than 0")
    return value
