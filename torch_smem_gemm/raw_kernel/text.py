"""C++ source as text: what is a comment or a string, where brackets close, what is defined."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

# What a rule must not look into: comments, strings, characters. (Raw strings with a delimiter are
# rare in kernels.)
_OPAQUE = re.compile(
    r"""//[^\n]*(?:\\\n[^\n]*)*|/\*.*?\*/|R"\(.*?\)"|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])+'""",
    re.DOTALL,
)


# alignas(2 * sizeof(T)), __align__(16), __attribute__((aligned(16)))
_ATTRIBUTE = re.compile(r"\b(?:__\w+__|alignas)\s*\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)")


_CONDITION_IN_HEAD = re.compile(r"\s*template\b[^;{}#]*#[ \t]*(?:if|el|endif)")


def mask(text: str) -> str:
    """Return the text with comments, strings and characters blanked, at the same positions."""
    return _OPAQUE.sub(lambda match: blank(match[0]), text)


def blank(text: str) -> str:
    """Return spaces in place of the text, with its line breaks."""
    return re.sub(r"[^\n]", " ", text)


def line_of(text: str, position: int) -> int:
    """Return the number of a position's line."""
    return text.count("\n", 0, position) + 1


@dataclass(frozen=True)
class Declaration:
    """A declaration at namespace scope, of a function with its body for example."""

    start: int
    end: int
    head: str  # before the body or the semicolon
    has_body: bool

    @property
    def is_type(self) -> bool:
        """Whether a class, a union or an enumeration is defined."""
        without_attributes = _ATTRIBUTE.sub("", self.head)
        is_class = re.search(r"\b(?:struct|class|union|enum)\b", self.head)
        return self.has_body and bool(is_class) and "(" not in without_attributes

    @property
    def is_function(self) -> bool:
        """Whether a function is defined."""
        initialised = re.search(r"=\s*$|\[[^\]]*\]\s*\([^()]*\)\s*$", self.head)
        return self.has_body and not self.is_type and "(" in self.head and not initialised

    @property
    def name(self) -> str:
        """What is declared."""
        if self.is_function or self.head.rstrip().endswith(")"):
            before = re.sub(r"<[^()]*>\s*$", "", self.head[: _opening_parenthesis(self.head)])
        else:
            before = re.split(r"[=\[]|\b:\s", self.head)[0]
        names = re.findall(r"\w+", before)
        return names[-1] if names else ""


def declarations(masked: str) -> Iterator[Declaration]:
    """Yield the declarations at namespace scope, in order."""
    position = start = 0
    while position < len(masked):
        character = masked[position]
        if character == "#" and not masked[masked.rfind("\n", 0, position) + 1 : position].strip():
            # Attributes may depend on the compiler: template <class T> #if ... __device__ #endif
            # So may parameters: void f(int x #ifdef ... , int y #endif ) {
            opened = masked.count("(", start, position) - masked.count(")", start, position)
            is_head = opened > 0 or _CONDITION_IN_HEAD.match(masked, start)
            position = end_of_directive(masked, position)
            if not is_head:
                start = position
        elif character == ";":
            yield Declaration(start, position + 1, masked[start:position], False)
            position = start = position + 1
        elif character == "}":
            position = start = position + 1
        elif character == "{":
            head = masked[start:position]
            if _opens_scope(head):  # what is inside is looked at as well
                position = start = position + 1
                continue
            end = closing_bracket(masked, position)
            found = Declaration(start, end, head, True)
            yield found
            position = end
            if found.is_function:
                start = position
        else:
            position += 1


def _opens_scope(head: str) -> bool:
    return bool(re.search(r"\bnamespace\b[\w\s:]*$", head) or re.search(r"\bextern\s*$", head))


def end_of_directive(masked: str, position: int) -> int:
    """Return where the preprocessor's directive at ``position`` ends."""
    while True:
        end = masked.find("\n", position)
        if end < 0:
            return len(masked)
        # GCC and nvcc take a backslash for the end of a line though spaces follow it.
        if not masked[position:end].rstrip().endswith("\\"):
            return end + 1
        position = end + 1


_CLOSING = {"(": ")", "{": "}"}


def closing_bracket(masked: str, position: int) -> int:
    """Return the position after the bracket that closes the one at ``position``."""
    opening = masked[position]
    closing, depth = _CLOSING[opening], 0
    for i in range(position, len(masked)):
        depth += {opening: 1, closing: -1}.get(masked[i], 0)
        if depth == 0:
            return i + 1
    return len(masked)


def _opening_parenthesis(head: str) -> int:
    """Return where a function's parameters begin."""
    depth = 0
    for i in range(head.rfind(")"), -1, -1):
        depth += {")": 1, "(": -1}.get(head[i], 0)
        if depth == 0:
            return i
    return len(head)


def split(masked: str, separator: str = ",") -> list[str]:
    """Split at the separators that are in no bracket."""
    parts, depth = [""], 0
    for character in masked:
        depth += {"(": 1, "<": 1, "[": 1, "{": 1, ")": -1, ">": -1, "]": -1, "}": -1}.get(
            character, 0
        )
        if character == separator and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return parts
