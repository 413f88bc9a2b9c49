"""Problems that nobody chose: random ones, the same for the same seed.

Sets of chosen problems flatter the kernels that were tuned to them. Sizes here are even in their
logarithm and of any parity, a third of the products has the sizes of a model's layers, and a third
of the tensors to transpose or to sum is stored in another order than that of its dimensions.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator

from torch_smem_gemm.bench.shapes import (
    ACTIVATIONS,
    LAYOUTS,
    GemmShape,
    Shape,
    SumShape,
    TransposeShape,
)

COUNTS = {"gemm": 500, "linear": 500, "transpose": 150, "sum": 150}  # of a whole set

LOG2_GEMM_SIZE = 20  # of the largest M, N or K
GEMM_NUMBERS = 1 << 28  # of A, B and the result together, at most: 2 GiB in float64
GEMM_OPERATIONS = 1 << 42  # at most: 0.1 s at the rate of SGEMM on an H200
LOG2_TENSOR_SIZE = 14  # of the largest dimension to transpose or to sum
TENSOR_NUMBERS = (100_000, 300_000_000)
GAPS = (1, 2, 3, 8, 64)

WIDTHS = (512, 768, 1024, 1536, 2048, 2560, 3072, 4096, 5120, 6144, 8192)  # of language models
CHANNELS = (32, 48, 64, 96, 128, 192, 256, 384, 512, 1024, 2048)  # of convolutions
EMBEDDINGS = (16, 32, 64, 128, 256, 512)  # of recommender models


def random_shapes(
    op: str, count: int, seed: int, fits: Callable[[Shape], bool] = lambda shape: True
) -> list[Shape]:
    """Return ``count`` problems of ``op`` for which ``fits`` is true, the same for the same seed.

    M, N and K of a product reach 2^20, a dimension to transpose or to sum 16,384. The tensors
    together fit a GPU's memory.

    Args:
        op: "gemm", "linear", "transpose" or "sum".
        count: how many.
        seed: of the random numbers.
        fits: others are left out and replaced.

    Raises:
        ValueError: no such op.
    """
    if op not in COUNTS:
        raise ValueError(f"shapes: expected op {', '.join(COUNTS)}, got {op!r}")
    numbers = random.Random(seed)
    endless = _products(op, numbers) if op in ("gemm", "linear") else _tensors(op, numbers)
    found: list[Shape] = []
    while len(found) < count:
        shape = next(endless)
        if fits(shape):
            found.append(shape)
    return found


def _products(op: str, numbers: random.Random) -> Iterator[Shape]:
    while True:
        if numbers.random() < 1 / 3:
            m, n, k = numbers.choice((_language_layer, _convolution, _recommender))(numbers)
            batch, gap = 1, 0
        else:
            m, n, k = (_log_uniform(numbers, LOG2_GEMM_SIZE) for _ in range(3))
            batch = 1 if op == "linear" or numbers.random() < 0.8 else _log_uniform(numbers, 10)
            gap = numbers.choice(GAPS) if op == "gemm" and numbers.random() < 0.25 else 0
        layout = "nt" if op == "linear" else numbers.choice(LAYOUTS)
        activation = numbers.choice((None, *ACTIVATIONS)) if op == "linear" else None
        shape = GemmShape(m, n, k, batch, layout, activation, gap)
        elements = batch * (m * k + k * n + m * n)
        if elements <= GEMM_NUMBERS and 2 * batch * m * n * k <= GEMM_OPERATIONS:
            yield shape


def _language_layer(numbers: random.Random) -> tuple[int, int, int]:
    """The tokens of a batch by a projection, the two layers of an MLP, or a vocabulary."""
    width = numbers.choice(WIDTHS)
    wide = numbers.choice((width, 3 * width, 4 * width, 7 * width // 2, 32_000, 50_257, 128_256))
    n, k = numbers.choice(((wide, width), (width, wide)))
    return _log_uniform(numbers, 13), n, k


def _convolution(numbers: random.Random) -> tuple[int, int, int]:
    """A convolution as a product: positions of a batch, output channels, taps of all channels."""
    side = numbers.choice((7, 14, 28, 56, 112))
    taps = numbers.choice((1, 9, 25, 49))
    positions = numbers.choice((1, 4, 16, 32)) * side * side
    return positions, numbers.choice(CHANNELS), numbers.choice((3, *CHANNELS)) * taps


def _recommender(numbers: random.Random) -> tuple[int, int, int]:
    """A batch of users by the embeddings of several features, or by a catalogue's items."""
    users = 1 << numbers.randint(6, 16)
    embedding = numbers.choice(EMBEDDINGS)
    features = embedding * numbers.randint(1, 40)
    return numbers.choice(
        (
            (users, numbers.choice((256, 512, 1024)), features),
            (users, 1000 * numbers.randint(1, 50), embedding),
        )
    )


def _tensors(op: str, numbers: random.Random) -> Iterator[Shape]:
    least, most = TENSOR_NUMBERS
    while True:
        rank = numbers.randint(2, 4)
        sizes = tuple(_log_uniform(numbers, LOG2_TENSOR_SIZE) for _ in range(rank))
        if not least <= math.prod(sizes) <= most:
            continue
        dims = list(range(rank))
        order = tuple(numbers.sample(dims, rank)) if numbers.random() < 1 / 3 else None
        if op == "transpose":
            first, second = sorted(numbers.sample(dims, 2))
            yield TransposeShape(sizes, (first, second), order)
        else:
            reduced = tuple(sorted(numbers.sample(dims, numbers.randint(1, rank))))
            yield SumShape(sizes, None if len(reduced) == rank else reduced, order)


def _log_uniform(numbers: random.Random, log2_largest: float) -> int:
    return round(2 ** numbers.uniform(0, log2_largest))
