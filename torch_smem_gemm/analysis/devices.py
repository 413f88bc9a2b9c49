"""GPUs and their nominal speeds, the ceilings of a roofline.

Speeds are those of NVIDIA's data sheets and architecture white papers, at the boost clock and
without tensor cores. Where a sheet has no float64 figure (T4, A10, L4, L40S, GeForce), it is SMs
x float64 lanes x 2 x clock, with the lanes that the CUDA programming guide gives (2 per SM). The
test of this module compares every row with that product. B200: HGX B200's table over 8, and
7.7 TB/s as its bus of 7680 bits gives (the announcement said 8). Tensor cores: the sheets' dense
TFLOP/s over SMs and clock, as powers of two; H100's, H200's and B200's sheets assume lower clocks.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

SHARED_BYTES_PER_CLOCK = 128  # 32 banks of 4 bytes
_MAKER_WORDS = ("nvidia", "tesla", "geforce")


@dataclass(frozen=True)
class Device:
    """A GPU by its data sheet.

    ``capability`` is its compute capability, ``sms`` its number of SMs, ``clock_ghz``
    the boost clock. ``bandwidth_gbs`` is DRAM's in 1e9 B/s; ``fp32_tflops`` and ``fp64_tflops``
    count 1e12 FLOP/s, a fused multiply-add as two. ``tensor_flop_per_clock`` is what the tensor
    cores of an SM do in a cycle with 16-bit numbers (not sparse, added in float32); in tf32 it is
    half. ``also`` holds further names.
    """

    name: str
    capability: tuple[int, int]
    sms: int
    clock_ghz: float
    bandwidth_gbs: float
    fp32_tflops: float
    fp64_tflops: float
    tensor_flop_per_clock: int = 0
    also: tuple[str, ...] = field(default=(), repr=False)

    @property
    def shared_gbs(self) -> float:
        """Bandwidth of the shared memory of all SMs in 1e9 B/s, with every bank in use."""
        return self.sms * SHARED_BYTES_PER_CLOCK * self.clock_ghz

    @property
    def tensor_tflops(self) -> float:
        """The peak of the tensor cores of all SMs with 16-bit numbers, in 1e12 FLOP/s."""
        return self.sms * self.tensor_flop_per_clock * self.clock_ghz / 1000

    def tflops(self, dtype: str) -> float:
        """Return the peak in 1e12 FLOP/s for "float64", "float32", "float16" or "bfloat16".

        The two-byte types have the peak of float32: these kernels convert them and sum in float32.
        Raises ValueError for another dtype.
        """
        if dtype == "float64":
            return self.fp64_tflops
        if dtype in ("float32", "float16", "bfloat16"):
            return self.fp32_tflops
        raise ValueError(
            f"smem.analysis.roofline: dtype is {dtype!r}, "
            "expected one of float64, float32, float16, bfloat16"
        )


DEVICES = (
    Device("P100 SXM2", (6, 0), 56, 1.48, 732, 10.6, 5.3, 0, ("P100", "P100 SXM2 16GB")),
    Device("V100 SXM2", (7, 0), 80, 1.53, 900, 15.7, 7.8, 1024, ("V100", "V100 SXM2 32GB")),
    Device("T4", (7, 5), 40, 1.59, 320, 8.1, 0.254, 1024),
    Device("A100 40GB", (8, 0), 108, 1.41, 1555, 19.5, 9.7, 2048, ("A100", "A100 SXM4 40GB")),
    Device("A100 80GB", (8, 0), 108, 1.41, 2039, 19.5, 9.7, 2048, ("A100 SXM4 80GB",)),
    Device("A10", (8, 6), 72, 1.695, 600, 31.2, 0.488, 1024),
    Device("RTX 3090", (8, 6), 82, 1.695, 936, 35.6, 0.556, 512),
    Device("L4", (8, 9), 58, 2.04, 300, 30.3, 0.473, 1024),
    Device("L40S", (8, 9), 142, 2.52, 864, 91.6, 1.43, 1024),
    Device("RTX 4090", (8, 9), 128, 2.52, 1008, 82.6, 1.29, 512),
    Device("H100 SXM", (9, 0), 132, 1.98, 3350, 66.9, 33.5, 4096, ("H100", "H100 80GB HBM3")),
    Device("H100 PCIe", (9, 0), 114, 1.755, 2000, 51.2, 25.6, 4096),
    Device("H200", (9, 0), 132, 1.98, 4800, 66.9, 33.5, 4096),
    Device("B200", (10, 0), 148, 1.965, 7700, 75, 37, 8192),
    Device("RTX 5090", (12, 0), 170, 2.407, 1792, 104.8, 1.64, 512),
)


def _key(name: str) -> str:
    """Return ``name`` without case, hyphens and vendor words, as in "NVIDIA A100-SXM4-40GB"."""
    words = re.split(r"[\s-]+", name.lower())
    return " ".join(word for word in words if word and word not in _MAKER_WORDS)


_BY_KEY = {_key(name): row for row in DEVICES for name in (row.name, *row.also)}


def device(name: str) -> Device:
    """Return the device called ``name``: "H200", "NVIDIA H200", "a100" (the one with 40 GB).

    It accepts the names that torch.cuda.get_device_name returns, and words that occur in one
    device's name only, such as "4090". Raises ValueError, which lists the names, for any other.
    """
    key = _key(name)
    row = _BY_KEY.get(key)
    if row is not None:
        return row
    words = set(key.split())
    found = {
        id(row): row
        for known, row in _BY_KEY.items()
        if (words and words <= set(known.split())) or key == known.replace(" ", "")
    }
    if len(found) != 1:
        names = ", ".join(row.name for row in DEVICES)
        raise ValueError(f"smem.analysis.device: name is {name!r}, expected one of {names}")
    return next(iter(found.values()))
