"""The tensors that ``--arg`` of ``trace`` can ask for."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

POISON = 0xCD  # every byte of the integers that `empty` makes; its floats are NaN

Shape = tuple[int, ...]
Numbers = tuple[int | float, ...]
_Make = Callable[["Maker", torch.dtype, torch.Generator], Tensor]


@dataclass(frozen=True)
class Maker:
    """A tensor to be made: by which function, of which shape, from which numbers.

    The ``numbers`` of arange are begin and step. A ``dtype`` of None is that of the kernel's
    parameter.
    """

    name: str
    shape: Shape
    numbers: Numbers
    dtype: torch.dtype | None

    def make(self, parameter: torch.dtype | None, random: torch.Generator) -> Tensor:
        """Return the tensor.

        Args:
            parameter: the dtype that the kernel's parameter points to; None if it takes any.
            random: the source of random numbers.

        Raises ValueError for numbers that the dtype does not have.
        """
        with torch.device("cpu"):  # wherever new tensors are by default
            return self._make(parameter, random)

    def _make(self, parameter: torch.dtype | None, random: torch.Generator) -> Tensor:
        fractions = [number for number in self.numbers if isinstance(number, float)]
        is_whole = self.name in ("arange", "randint", "tensor") and not fractions
        dtype = self.dtype or parameter or (torch.int64 if is_whole else torch.float32)
        if dtype.is_floating_point:
            wide = torch.float64 if dtype == torch.float64 else torch.float32
            return MAKERS[self.name](self, wide, random).to(dtype)
        name = str(dtype).removeprefix("torch.")
        if self.name in ("randn", "rand"):
            raise ValueError(f"{self.name} makes fractions, and the dtype is {name}: use randint")
        if self.name == "empty":
            return _poisoned(self.shape, dtype)
        if fractions:
            raise ValueError(f"{fractions[0]} is not a number of {name}")
        made = MAKERS[self.name](self, torch.int64, random)
        low, high = _range(dtype)
        for extreme in self._extremes(made):
            if not low <= extreme <= high:
                raise ValueError(f"{extreme} is not a number of {name}")
        return made.to(dtype)

    def _extremes(self, made: Tensor) -> Numbers:
        if self.name == "randint":  # whatever came this time
            return self.numbers[0], self.numbers[1] - 1
        return (int(made.min()), int(made.max())) if made.numel() else ()


def _range(dtype: torch.dtype) -> tuple[int, int]:
    if dtype == torch.bool:
        return 0, 1
    limits = torch.iinfo(dtype)
    return limits.min, limits.max


def _poisoned(shape: Shape, dtype: torch.dtype) -> Tensor:
    if dtype == torch.bool:
        return torch.ones(shape, dtype=dtype)
    content = torch.full((math.prod(shape) * dtype.itemsize,), POISON, dtype=torch.uint8)
    return content.view(dtype).reshape(shape)


def _of_numbers(maker: Maker, dtype: torch.dtype, random: torch.Generator) -> Tensor:
    return torch.tensor(maker.numbers, dtype=dtype).reshape(maker.shape)


def _of_one_number(maker: Maker, dtype: torch.dtype, random: torch.Generator) -> Tensor:
    return torch.full(maker.shape, maker.numbers[0], dtype=dtype)


def _arange(maker: Maker, dtype: torch.dtype, random: torch.Generator) -> Tensor:
    begin, step = maker.numbers
    return begin + step * torch.arange(*maker.shape, dtype=dtype)


def _eye(maker: Maker, dtype: torch.dtype, random: torch.Generator) -> Tensor:
    return torch.eye(*maker.shape, dtype=dtype)


def _randn(maker: Maker, dtype: torch.dtype, random: torch.Generator) -> Tensor:
    return torch.randn(maker.shape, dtype=dtype, generator=random)


def _rand(maker: Maker, dtype: torch.dtype, random: torch.Generator) -> Tensor:
    return torch.rand(maker.shape, dtype=dtype, generator=random)


def _randint(maker: Maker, dtype: torch.dtype, random: torch.Generator) -> Tensor:
    low, high = map(int, maker.numbers)
    return torch.randint(low, high, maker.shape, generator=random)


MAKERS: dict[str, _Make] = {
    "randn": _randn,
    "rand": _rand,
    "zeros": _of_one_number,
    "ones": _of_one_number,
    "empty": _of_one_number,
    "full": _of_one_number,
    "arange": _arange,
    "randint": _randint,
    "eye": _eye,
    "tensor": _of_numbers,
}
