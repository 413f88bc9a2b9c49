"""Write docs/api.md from the signatures and docstrings of the public API.

    PYTHONPATH=. python docs/write_api.py            # rewrite it
    PYTHONPATH=. python docs/write_api.py --check    # exit with 1 if that would change anything

Needs the built extension, no GPU.
"""

from __future__ import annotations

import argparse
import ast
import dataclasses
import inspect
import re
import textwrap
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch_smem_gemm as smem
from torch_smem_gemm import analysis, trace_report
from torch_smem_gemm.bench.report import write_or_check

DOCUMENT = Path(__file__).resolve().parent / "api.md"

# Title of a section -> names of ``smem``, in the order of the page.
SECTIONS = {
    "Ops": ("gemm", "linear", "transpose", "sum", "mean", "amax", "amin"),
    "Layers and models": ("Linear", "convert", "Converted", "revert"),
    "The same bits in every batch": (
        "batch_invariant",
        "check_batch_invariance",
        "InvarianceReport",
    ),
    "Which kernel runs": ("kernels", "KernelInfo", "plan", "Plan"),
    "What a kernel does": ("trace", "Trace"),
    "Kernels of your own": ("RawKernel", "CompileError", "KernelFault"),
}
# Classes that are not exported, but are what a Trace holds.
PARTS_OF_A_TRACE = ("Launch", "Line", "Fault", "Pipeline")
ELSEWHERE = ("__version__", "analysis")  # in the text below

INTRODUCTION = """# API

`docs/write_api.py` writes this page from the docstrings; do not edit it. The names are in
`torch_smem_gemm`, imported as `smem`:

```python
import torch
import torch_smem_gemm as smem
```

`smem.__version__` is the version, as text. The ops are also `torch.ops.smem.*`, the names that
graphs, profiles and dispatch modes show. Under these names they take choices as integers."""

# The examples in the docstrings of ``analysis`` name its functions alone.
ANALYSIS = """## smem.analysis

{doc}

```python
from torch_smem_gemm.analysis import *
```"""

LISTS = ("Args", "Attributes", "Raises")
HEADER = re.compile(rf"({'|'.join(LISTS)}|Returns|Shape):$")


def main(argv: Sequence[str] | None = None) -> int:
    """Rewrite or check the page; returns the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--check", action="store_true", help="only say if it is up to date")
    parser.add_argument("--document", type=Path, default=DOCUMENT)
    args = parser.parse_args(argv)

    return write_or_check(args.document, document(), "the API", check=args.check)


def document() -> str:
    """The whole page."""
    parts = [INTRODUCTION, contents()]
    for title, names in SECTIONS.items():
        parts.append(f"## {title}")
        parts += [entry(f"smem.{name}", getattr(smem, name)) for name in names]
        if "Trace" in names:
            parts += [entry(name, getattr(trace_report, name)) for name in PARTS_OF_A_TRACE]
    parts.append(ANALYSIS.format(doc=markdown(inspect.getdoc(analysis) or "")))
    parts += [entry(f"smem.analysis.{name}", getattr(analysis, name)) for name in analysis_names()]
    return "\n\n".join(parts) + "\n"


def contents() -> str:
    """Links to all entries, a line for each section."""
    shown = {*ELSEWHERE, *(name for names in SECTIONS.values() for name in names)}
    if shown != set(smem.__all__):
        raise ValueError(f"in SECTIONS or in __all__ alone: {shown ^ set(smem.__all__)}")
    lines = [
        f"- {title}: " + ", ".join(link(f"smem.{name}", getattr(smem, name)) for name in names)
        for title, names in SECTIONS.items()
    ]
    of_analysis = (
        link(f"smem.analysis.{name}", getattr(analysis, name), name) for name in analysis_names()
    )
    return "\n".join([*lines, f"- [smem.analysis](#smemanalysis): {', '.join(of_analysis)}"])


def analysis_names() -> list[str]:
    """The names of ``smem.analysis``: functions, what they return, tables."""

    def rank(name: str) -> int:
        value = getattr(analysis, name)
        return 0 if inspect.isfunction(value) else 1 if inspect.isclass(value) else 2

    return sorted(analysis.__all__, key=lambda name: (rank(name), name))


# ------------------------------------------------------------------------------------- an entry


def entry(name: str, value: Any) -> str:
    """The heading, signature and docstring of one name."""
    if inspect.isclass(value):
        return class_entry(name, value)
    heading = f"### {heading_of(name, value)}"
    if inspect.isfunction(value):
        return "\n\n".join([heading, code(signature(name, value)), markdown(doc_of(name, value))])
    kind = type(value[0])
    rows = ", ".join(row.name for row in value)
    return f"{heading}\n\nA tuple of {link(f'smem.analysis.{kind.__name__}', kind)}: {rows}."


def class_entry(name: str, value: type) -> str:
    """The same for a class: its fields or how it is made, its properties, its methods."""
    parts = [f"### {heading_of(name, value)}"]
    parts.append(code(fields(value) if dataclasses.is_dataclass(value) else made(name, value)))
    parts.append(markdown(doc_of(name, value)))
    # What a method of torch's is for, torch's documentation says.
    own = {
        key: member
        for key, member in vars(value).items()
        if key[0] != "_" and not any(hasattr(base, key) for base in value.__bases__)
    }
    properties = [
        f"- `{key}`: {inline(' '.join(doc_of(key, member).split()))}"
        for key, member in own.items()
        if isinstance(member, property)
    ]
    if properties:
        parts.append("Properties:\n\n" + "\n".join(properties))
    for key, member in own.items():
        if inspect.isfunction(member):
            label = f"{value.__name__}.{key}"
            parts += [f"#### {label}", code(signature(label, member))]
            parts.append(markdown(doc_of(label, member)))
    return "\n\n".join(parts)


def doc_of(name: str, value: Any) -> str:
    """The docstring, which everything public has to have."""
    doc = inspect.getdoc(value)
    if not doc:
        raise ValueError(f"{name} has no docstring")
    return doc


def code(text: str) -> str:
    """A block that is not run: ``py`` is coloured as ``python`` is, and the tests run that."""
    return f"```py\n{text}\n```"


def signature(name: str, function: Callable[..., Any]) -> str:
    """``name(argument: type = default, ...) -> type``, an argument a line where it is long."""
    found = inspect.signature(function)
    given = [
        parameter.replace(annotation=Written(parameter.annotation))
        if parameter.annotation is not parameter.empty
        else parameter
        for parameter in found.parameters.values()
        if parameter.name != "self"
    ]
    returns = found.return_annotation
    result = "" if returns is found.empty else f" -> {Written(returns)!r}"
    arguments = [str(parameter) for parameter in given]
    kinds = [parameter.kind for parameter in given]
    if inspect.Parameter.KEYWORD_ONLY in kinds and inspect.Parameter.VAR_POSITIONAL not in kinds:
        arguments.insert(kinds.index(inspect.Parameter.KEYWORD_ONLY), "*")
    line = f"{name}({', '.join(arguments)}){result}"
    if len(line) <= 88:
        return line
    return "\n".join([f"{name}(", *(f"    {argument}," for argument in arguments), f"){result}"])


class Written:
    """An annotation as people write it: a string as it is, names without their modules."""

    def __init__(self, annotation: Any) -> None:
        text = annotation
        if not isinstance(annotation, str):
            text = inspect.formatannotation(annotation)
        text = re.sub(r"\b(?:collections\.abc|typing|torch_smem_gemm[\w.]*)\.", "", text)
        self.text = text.replace("torch.Tensor", "Tensor").replace("nn.modules.linear.", "nn.")

    def __repr__(self) -> str:
        return self.text


def made(name: str, value: type) -> str:
    """How an object of a class is made, and what the class derives from."""
    bases = ", ".join(str(Written(inspect.formatannotation(base))) for base in value.__bases__)
    base = f"  # a {bases}" if bases != "object" else ""
    if "__init__" in vars(value) and len(inspect.signature(value).parameters):
        first, _, rest = signature(name, vars(value)["__init__"]).partition("\n")
        return f"{first}{base}\n{rest.removesuffix(' -> None')}"
    return f"class {name}{base}"


def fields(value: type) -> str:
    """The fields of a dataclass, with the comments that stand beside them."""
    source = textwrap.dedent(inspect.getsource(value))
    (node,) = ast.parse(source).body
    assert isinstance(node, ast.ClassDef)
    of_fields = [statement for statement in node.body if isinstance(statement, ast.AnnAssign)]
    first, last = of_fields[0].lineno, of_fields[-1].end_lineno
    lines = source.splitlines()[first - 1 : last]
    return "\n".join([f"class {value.__name__}:", *map(without_field, lines)])


def without_field(line: str) -> str:
    """A line without dataclasses.field: its default alone."""
    line = re.sub(r" = field\(default=(\(\)|\w+).*?\)$", r" = \1", line)
    return re.sub(r" = field\(.*?\)$", "", line)


# ------------------------------------------------------------------------------------- Markdown


def heading_of(name: str, value: Any) -> str:
    """The text of an entry's heading: distinct, too, where names differ by case alone."""
    return f"class {name}" if inspect.isclass(value) else name


def link(name: str, value: Any, text: str = "") -> str:
    """A link to an entry, by the anchor that GitHub makes of its heading."""
    anchor = re.sub(r"[^\w -]", "", heading_of(name, value).lower()).replace(" ", "-")
    return f"[`{text or name}`](#{anchor})"


def markdown(doc: str) -> str:
    """A docstring as Markdown: sections as lists, examples as blocks that the tests run."""
    return "\n\n".join(map(block, blocks(doc)))


def blocks(doc: str) -> Iterator[list[str]]:
    """The lines of each paragraph, example or section."""
    lines: list[str] = []
    for line in [*doc.splitlines(), ""]:
        section = bool(lines) and bool(HEADER.match(lines[0]))
        ends = not line.strip() or HEADER.match(line) or (section and not line.startswith(" "))
        if lines and ends:
            yield lines
            lines = []
        if line.strip():
            lines.append(line)


def block(lines: list[str]) -> str:
    """One of them as Markdown."""
    if lines[0].startswith(">>>"):
        return "\n".join(["```pycon", *lines, "```"])
    header = HEADER.match(lines[0])
    if header is None:
        return "\n".join(map(inline, lines))
    body = textwrap.dedent("\n".join(lines[1:])).splitlines()
    if header[1] not in LISTS:
        return f"{header[1]}: " + "\n".join(map(inline, body))
    items: list[str] = []
    for line in body:
        if line.startswith(" "):
            items[-1] += f"\n  {inline(line.strip())}"
            continue
        named = re.match(r"([\w.]+(?:, [\w.]+)*): (.*)", line)
        names = ", ".join(f"`{name}`" for name in named[1].split(", ")) if named else ""
        items.append(f"- {names}: {inline(named[2])}" if named else f"- {inline(line)}")
    return f"{header[1]}:\n\n" + "\n".join(items)


def inline(text: str) -> str:
    """A line's references as links or code, its code in single backticks, signs of Markdown kept.

    Code that goes on in the next line stays as it is: docstrings have none.
    """

    def written(piece: re.Match[str]) -> str:
        if piece["code"]:
            return f"`{piece['code']}`"
        if piece["target"]:
            return reference(piece["target"])
        return "".join(f"\\{sign}" for sign in piece[0])

    pattern = r"``(?P<code>[^`]+)``|:\w+:`(?P<target>[^`]+)`|[*<]|__"
    return re.sub(pattern, written, text)


def reference(target: str) -> str:
    """What a role such as ``:func:`` names: a link if it is on this page."""
    name = target.removeprefix("torch_smem_gemm.")
    for module, label in ((smem, f"smem.{name}"), (analysis, f"smem.analysis.{name}")):
        if name in module.__all__:
            return link(label, getattr(module, name))
    if name in PARTS_OF_A_TRACE:
        return link(name, getattr(trace_report, name))
    return f"`{target}`"


if __name__ == "__main__":
    raise SystemExit(main())
