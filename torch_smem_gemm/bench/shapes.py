"""Problem sizes: the sets in ``shape_sets/*.txt``, sets from a file, and random ones by seed."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

SHIPPED = Path(__file__).parent / "shape_sets"
LAYOUTS = ("nn", "nt", "tn", "tt")
ACTIVATIONS = ("relu", "gelu", "gelu_tanh", "silu")

RANDOM_GEMM_SIZE = 4096  # the largest M, N or K
RANDOM_LOG2_NUMBERS = (10, 26)  # of a tensor to transpose or to sum


@dataclass(frozen=True)
class GemmShape:
    """``batch`` products of (m, k) and (k, n). ``layout``: t is an operand stored transposed.

    ``activation`` is applied to the result; only linear problems have one.
    """

    m: int
    n: int
    k: int
    batch: int = 1
    layout: str = "nn"
    activation: str | None = None

    def __str__(self) -> str:
        batch = f" batch={self.batch}" if self.batch != 1 else ""
        layout = f" layout={self.layout}" if self.layout != "nn" else ""
        activation = f" activation={self.activation}" if self.activation else ""
        return f"{self.m} {self.n} {self.k}{batch}{layout}{activation}"

    @property
    def title(self) -> str:
        """For people."""
        batch = f"{self.batch} of " if self.batch != 1 else ""
        layout = f" {self.layout}" if self.layout != "nn" else ""
        activation = f" {self.activation}" if self.activation else ""
        return f"{batch}{self.m} x {self.n} x {self.k}{layout}{activation}"


@dataclass(frozen=True)
class TransposeShape:
    """A tensor of ``sizes`` with two dimensions exchanged: ``dims``, or the last two if None."""

    sizes: tuple[int, ...]
    dims: tuple[int, int] | None = None

    def __str__(self) -> str:
        return " ".join(map(str, self.sizes)) + (f" dims={_commas(self.dims)}" if self.dims else "")

    @property
    def title(self) -> str:
        """For people."""
        return " x ".join(map(str, self.sizes)) + (
            f" dims {_commas(self.dims)}" if self.dims else ""
        )


@dataclass(frozen=True)
class SumShape:
    """A tensor of ``sizes``, summed over ``dims``, or all of it if None."""

    sizes: tuple[int, ...]
    dims: tuple[int, ...] | None = None

    def __str__(self) -> str:
        return f"{' '.join(map(str, self.sizes))} {_commas(self.dims) if self.dims else 'all'}"

    @property
    def title(self) -> str:
        """For people."""
        over = "all"
        if self.dims:
            over = f"dim{'s' if len(self.dims) > 1 else ''} {_commas(self.dims)}"
        return f"{' x '.join(map(str, self.sizes))} over {over}"


Shape = GemmShape | TransposeShape | SumShape


def names() -> list[str]:
    """The sets that the package ships."""
    return sorted(path.stem for path in SHIPPED.glob("*.txt"))


def load(
    name_or_file: str,
    op: str,
    *,
    marked: bool = False,
    fits: Callable[[Shape], bool] = lambda shape: True,
) -> list[Shape]:
    """Read a set of problems.

    Args:
        name_or_file: one of ``names()``, or else the path of a file in the format of ``op``.
        op: "gemm" or "linear" (``M N K [batch=B] [layout=nn|nt|tn|tt]``; linear also
            ``[activation=A]``), "transpose" (``SIZE SIZE ... [dims=D,D]``) or "sum"
            (``SIZE ... all|D[,D...]``). One problem a line; ``#`` begins a comment. A line that
            begins with ``*`` is marked: it represents the set in quick runs.
        marked: only the marked problems; all where none is marked.
        fits: problems for which it is false are left out, before the marked ones are chosen.

    Raises:
        ValueError: no such set, or a line that is no problem of ``op``: file, line, what was
            expected and what came.
    """
    path = SHIPPED / f"{name_or_file}.txt" if name_or_file in names() else Path(name_or_file)
    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(
            f"shapes: expected one of {', '.join(names())} or a text file, got {name_or_file!r}: "
            f"{error}"
        ) from error
    shapes: list[Shape] = []
    chosen: list[Shape] = []
    for number, line in enumerate(text.splitlines(), 1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        is_marked = words[0] == "*"
        try:
            shapes.append(parse(op, words[is_marked:]))
        except ValueError as error:
            raise ValueError(f"{path}:{number}: {error}") from None
        if is_marked and fits(shapes[-1]):
            chosen.append(shapes[-1])
    if not shapes:
        raise ValueError(f"{path}: expected a problem a line, got none")
    return chosen if marked and chosen else list(filter(fits, shapes))


def parse(op: str, words: list[str]) -> Shape:
    """The problem of ``op`` that the words of one line describe."""
    if op == "transpose":
        return _transpose_shape(words)
    if op == "sum":
        return _sum_shape(words)
    if op not in ("gemm", "linear"):
        raise ValueError(f"shapes: expected op gemm, linear, transpose or sum, got {op!r}")
    return _gemm_shape(op, words)


def random_shapes(op: str, count: int, seed: int) -> list[Shape]:
    """``count`` problems of ``op``, the same for the same seed. Sizes are even in their logarithm.

    M, N and K reach 4096; a tensor to transpose or to sum has from 2^10 to 2^26 numbers.
    """
    numbers = random.Random(seed)
    return [_random_shape(op, numbers) for _ in range(count)]


def _random_shape(op: str, numbers: random.Random) -> Shape:
    def up_to(largest: float) -> int:
        return max(1, round(largest ** numbers.random()))

    if op in ("gemm", "linear"):
        m, n, k = (up_to(RANDOM_GEMM_SIZE) for _ in range(3))
        return GemmShape(m, n, k, layout="nt" if op == "linear" else numbers.choice(LAYOUTS))
    total = 2 ** numbers.uniform(*RANDOM_LOG2_NUMBERS)
    rows = up_to(total)
    sizes = (rows, max(1, round(total / rows)))
    if op == "transpose":
        return TransposeShape(sizes)
    if op == "sum":
        return SumShape(sizes, numbers.choice((None, (0,), (1,))))
    raise ValueError(f"shapes: expected op gemm, linear, transpose or sum, got {op!r}")


def _gemm_shape(op: str, words: list[str]) -> GemmShape:
    expected = "M N K [batch=B] [layout=nn|nt|tn|tt]"
    names = ["batch", "layout"]
    if op == "linear":
        expected += f" [activation={'|'.join(ACTIVATIONS)}]"
        names.append("activation")
    if len(words) < 3:
        raise _unexpected(expected, words)
    m, n, k = (_size(word) for word in words[:3])
    options: dict[str, str] = {}
    for word in words[3:]:
        name, _, value = word.partition("=")
        if name not in names or name in options:
            raise _unexpected(expected, words)
        options[name] = value
    layout, activation = options.get("layout", "nn"), options.get("activation")
    if layout not in LAYOUTS:
        raise ValueError(f"expected a layout of {', '.join(LAYOUTS)}, got {layout!r}")
    if activation not in (None, *ACTIVATIONS):
        raise ValueError(f"expected an activation of {', '.join(ACTIVATIONS)}, got {activation!r}")
    return GemmShape(m, n, k, _size(options.get("batch", "1")), layout, activation)


def _transpose_shape(words: list[str]) -> TransposeShape:
    sizes = [word for word in words if not word.startswith("dims=")]
    if len(sizes) < 2 or words[: len(sizes)] != sizes or len(words) > len(sizes) + 1:
        raise _unexpected("SIZE SIZE ... [dims=D,D]", words)
    found = TransposeShape(tuple(map(_size, sizes)))
    if len(words) == len(sizes):
        return found
    dims = _dims(words[-1].removeprefix("dims="), len(sizes))
    if len(dims) != 2:
        raise ValueError(f"expected two dims, got {words[-1]!r}")
    return TransposeShape(found.sizes, (dims[0], dims[1]))


def _sum_shape(words: list[str]) -> SumShape:
    if len(words) < 2:
        raise _unexpected("SIZE ... all|D[,D...]", words)
    sizes = tuple(map(_size, words[:-1]))
    return SumShape(sizes, None if words[-1] == "all" else _dims(words[-1], len(sizes)))


def _dims(text: str, rank: int) -> tuple[int, ...]:
    words = text.split(",")
    dims = tuple(int(word) for word in words if word.isdecimal() and int(word) < rank)
    if len(dims) < len(words) or len(set(dims)) < len(dims):
        raise ValueError(f"expected different dims from 0 to {rank - 1}, got {text!r}")
    return dims


def _commas(dims: tuple[int, ...]) -> str:
    return ",".join(map(str, dims))


def _size(word: str) -> int:
    if not word.isdecimal() or int(word) == 0:
        raise ValueError(f"expected a size of 1 or more, got {word!r}")
    return int(word)


def _unexpected(expected: str, words: list[str]) -> ValueError:
    return ValueError(f"expected {expected}, got {' '.join(words)!r}")
