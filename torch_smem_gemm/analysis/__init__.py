"""Models of a GPU's limits: occupancy, roofline, bank conflicts, traffic.

Arithmetic alone, which needs no GPU.

>>> from torch_smem_gemm import analysis
>>> analysis.occupancy(threads=256, registers=32, shared_bytes=32 * 1024, device="A100").limit
('shared memory',)
>>> analysis.roofline(flop=2, bytes=8, device="A100").gflops
388.75
"""

from .banks import Banks, banks, tile_addresses
from .capabilities import CAPABILITIES, Capability, Capacity, capability, capacity_table
from .devices import DEVICES, Device, device
from .occupancy import Occupancy, occupancy
from .roofline import Roofline, roofline
from .traffic import gemm_intensity, gemm_reads

__all__ = [
    "CAPABILITIES",
    "DEVICES",
    "Banks",
    "Capability",
    "Capacity",
    "Device",
    "Occupancy",
    "Roofline",
    "banks",
    "capability",
    "capacity_table",
    "device",
    "gemm_intensity",
    "gemm_reads",
    "occupancy",
    "roofline",
    "tile_addresses",
]
