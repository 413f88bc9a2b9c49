"""The expressions of ``trace``'s options: parsed by Python's grammar, never run by Python."""

from __future__ import annotations

import ast
import keyword
import operator
import re
import warnings
from collections.abc import Callable

MAX_LENGTH, MAX_DEPTH = 10_000, 100
SHOWN = 120  # characters of a long expression in a message
_LARGEST = 2**63
_OPERATORS: dict[type[ast.AST], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
}


# Words of Python that C++ takes as names of parameters: `in`, `lambda`.
_WORDS = {"and", "or", "not", "if", "else", "True", "False", "None"}
_NAMES = re.compile(rf"\b(?:{'|'.join(set(keyword.kwlist) - _WORDS)})\b")


class ExpressionError(ValueError):
    """What is wrong with an expression; the message has the text and a caret under the place."""

    def __init__(self, problem: str, text: str, position: int) -> None:
        first = max(0, position - SHOWN // 2)
        shown = text[first : first + SHOWN]
        super().__init__(f"{problem}\n  {shown}\n  {' ' * (position - first)}^")
        self.problem = problem


class Expression:
    """A text and its syntax tree; a name is what :meth:`source` says of its node."""

    def __init__(self, text: str, begin: int = 0) -> None:
        """Parse ``text`` from the position ``begin`` on.

        Raises ExpressionError if that is not one expression.
        """
        # One line that can be printed, every character in its place.
        self.text = re.sub(r"\s", " ", text).encode(errors="replace").decode()
        self.begin = len(self.text) - len(self.text[begin:].lstrip())
        self.tree = self._parse()

    def error(self, node: ast.AST | None, problem: str) -> ExpressionError:
        """Return the error whose caret is under ``node``, or under the begin."""
        before = self._bytes()[: getattr(node, "col_offset", 0)].decode()
        return ExpressionError(problem, self.text, self.begin + len(before))

    def source(self, node: ast.AST) -> str:
        """Return the text of a node."""
        content = self._bytes()
        begin, end = getattr(node, "col_offset", 0), getattr(node, "end_col_offset", len(content))
        return content[begin:end].decode()

    def number(self, node: ast.AST) -> int | float:
        """Return the number that a node stands for: a literal, or sums and products of them."""
        value: int | float | None = None
        if isinstance(node, ast.Constant) and isinstance(node.value, (int, float)):
            value = int(node.value) if isinstance(node.value, bool) else node.value
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.USub, ast.UAdd)):
            operand = self.number(node.operand)
            value = -operand if isinstance(node.op, ast.USub) else operand
        elif isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
            value = _OPERATORS[type(node.op)](self.number(node.left), self.number(node.right))
        elif isinstance(node, ast.Name) and node.id in ("inf", "nan"):
            value = float(node.id)
        if value is None:
            raise self.error(node, f"expected a number, got {self.source(node)}")
        if isinstance(value, int) and not -_LARGEST <= value < 2 * _LARGEST:
            raise self.error(node, "the number has more than 64 bits")
        return value

    def integer(self, node: ast.AST) -> int:
        """Return the integer that a node stands for."""
        value = self.number(node)
        if not isinstance(value, int):
            raise self.error(node, f"expected an integer, got {self.source(node)}")
        return value

    def _bytes(self) -> bytes:
        """Return what the tree's columns count."""
        return self.text[self.begin :].encode()

    def _parse(self) -> ast.expr:
        expression = self.text[self.begin :]
        if not expression:
            raise ExpressionError("expected an expression, got nothing", self.text, self.begin)
        if len(expression) > MAX_LENGTH:
            raise self.error(None, f"expected at most {MAX_LENGTH:,} characters")
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # "invalid decimal literal"
                readable = _NAMES.sub(lambda match: "x" * len(match[0]), expression)
                tree = ast.parse(readable, mode="eval").body
        except SyntaxError as error:
            # The first column is 1, and 0 stands for an unknown one.
            column = min(max(0, (error.offset or 1) - 1), len(expression))
            problem = f"cannot read this: {error.msg}"
            raise ExpressionError(problem, self.text, self.begin + column) from None
        except (ValueError, MemoryError, RecursionError) as error:
            why = str(error).partition(":")[0] or "it is too deep"
            raise self.error(None, f"cannot read this: {why}") from None
        level: list[ast.AST] = [tree]
        for _ in range(MAX_DEPTH):
            level = [child for node in level for child in ast.iter_child_nodes(node)]
            if not level:
                return tree
        raise self.error(None, f"expected at most {MAX_DEPTH} levels")
