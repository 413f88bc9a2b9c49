"""Problem sizes: the sets in ``shape_sets/*.txt``, and sets from a file."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

SHIPPED = Path(__file__).parent / "shape_sets"
LAYOUTS = ("nn", "nt", "tn", "tt")
ACTIVATIONS = ("relu", "gelu", "gelu_tanh", "silu")


@dataclass(frozen=True)
class GemmShape:
    """``batch`` products of (m, k) and (k, n). ``layout``: t is an operand stored transposed.

    Rows of the operands are ``gap`` elements apart in memory. ``activation`` is applied to the
    result; only linear problems have one.
    """

    m: int
    n: int
    k: int
    batch: int = 1
    layout: str = "nn"
    activation: str | None = None
    gap: int = 0

    def __str__(self) -> str:
        batch = f" batch={self.batch}" if self.batch != 1 else ""
        layout = f" layout={self.layout}" if self.layout != "nn" else ""
        activation = f" activation={self.activation}" if self.activation else ""
        gap = f" gap={self.gap}" if self.gap else ""
        return f"{self.m} {self.n} {self.k}{batch}{layout}{activation}{gap}"

    @property
    def title(self) -> str:
        """For people."""
        batch = f"{self.batch} of " if self.batch != 1 else ""
        layout = f" {self.layout}" if self.layout != "nn" else ""
        activation = f" {self.activation}" if self.activation else ""
        gap = f" gap {self.gap}" if self.gap else ""
        return f"{batch}{self.m} x {self.n} x {self.k}{layout}{activation}{gap}"


@dataclass(frozen=True)
class TransposeShape:
    """A tensor of ``sizes`` with two dimensions exchanged: ``dims``, or the last two if None.

    ``order`` has its dimensions from the outermost to the innermost in memory; None: as they are.
    """

    sizes: tuple[int, ...]
    dims: tuple[int, int] | None = None
    order: tuple[int, ...] | None = None

    def __str__(self) -> str:
        dims = f" dims={_commas(self.dims)}" if self.dims else ""
        return " ".join(map(str, self.sizes)) + dims + _order(self.order, "=")

    @property
    def title(self) -> str:
        """For people."""
        dims = f" dims {_commas(self.dims)}" if self.dims else ""
        return " x ".join(map(str, self.sizes)) + dims + _order(self.order, " ")


@dataclass(frozen=True)
class SumShape:
    """A tensor of ``sizes``, summed over ``dims``, or all of it if None.

    ``order`` has its dimensions from the outermost to the innermost in memory; None: as they are.
    """

    sizes: tuple[int, ...]
    dims: tuple[int, ...] | None = None
    order: tuple[int, ...] | None = None

    def __str__(self) -> str:
        dims = _commas(self.dims) if self.dims else "all"
        return f"{' '.join(map(str, self.sizes))} {dims}{_order(self.order, '=')}"

    @property
    def title(self) -> str:
        """For people."""
        over = "all"
        if self.dims:
            over = f"dim{'s' if len(self.dims) > 1 else ''} {_commas(self.dims)}"
        return f"{' x '.join(map(str, self.sizes))} over {over}{_order(self.order, ' ')}"


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
        op: "gemm" or "linear" (``M N K [batch=B] [layout=nn|nt|tn|tt] [gap=G]``; linear also
            ``[activation=A]``), "transpose" (``SIZE SIZE ... [dims=D,D] [order=D,D...]``) or "sum"
            (``SIZE ... all|D[,D...] [order=D,D...]``). One problem a line; ``#`` begins a comment.
            A line that begins with ``*`` is marked: it represents the set in quick runs.
        marked: only the marked problems; all where none is marked.
        fits: problems for which it is false are left out, before the marked ones are chosen.

    Raises:
        ValueError: no such set, or a line that is no problem of ``op``: file, line, what was
            expected and what came.
    """
    path = SHIPPED / f"{name_or_file}.txt" if name_or_file in names() else Path(name_or_file)
    try:
        text = path.read_text(encoding="utf-8")
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


def _gemm_shape(op: str, words: list[str]) -> GemmShape:
    expected = "M N K [batch=B] [layout=nn|nt|tn|tt] [gap=G]"
    names = ["batch", "layout", "gap"]
    if op == "linear":
        expected += f" [activation={'|'.join(ACTIVATIONS)}]"
        names.append("activation")
    if len(words) < 3:
        raise _unexpected(expected, words)
    m, n, k = (_size(word) for word in words[:3])
    options = _options(words[3:], names, expected, words)
    layout, activation = options.get("layout", "nn"), options.get("activation")
    if layout not in LAYOUTS:
        raise ValueError(f"expected a layout of {', '.join(LAYOUTS)}, got {layout!r}")
    if activation not in (None, *ACTIVATIONS):
        raise ValueError(f"expected an activation of {', '.join(ACTIVATIONS)}, got {activation!r}")
    gap = _size(options["gap"]) if "gap" in options else 0
    return GemmShape(m, n, k, _size(options.get("batch", "1")), layout, activation, gap)


def _transpose_shape(words: list[str]) -> TransposeShape:
    sizes = [word for word in words if "=" not in word]
    expected = "SIZE SIZE ... [dims=D,D] [order=D,D...]"
    if len(sizes) < 2 or words[: len(sizes)] != sizes:
        raise _unexpected(expected, words)
    options = _options(words[len(sizes) :], ["dims", "order"], expected, words)
    order = _order_of(options.get("order"), len(sizes))
    if "dims" not in options:
        return TransposeShape(tuple(map(_size, sizes)), order=order)
    dims = _dims(options["dims"], len(sizes))
    if len(dims) != 2:
        raise ValueError(f"expected two dims, got 'dims={options['dims']}'")
    return TransposeShape(tuple(map(_size, sizes)), (dims[0], dims[1]), order)


def _sum_shape(words: list[str]) -> SumShape:
    before = [word for word in words if "=" not in word]
    expected = "SIZE ... all|D[,D...] [order=D,D...]"
    if len(before) < 2 or words[: len(before)] != before:
        raise _unexpected(expected, words)
    options = _options(words[len(before) :], ["order"], expected, words)
    sizes = tuple(map(_size, before[:-1]))
    dims = None if before[-1] == "all" else _dims(before[-1], len(sizes))
    return SumShape(sizes, dims, _order_of(options.get("order"), len(sizes)))


def _options(given: list[str], names: list[str], expected: str, words: list[str]) -> dict[str, str]:
    """``name=value`` of the last words of a line; each name at most once."""
    options: dict[str, str] = {}
    for word in given:
        name, _, value = word.partition("=")
        if name not in names or name in options:
            raise _unexpected(expected, words)
        options[name] = value
    return options


def _order_of(text: str | None, rank: int) -> tuple[int, ...] | None:
    if text is None:
        return None
    order = _dims(text, rank)
    if len(order) != rank:
        raise ValueError(f"expected an order of all {rank} dims, got {text!r}")
    return order


def _order(order: tuple[int, ...] | None, sign: str) -> str:
    return f" order{sign}{_commas(order)}" if order else ""


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
