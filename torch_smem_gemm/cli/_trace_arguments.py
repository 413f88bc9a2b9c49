"""``--arg`` of ``trace``: a tensor or a number for a kernel, parsed and then made."""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from torch_smem_gemm.cli._trace_expression import Expression
from torch_smem_gemm.cli._trace_makers import MAKERS, Maker, Numbers, Shape
from torch_smem_gemm.raw_kernel.arguments import KINDS, Parameter

MAX_BYTES = 4 * 2**30
EXAMPLES = "randn(256, 256), empty(64, dtype=float16), 256 or 1e-3"

_DTYPES = {str(dtype).removeprefix("torch."): dtype for dtype in KINDS}
_ALIASES = {"half": "float16", "float": "float32", "double": "float64", "int": "int32"}

# A number with the suffix that it has in C++: 256u, 1.5f.
_SUFFIXED = re.compile(
    r"(?P<number>[-+\s]*(?:0[xX][\da-fA-F]+(?=[uUlL])|(?:\d[\d.]*|\.\d+)(?:[eE][-+]?\d+)?))"
    r"(?:[uUlL]+|(?P<float>[fF]))\s*"
)


@dataclass(frozen=True)
class Variable:
    """A variable of a notebook."""

    name: str


@dataclass(frozen=True)
class Argument:
    """A parsed ``--arg``; an empty ``name`` stands for that of the kernel's parameter."""

    expression: Expression
    name: str
    value: Maker | Variable | int | float | None

    def make(
        self, parameter: Parameter, variables: Mapping[str, Any], random: torch.Generator
    ) -> Any:
        """Return the value for a parameter of a kernel.

        Args:
            parameter: what the kernel expects.
            variables: the values of :class:`Variable`.
            random: the source of random numbers.

        Raises ExpressionError.
        """
        if isinstance(self.value, Variable):
            if self.value.name not in variables:
                raise self.expression.error(None, f"there is no variable {self.value.name}")
            return variables[self.value.name]
        if not isinstance(self.value, Maker):
            return self.value
        try:
            made = self.value.make(parameter.dtype, random)
        except (ValueError, RuntimeError) as error:
            raise self.expression.error(None, str(error).splitlines()[0]) from None
        if parameter.kind == "s":  # a struct by value, such as a float2
            return made.flatten().view(torch.uint8).numpy().tobytes()
        return made


def parse_argument(text: str, *, variables: bool = False) -> Argument:
    """Parse ``[name=]value``, the value a tensor maker, a number, True, False or None.

    Args:
        text: of the option.
        variables: whether a name alone is that of a variable.

    Raises ExpressionError.
    """
    named = re.match(r"\s*([^\W\d]\w*)\s*=(?!=)", text)
    begin = named.end() if named else 0
    suffixed = _SUFFIXED.fullmatch(text, begin)
    expression = Expression(text[: suffixed.end("number")] if suffixed else text, begin)
    name = named[1] if named else ""
    node = expression.tree
    if isinstance(node, ast.Call):
        return Argument(expression, name, _maker(expression, node))
    if isinstance(node, ast.Constant) and node.value is None:
        return Argument(expression, name, None)
    if isinstance(node, ast.Name) and variables:
        return Argument(expression, name, Variable(expression.source(node)))
    if not _is_number(node):
        raise expression.error(node, f"expected a tensor or a number, such as {EXAMPLES}")
    number = expression.number(node)
    return Argument(expression, name, float(number) if suffixed and suffixed["float"] else number)


def _is_number(node: ast.expr) -> bool:
    is_infinite = isinstance(node, ast.Name) and node.id in ("inf", "nan")
    return is_infinite or isinstance(node, (ast.Constant, ast.UnaryOp, ast.BinOp))


def _maker(expression: Expression, call: ast.Call) -> Maker:
    name = expression.source(call.func)
    if name not in MAKERS:
        raise expression.error(call, f"expected one of {', '.join(MAKERS)}; got {name}")
    dtype = None
    for keyword in call.keywords:
        if keyword.arg != "dtype":
            raise expression.error(
                keyword, f"{name} takes the keyword dtype, got {keyword.arg or '**'}"
            )
        dtype = _dtype(expression, keyword.value)
    shape, numbers = _PARTS.get(name, _sizes_alone)(expression, call)
    largest = (dtype or torch.float64).itemsize * math.prod(shape)
    if largest > MAX_BYTES:
        raise expression.error(
            call, f"expected a tensor of at most 4 GiB, and this has {largest / 2**30:,.0f}"
        )
    return Maker(name, shape, numbers, dtype)


def _dtype(expression: Expression, node: ast.expr) -> torch.dtype:
    name = expression.source(node).removeprefix("torch.")
    name = _ALIASES.get(name, name)
    if name not in _DTYPES:
        raise expression.error(node, f"expected one of {', '.join(_DTYPES)}; got {name}")
    return _DTYPES[name]


# ------------------------------------------------------------- shapes and numbers of the makers


def _sizes(expression: Expression, nodes: list[ast.expr]) -> Shape:
    """Return the shape of ``3, 4`` or ``(3, 4)``."""
    if len(nodes) == 1 and isinstance(nodes[0], (ast.Tuple, ast.List)):
        nodes = nodes[0].elts
    sizes = tuple(expression.integer(node) for node in nodes)
    for size, node in zip(sizes, nodes, strict=True):
        if size < 0:
            raise expression.error(node, f"expected a size, got {size}")
    return sizes


def _values(
    expression: Expression, call: ast.Call, usage: str, counts: tuple[int, ...]
) -> list[ast.expr]:
    """Return the values in the parentheses, if there are as many as expected."""
    if len(call.args) not in counts:
        raise expression.error(call, f"expected {usage}, got {len(call.args)} values")
    return call.args


def _sizes_alone(expression: Expression, call: ast.Call) -> tuple[Shape, Numbers]:
    name = expression.source(call.func)
    number: dict[str, int | float] = {"ones": 1, "zeros": 0, "empty": math.nan}
    return _sizes(expression, call.args), (number[name],) if name in number else ()


def _full(expression: Expression, call: ast.Call) -> tuple[Shape, Numbers]:
    shape, number = _values(expression, call, "full(shape, number)", (2,))
    return _sizes(expression, [shape]), (expression.number(number),)


def _eye(expression: Expression, call: ast.Call) -> tuple[Shape, Numbers]:
    values = _values(expression, call, "eye(rows) or eye(rows, columns)", (1, 2))
    rows, *columns = (_sizes(expression, [value]) for value in values)
    shape = rows + (columns[0] if columns else rows)
    if len(shape) != 2:
        raise expression.error(call, "expected eye(rows) or eye(rows, columns)")
    return shape, ()


def _arange(expression: Expression, call: ast.Call) -> tuple[Shape, Numbers]:
    usage = "arange(end), arange(begin, end) or arange(begin, end, step)"
    numbers = [expression.number(v) for v in _values(expression, call, usage, (1, 2, 3))]
    begin, end = (0, *numbers)[-2:] if len(numbers) < 3 else numbers[:2]
    step = numbers[2] if len(numbers) == 3 else 1
    if step == 0 or not all(map(math.isfinite, (begin, end, step))):
        raise expression.error(call, "expected finite numbers and a step that is not 0")
    return (max(0, math.ceil((end - begin) / step)),), (begin, step)


def _randint(expression: Expression, call: ast.Call) -> tuple[Shape, Numbers]:
    if len(call.args) < 3:
        raise expression.error(call, "expected randint(low, high, shape)")
    low, high = (expression.integer(node) for node in call.args[:2])
    if low >= high:
        raise expression.error(call, f"expected low < high, got {low} and {high}")
    return _sizes(expression, call.args[2:]), (low, high)


def _tensor(expression: Expression, call: ast.Call) -> tuple[Shape, Numbers]:
    (value,) = _values(expression, call, "tensor([numbers])", (1,))
    return _nested(expression, value)


def _nested(expression: Expression, node: ast.expr) -> tuple[Shape, Numbers]:
    """Return the shape and the numbers of lists in lists."""
    if not isinstance(node, (ast.List, ast.Tuple)):
        return (), (expression.number(node),)
    rows = [_nested(expression, element) for element in node.elts]
    shapes = {shape for shape, _ in rows}
    if len(shapes) > 1:
        raise expression.error(node, "expected rows of one length")
    numbers = tuple(number for _, row in rows for number in row)
    return (len(rows), *(shapes.pop() if shapes else ())), numbers


_PARTS: dict[str, Callable[[Expression, ast.Call], tuple[Shape, Numbers]]] = {
    "full": _full,
    "eye": _eye,
    "arange": _arange,
    "randint": _randint,
    "tensor": _tensor,
}
