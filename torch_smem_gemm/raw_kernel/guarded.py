"""Copies of a kernel's tensors between gaps, so that what is beyond one is not another."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass

import numpy

from torch_smem_gemm.raw_kernel.arguments import Buffer

# A gap is as large as the tensor, within these bounds: an index that is wrong by a row, a tile or a
# factor of two still meets it.
LEAST_GAP, LARGEST_GAP = 2**16, 2**24
# How a GPU's allocations are aligned.
ALIGNMENT = 256


@dataclass
class _Copy:
    begin: int  # of the original
    end: int
    is_writable: bool
    memory: numpy.ndarray  # with the gaps
    shift: int  # from the original to the copy

    def load(self) -> None:
        ctypes.memmove(self.begin + self.shift, self.begin, self.end - self.begin)

    def store(self) -> None:
        if self.is_writable:
            ctypes.memmove(self.begin, self.begin + self.shift, self.end - self.begin)


class Guarded:
    """The copies of some buffers; those that overlap stay together."""

    def __init__(self, buffers: Sequence[Buffer]) -> None:
        ordered = sorted((buffer for buffer in buffers if buffer.bytes), key=lambda b: b.address)
        groups: list[list[Buffer]] = []
        end = 0
        for buffer in ordered:
            if buffer.address < end:
                groups[-1].append(buffer)
            else:
                groups.append([buffer])
            end = max(end, buffer.address + buffer.bytes)
        self._copies = [_copy_of(group) for group in groups]

    def address(self, buffer: Buffer) -> int:
        """Return where a buffer's copy is."""
        for copy in self._copies:
            if buffer.bytes and copy.begin <= buffer.address < copy.end:
                return buffer.address + copy.shift
        return buffer.address

    def load(self) -> None:
        """Copy what the buffers have."""
        for copy in self._copies:
            copy.load()

    def store(self) -> None:
        """Copy back what the kernel made of it."""
        for copy in self._copies:
            copy.store()


def _copy_of(group: Sequence[Buffer]) -> _Copy:
    """Return a copy that is aligned as on the GPU, where an allocation begins at a multiple."""
    first, end = group[0], max(buffer.address + buffer.bytes for buffer in group)
    size = end - first.address
    gap = min(max(size, LEAST_GAP), LARGEST_GAP)
    memory = numpy.empty(size + 2 * gap + ALIGNMENT, numpy.uint8)
    earliest = memory.ctypes.data + gap
    begin = earliest + (first.offset - earliest) % ALIGNMENT
    is_writable = any(buffer.is_writable for buffer in group)
    return _Copy(first.address, end, is_writable, memory, begin - first.address)
