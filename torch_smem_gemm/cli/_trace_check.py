"""``--check`` of ``trace``: comparisons of the arguments' values, computed in float64."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy
import torch
from torch import Tensor

from torch_smem_gemm.cli._trace_expression import Expression, ExpressionError

# What two numbers may differ by, as a part of the expected one and of the mean of all.
TOLERANCES = {
    torch.float64: 1e-12,
    torch.float32: 1e-5,
    torch.float16: 2e-3,
    torch.bfloat16: 1.6e-2,
}
SHOWN = 5  # elements of a comparison that does not hold

_BINARY: dict[type[ast.AST], Callable[[Tensor, Tensor], Tensor]] = {
    ast.Add: torch.add,
    ast.Sub: torch.sub,
    ast.Mult: torch.mul,
    ast.Div: torch.div,
    ast.MatMult: torch.matmul,
}
_COMPARISONS: dict[type[ast.AST], tuple[str, Callable[[Tensor, Tensor], Tensor]]] = {
    ast.Eq: ("==", torch.eq),
    ast.Lt: ("<", torch.lt),
    ast.LtE: ("<=", torch.le),
    ast.Gt: (">", torch.gt),
    ast.GtE: (">=", torch.ge),
}


def _along(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Return a function over one dimension as one over all, if none is given."""

    def reduce(x: Tensor, *dim: int) -> Tensor:
        return function(x, *dim) if dim else function(x.flatten(), 0)

    return reduce


# By the number of dimensions that each takes, at least and at most.
_FUNCTIONS: dict[str, tuple[Callable[..., Tensor], int, int]] = {
    "sum": (_along(torch.sum), 0, 1),
    "mean": (lambda x, *dim: _along(torch.mean)(x.double(), *dim), 0, 1),
    "max": (_along(torch.amax), 0, 1),
    "min": (_along(torch.amin), 0, 1),
    "abs": (torch.abs, 0, 0),
    "exp": (lambda x: x.double().exp(), 0, 0),
    "sqrt": (lambda x: x.double().sqrt(), 0, 0),
    "relu": (torch.relu, 0, 0),
    "softmax": (lambda x, dim: x.double().softmax(dim), 1, 1),
    "cumsum": (torch.cumsum, 1, 1),
}


@dataclass(frozen=True)
class Value:
    """A tensor in float64 or int64, and the dtype of least precision that it came from."""

    tensor: Tensor
    dtype: torch.dtype = torch.float64


def value_of(argument: Any) -> Value | None:
    """Return a kernel's argument for comparisons; None for what is not numbers."""
    if isinstance(argument, numpy.ndarray):
        argument = torch.from_numpy(argument) if argument.dtype.kind in "fiub" else None
    if isinstance(argument, (int, float)):
        is_float = isinstance(argument, float) or abs(argument) >= 2**63
        return Value(torch.tensor(argument, dtype=torch.float64 if is_float else torch.int64))
    if not isinstance(argument, Tensor) or argument.is_complex():
        return None
    if argument.is_floating_point():
        return Value(argument.double(), argument.dtype)
    return Value(argument.long())


def _close(x: Tensor, y: Tensor, tolerance: float) -> Tensor:
    """Return where x is y, but for rounding errors; a NaN is nothing's equal."""
    size, finite = y.abs(), y.isfinite()
    mean = size[finite].mean() if finite.any() else 0.0
    return (finite & ((x - y).abs() <= tolerance * (size + mean))) | (x == y)


def _known() -> str:
    return (
        "a check has arguments, x.before, numbers, + - * / @, x[i, j:k], .T, .mT, "
        f"{', '.join(_FUNCTIONS)}"
    )


@dataclass(frozen=True)
class Comparison:
    """One comparison of a check, and where it does not hold: index, value and expected."""

    text: str
    elements: int
    wrong: int
    first: tuple[tuple[tuple[int, ...], float, float], ...]
    tolerance: float | None  # None: exact

    def __str__(self) -> str:
        if not self.wrong:
            return f"Check holds: {self.text}"
        within = "" if self.tolerance is None else f", tolerance {self.tolerance:g}"
        rows = [
            f"  at {list(index)}: {value:.9g}, expected {expected:.9g}"
            for index, value, expected in self.first
        ]
        more = ["  ..."] if self.wrong > len(rows) else []
        head = f"CHECK FAILED: {self.text}: {self.wrong:,} of {self.elements:,} elements{within}"
        return "\n".join([head, *rows, *more])


class Check:
    """A parsed ``--check``."""

    def __init__(self, text: str) -> None:
        """Raise ExpressionError if it is not comparisons, joined by ``and``."""
        self.expression = Expression(text)
        self._comparisons = list(self._flat(self.expression.tree))

    def _flat(self, node: ast.expr) -> Iterator[ast.Compare]:
        if isinstance(node, ast.BoolOp) and isinstance(node.op, ast.And):
            for operand in node.values:
                yield from self._flat(operand)
        elif isinstance(node, ast.Compare):
            for operator in node.ops:
                if type(operator) not in _COMPARISONS:
                    raise self.expression.error(node, "expected one of ==, <, <=, >, >=")
            yield node
        else:
            raise self.expression.error(node, "expected a comparison, such as out == a.T")

    @property
    def reads_before(self) -> bool:
        """Whether it needs the values from before the run."""
        nodes = ast.walk(self.expression.tree)
        return any(isinstance(node, ast.Attribute) and node.attr == "before" for node in nodes)

    def compare(self, after: Mapping[str, Any], before: Mapping[str, Any]) -> list[Comparison]:
        """Return all comparisons.

        Args:
            after: the kernel's arguments by name, after the run.
            before: those before it.

        Raises ExpressionError for unknown names, functions and shapes that do not fit.
        """
        evaluation = _Evaluation(self.expression, after, before)
        found = []
        for node in self._comparisons:
            sides = [node.left, *node.comparators]
            for left, operator, right in zip(sides[:-1], node.ops, sides[1:], strict=True):
                found.append(evaluation.comparison(node, left, operator, right))
        return found


class _Evaluation:
    """The values of an expression's nodes."""

    def __init__(
        self, expression: Expression, after: Mapping[str, Any], before: Mapping[str, Any]
    ) -> None:
        self._expression = expression
        self._after, self._before = after, before

    def comparison(
        self, node: ast.Compare, left: ast.expr, operator: ast.cmpop, right: ast.expr
    ) -> Comparison:
        found, expected = self.value(left), self.value(right)
        x, y = found.tensor, expected.tensor
        if x.shape != y.shape and 1 not in (x.numel(), y.numel()):
            shapes = " and ".join(str(list(side.shape)) for side in (x, y))
            raise self._expression.error(node, f"expected equal shapes, got {shapes}")
        x, y = torch.broadcast_tensors(x, y)
        symbol, compare = _COMPARISONS[type(operator)]
        tolerance = None
        if symbol == "==" and (x.is_floating_point() or y.is_floating_point()):
            tolerance = max(TOLERANCES[found.dtype], TOLERANCES[expected.dtype])
            holds = _close(x.double(), y.double(), tolerance)
        else:
            holds = compare(x, y)
        wrong = (~holds).nonzero()
        first = tuple(
            (tuple(index), x[tuple(index)].item(), y[tuple(index)].item())
            for index in wrong[:SHOWN].tolist()
        )
        text = f" {symbol} ".join(map(self._expression.source, (left, right)))
        return Comparison(text, x.numel(), len(wrong), first, tolerance)

    def value(self, node: ast.expr) -> Value:
        """Return the value of a node; raise ExpressionError for one that is not allowed."""
        try:
            if isinstance(node, ast.Constant):
                number = value_of(self._expression.number(node))
                assert number is not None
                return number
            if isinstance(node, ast.Name):
                return self._argument(node, self._after)
            if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
                operand = self.value(node.operand)
                return Value(-operand.tensor, operand.dtype)
            if isinstance(node, ast.BinOp) and type(node.op) in _BINARY:
                return self._binary(node)
            if isinstance(node, ast.Attribute):
                return self._attribute(node)
            if isinstance(node, ast.Subscript):
                operand = self.value(node.value)
                return Value(operand.tensor[self._index(node.slice)], operand.dtype)
            if isinstance(node, ast.Call):
                return self._call(node)
        except ExpressionError:
            raise
        except (RuntimeError, IndexError, TypeError, ValueError) as error:
            raise self._expression.error(node, str(error).splitlines()[0]) from None
        raise self._expression.error(
            node, f"not known here: {self._expression.source(node)}; {_known()}"
        )

    def _argument(self, name: ast.Name, arguments: Mapping[str, Any]) -> Value:
        key = self._expression.source(name)
        value = value_of(arguments.get(key))
        if value is None:
            known = [key for key, argument in arguments.items() if value_of(argument)]
            expected = ", ".join(known) or "none"
            raise self._expression.error(
                name, f"there is no argument of numbers called {key}; there are: {expected}"
            )
        return value

    def _binary(self, node: ast.BinOp) -> Value:
        left, right = self.value(node.left), self.value(node.right)
        x, y = left.tensor, right.tensor
        if x.dtype != y.dtype or isinstance(node.op, ast.Div):
            x, y = x.double(), y.double()
        dtype = max(left.dtype, right.dtype, key=lambda dtype: TOLERANCES[dtype])
        return Value(_BINARY[type(node.op)](x, y), dtype)

    def _attribute(self, node: ast.Attribute) -> Value:
        if node.attr == "before" and isinstance(node.value, ast.Name):
            return self._argument(node.value, self._before)
        if node.attr not in ("T", "mT"):
            raise self._expression.error(node, f"not known here: .{node.attr}; {_known()}")
        operand = self.value(node.value)
        if node.attr == "T" and operand.tensor.dim() > 2:
            raise self._expression.error(node, "expected a matrix before .T; use .mT for batches")
        return Value(operand.tensor.T if node.attr == "T" else operand.tensor.mT, operand.dtype)

    def _call(self, node: ast.Call) -> Value:
        """Return ``x.sum(1)`` or ``sum(x, 1)``."""
        operands: Sequence[ast.expr] = [*node.args, *(k.value for k in node.keywords)]
        name = self._expression.source(node.func)
        if isinstance(node.func, ast.Attribute):
            name, operands = node.func.attr, [node.func.value, *operands]
        if name not in _FUNCTIONS or any(keyword.arg != "dim" for keyword in node.keywords):
            raise self._expression.error(
                node, f"not known here: {self._expression.source(node)}; {_known()}"
            )
        function, least, most = _FUNCTIONS[name]
        dims = [self._expression.integer(dim) for dim in operands[1:]]
        if not operands or not least <= len(dims) <= most:
            expected = ("no dimension", "one dimension")[most]
            raise self._expression.error(node, f"{name} takes a tensor and {expected}")
        operand = self.value(operands[0])
        return Value(function(operand.tensor, *dims), operand.dtype)

    def _index(self, node: ast.expr) -> Any:
        if isinstance(node, ast.Tuple):
            return tuple(self._index(element) for element in node.elts)
        if isinstance(node, ast.Constant) and node.value in (None, ...):
            return node.value
        if isinstance(node, ast.Slice):
            return slice(*map(self._bound, (node.lower, node.upper, node.step)))
        return self._bound(node)

    def _bound(self, node: ast.expr | None) -> int | None:
        """Return an integer of an index, which may be an argument's."""
        if node is None:
            return None
        tensor = self.value(node).tensor
        if tensor.is_floating_point() or tensor.numel() != 1:
            raise self._expression.error(node, "expected an integer as an index")
        return int(tensor)
