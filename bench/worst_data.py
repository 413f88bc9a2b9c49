"""Pairs of matrices on which products of float32 are least exact, and a search for others.

Each series is made for a reason that docs/accuracy.md gives. A pair is A, M x K, and B, K x N.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from torch_smem_gemm.bench.bounds import PIECE, ULP
from torch_smem_gemm.bench.numbers import DATA

Pair = tuple[Tensor, Tensor]
Product = Callable[[Tensor, Tensor], Tensor]
MakePair = Callable[[int, int, int, "torch.device | str"], Pair]
Lines = Callable[[int, int, "torch.device | str"], Tensor]


def _pair(lines: Lines) -> MakePair:
    """Rows of A and columns of B of one kind."""
    return lambda m, n, k, device: (lines(m, k, device), lines(n, k, device).mT)


def _constants(rows: int, length: int, device: torch.device | str) -> Tensor:
    """A line repeats one number: first those that two halves hold worst, then any."""
    known = [1 + 2.0**-11 - 3 * 2.0**-23, 1 + 2.0**-12 + 2.0**-23, 1 + 2.0**-11, 1 / 3, 0.1]
    numbers = 1 + torch.rand(rows, device=device)
    known = known[:rows]
    numbers[: len(known)] = torch.tensor(known, device=device)
    return numbers[:, None].repeat(1, length)


def _geometric(rows: int, length: int, device: torch.device | str) -> Tensor:
    """From 1 up or down over 20 binades at most."""
    binades = 40 * torch.rand(rows, 1, device=device) - 20
    return torch.exp2(torch.arange(length, device=device) / length * binades)


def _alternating(m: int, n: int, k: int, device: torch.device | str) -> Pair:
    """1 - 1/2 + 1/3 ..., each term with a mantissa of its own."""
    terms = 1 / (1.0 + torch.arange(k, device=device))
    terms[1::2] *= -1
    a = terms * (1 + torch.rand(m, k, device=device))
    return a, 1 + torch.rand(k, n, device=device)


def _ties(m: int, n: int, k: int, device: torch.device | str) -> Pair:
    """Integers of 12 bits: sums pass 2^24, from where on each second addition is a tie."""
    a = torch.randint(0, 4096, (m, k), device=device)
    return a.float(), torch.randint(0, 4096, (k, n), device=device).float()


def _one_large(m: int, n: int, device: torch.device | str, small: Tensor) -> Pair:
    """1, and products of 2^-24 where `small` says so: each is half of 1's last bit, and a tie."""
    line = small.to(device) * 2.0**-12
    line[0] = 1
    return line.repeat(m, 1), line[:, None].repeat(1, n)


def _lost_in_a_chain(m: int, n: int, k: int, device: torch.device | str) -> Pair:
    return _one_large(m, n, device, torch.ones(k))


def _lost_in_chunks(m: int, n: int, k: int, device: torch.device | str) -> Pair:
    """As many additions as the SIMT kernels' order has, each of which loses half of a last bit."""
    chunk = 64 if k < 2048 else 128
    small = torch.zeros(k)
    small[:chunk] = 1
    small[: 16 * chunk : chunk] = 1
    small[:: 16 * chunk] = 1
    return _one_large(m, n, device, small)


def _lost_in_exact_lines(m: int, n: int, k: int, device: torch.device | str) -> Pair:
    """The same, with two elements that halves do not hold: so `fp16x3` computes it by fmas."""
    a, b = _lost_in_chunks(m, n, k, device)
    a[:, -2:] = 2.0**-40
    b[-2:] = 2.0**-40
    return a, b


def _lost_in_pieces(m: int, n: int, k: int, device: torch.device | str) -> Pair:
    """The same for `fp16x3`: its split, its tensor cores and its additions each lose the most.

    1's factors are those that halves hold worst. The other products of the first piece lie just
    below 2^-24, of which the tensor core keeps one bit, and drops that too when it ends a sum.
    """
    below = torch.zeros(k)
    below[:PIECE] = 1
    below[PIECE // 2 : PIECE // 2 + 1] = 0  # so that 15 products are left to both instructions
    small = torch.zeros(k)
    small[PIECE : 16 * PIECE : PIECE] = 1
    line = (below * (1 - 2.0**-11) + small).to(device) * 2.0**-12
    line[0] = 1 + 2.0**-11 - 3 * 2.0**-23
    return line.repeat(m, 1), line[:, None].repeat(1, n)


def _ratio(m: int, k: int, device: str) -> Tensor:
    above, below = (torch.randn(m, k, device=device) for _ in range(2))
    return above / (below + torch.copysign(torch.tensor(2.0**-25), below))  # never by zero


SERIES: dict[str, MakePair] = {
    "normal": _pair(DATA["normal"]),
    "uniform": _pair(DATA["uniform"]),
    "exp(3 normal)": _pair(lambda m, k, device: (3 * torch.randn(m, k, device=device)).exp()),
    "ratio of normals": _pair(_ratio),
    "1 / uniform": _pair(lambda m, k, device: 1 / (torch.rand(m, k, device=device) + 2.0**-25)),
    "constants": _pair(_constants),
    "geometric": _pair(_geometric),
    "harmonic": _pair(DATA["Hilbert"]),
    "alternating": _alternating,
    "ties": _ties,
    "lost in a chain": _lost_in_a_chain,
    "lost in chunks": _lost_in_chunks,
    "lost in exact lines": _lost_in_exact_lines,
    "lost in pieces": _lost_in_pieces,
}


def element_errors(result: Tensor, a: Tensor, b: Tensor) -> Tensor:
    """How far each element is from the exact one, in 2^-24 of what its terms' magnitudes sum to."""
    a, b = a.double(), b.double()
    magnitude = a.abs() @ b.abs()
    return ((result.double() - a @ b).abs() / magnitude / ULP).nan_to_num(0.0)


def _mutated(line: Tensor, count: int) -> Tensor:
    """``count`` variants of a line; the first is the line itself."""
    k, device = len(line), line.device
    lines = line.repeat(count, 1)
    # Of one element to all of them: another mantissa, exponent or sign, or a neighbour's value.
    share = torch.exp2(-math.log2(k) * torch.rand(count, 1, device=device))
    touched = torch.rand(count, k, device=device) < share
    mantissa = 1 + 2.0**-6 * torch.randn(count, k, device=device)
    exponent = torch.exp2(torch.randint(-3, 4, (count, k), device=device))
    sign = torch.randint(0, 2, (count, k), device=device) * 2.0 - 1
    shift = torch.randint(1, k, (1,)).item() if k > 1 else 0
    ways = torch.stack(
        [lines * mantissa, lines * exponent, lines * sign, lines.roll(int(shift), 1)]
    )
    way = torch.randint(0, len(ways), (count, 1), device=device).expand(count, k)
    changed = ways.gather(0, way[None])[0]
    # Within 24 binades of 1, so that nothing overflows and halves hold most lines.
    changed = changed.sign() * changed.abs().clamp(2.0**-12, 2.0**12)
    lines = torch.where(touched, changed, lines)
    lines[0] = line
    return lines


def climb(product: Product, pair: Pair, rounds: int, variants: int = 48) -> Pair:
    """Search for a worse pair of lines than A's first row and B's first column.

    Each round multiplies ``variants`` mutations of the row by as many of the column, and keeps the
    pair whose element is furthest off. Returns it in matrices of the given shapes.
    """
    a, b = pair
    row, col = a[0], b[:, 0]
    for _ in range(rounds):
        rows, cols = _mutated(row, variants), _mutated(col, variants)
        found = element_errors(product(rows, cols.mT), rows, cols.mT)
        worst = int(found.argmax())
        row, col = rows[worst // variants], cols[worst % variants]
    return row.repeat(a.shape[0], 1), col[:, None].repeat(1, b.shape[1])
