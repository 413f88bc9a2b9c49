"""One run of ``trace``, the command, or of the magic ``%%smem_trace``."""

from __future__ import annotations

import argparse
import contextlib
import copy
import json
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from torch_smem_gemm.analysis import Device
from torch_smem_gemm.cli._explain_kernel import judge
from torch_smem_gemm.cli._explain_text import show
from torch_smem_gemm.cli._files import check_writable
from torch_smem_gemm.cli._text import output_width
from torch_smem_gemm.cli._trace_arguments import Argument
from torch_smem_gemm.cli._trace_check import Check, Comparison
from torch_smem_gemm.cli._trace_expression import ExpressionError
from torch_smem_gemm.cli._worst_lines import worst_lines
from torch_smem_gemm.raw_kernel import RawKernel
from torch_smem_gemm.raw_kernel.arguments import Parameter, convert
from torch_smem_gemm.raw_kernel.errors import KernelNameError
from torch_smem_gemm.raw_kernel.kernel import MAX_STEPS
from torch_smem_gemm.raw_kernel.source import kernel_names
from torch_smem_gemm.trace_report import Trace


class RunError(Exception):
    """Why a kernel was not run: wrong options (status 2), or it does not compile here (1)."""

    def __init__(self, message: str, status: int = 2) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True)
class Run:
    """A trace, and the comparisons of its checks."""

    trace: Trace
    comparisons: list[Comparison]
    device: Device

    @property
    def is_right(self) -> bool:
        """Whether there is no fault and all checks hold."""
        return not self.trace.faults and not any(one.wrong for one in self.comparisons)

    @property
    def title(self) -> str:
        """The name of the file."""
        return Path(next(iter(self.trace.sources))).name

    def show(self) -> None:
        """Print everything."""
        show(judge(self.trace, self.device), self.title)
        print()
        for sentence in worst_lines(self.trace):
            print(textwrap.fill(sentence, output_width()), end="\n\n")
        for comparison in self.comparisons:
            print(comparison)

    def to_dict(self) -> dict[str, Any]:
        """Return everything as JSON can hold it."""
        checks = [
            {"check": one.text, "elements": one.elements, "wrong": one.wrong}
            for one in self.comparisons
        ]
        explained = judge(self.trace, self.device).to_dict()
        return {"problem": self.title, **explained, "checks": checks}


def run(
    source: str | Path,
    options: argparse.Namespace,
    variables: Mapping[str, Any],
    *,
    max_steps: int = MAX_STEPS,
) -> Run:
    """Compile a kernel, run it, check its results, and write the files that the options name.

    Args:
        source: a text, or a file.
        options: those of _trace_options.
        variables: the values that ``--arg`` may name.
        max_steps: those of one thread, as RawKernel counts them.

    Raises RunError.
    """
    for path in filter(None, (options.html, options.json)):
        try:
            check_writable(path)
        except OSError as error:
            raise RunError(str(error)) from None
    text = source if isinstance(source, str) else _read(source)
    with _one_line():
        kernel = RawKernel(source, options.kernel or _only(text), options=_flags(options))
        parameters = _parameters(kernel)
        if len(options.arg) != len(parameters):
            convert(kernel.name, parameters, options.arg)  # raises an error that lists them
        values = _values(options.arg, parameters, variables, options.seed)
        before = _copies(options.check, values)
        _compare(options.check, values, before)  # finds what is wrong with them
        trace = kernel.trace(
            options.grid,
            options.block,
            list(values.values()),
            shared_mem=options.shared_mem,
            blocks=options.blocks,
            max_accesses=options.max_accesses,
            max_steps=max_steps,
        )
        done = Run(trace, _compare(options.check, values, before), options.device)
    if options.html:
        trace.to_html(options.html, device=options.device.name)
    if options.json:
        options.json.write_text(
            json.dumps(done.to_dict(), indent=1, allow_nan=False), encoding="utf-8"
        )
    return done


@contextlib.contextmanager
def _one_line() -> Iterator[None]:
    """Turn the errors of RawKernel into RunError."""
    try:
        yield
    except (OSError, RuntimeError, TypeError, ValueError) as error:
        if not str(error).startswith("smem.RawKernel"):
            raise
        status = 2 if isinstance(error, (TypeError, ValueError)) else 1
        raise RunError(str(error), status) from None


@contextlib.contextmanager
def _option(name: str) -> Iterator[None]:
    """Turn an error of an option's expression into RunError."""
    try:
        yield
    except ExpressionError as error:
        raise RunError(f"argument {name}: {error}") from None


def _read(path: Path) -> str:
    try:
        # Comments may be in any encoding.
        text = path.read_text(encoding="utf-8-sig", errors="replace")
    except OSError as error:
        raise RunError(f"{path}: {error.strerror}") from None
    if "\0" in text:
        raise RunError(f"{path} is not a text in UTF-8")
    return text


def _only(text: str) -> str:
    names = kernel_names(text)
    if len(names) != 1:
        raise RunError(f"--kernel is missing; {_there_are(names)}")
    return names[0]


def _there_are(names: Sequence[str]) -> str:
    return f"there are: {', '.join(names)}" if names else "there is no __global__ function"


def _flags(options: argparse.Namespace) -> list[str]:
    for folder in options.folders:
        if not Path(folder).is_dir():
            raise RunError(f"-I: {folder} is not a folder")
    folders = [f"-I{Path(folder).resolve()}" for folder in options.folders]
    return [*(f"-D{macro}" for macro in options.macros), *folders]


def _parameters(kernel: RawKernel) -> list[Parameter]:
    try:
        return kernel.compile().parameters
    except KernelNameError as error:
        raise RunError(str(error)) from None


def _values(
    arguments: Sequence[Argument],
    parameters: Sequence[Parameter],
    variables: Mapping[str, Any],
    seed: int,
) -> dict[str, Any]:
    """Return the arguments of the kernel by their names in checks."""
    random = torch.Generator().manual_seed(seed)
    values: dict[str, Any] = {}
    with _option("--arg"):
        for argument, parameter in zip(arguments, parameters, strict=True):
            name = argument.name or parameter.name or f"arg{parameter.position}"
            others = {p.name for p in parameters if p != parameter}
            if argument.name and (name in others or name in values):
                raise argument.expression.error(
                    None, f"{name} is another argument: arguments come in the kernel's order"
                )
            values[name] = argument.make(parameter, variables, random)
    return values


def _copies(checks: Sequence[Check], values: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the arguments as they are now, copied if a check will ask for them."""
    if not any(check.reads_before for check in checks):
        return values
    return {name: copy.deepcopy(value) for name, value in values.items()}


def _compare(
    checks: Sequence[Check], after: Mapping[str, Any], before: Mapping[str, Any]
) -> list[Comparison]:
    with _option("--check"):
        return [found for check in checks for found in check.compare(after, before)]
