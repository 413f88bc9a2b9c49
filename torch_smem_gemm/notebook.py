"""The magic ``%%smem_trace`` of notebooks: a cell of CUDA, compiled, run and traced on the CPU."""

from __future__ import annotations

import argparse
import contextlib
import io
import shlex
from html import escape
from typing import TYPE_CHECKING, Any, NoReturn

from IPython.core.error import UsageError
from IPython.display import display

from torch_smem_gemm.cli._trace_options import add_options
from torch_smem_gemm.cli._trace_run import Run, RunError, run
from torch_smem_gemm.cli._worst_lines import worst_lines

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

MAGIC, RESULT = "smem_trace", "_smem"


class _Parser(argparse.ArgumentParser):
    """A parser whose errors end the cell, not the process."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"%%{MAGIC}: {message}")


def register(shell: InteractiveShell) -> None:
    """Define ``%%smem_trace`` in a shell.

    It takes the options of ``python -m torch_smem_gemm trace``, and ``--arg`` may also name a
    variable. The cell is the source. The Trace is in ``_smem`` afterwards.
    """

    def smem_trace(line: str, cell: str) -> None:
        options = _parse(line)
        if options is None:
            return
        try:
            done = run(cell, options, shell.user_ns)
        except RunError as error:
            raise UsageError(f"%%{MAGIC}: {error}") from None
        shell.user_ns[RESULT] = done.trace
        display(_bundle(done), raw=True)

    smem_trace.__doc__ = f"{register.__doc__}\n\n{_parser().format_help()}"
    shell.register_magic_function(  # type: ignore[call-arg]
        smem_trace,  # type: ignore[arg-type]
        magic_kind="cell",
        magic_name=MAGIC,
    )


def _parser() -> _Parser:
    parser = _Parser(
        prog=f"%%{MAGIC}", description="Compile the cell, run its kernel and trace it on the CPU."
    )
    add_options(parser, variables=True)
    return parser


def _parse(line: str) -> argparse.Namespace | None:
    """Return the options of a cell; None after the help was shown."""
    try:
        return _parser().parse_args(shlex.split(line))
    except ValueError as error:  # a quotation that does not end
        raise UsageError(f"%%{MAGIC}: {error}") from None
    except SystemExit:
        return None


def _bundle(done: Run) -> dict[str, Any]:
    """Return a run for a notebook and for a terminal."""
    text = io.StringIO()
    with contextlib.redirect_stdout(text):
        done.show()
    findings = "\n".join([*worst_lines(done.trace), *map(str, done.comparisons)])
    html = f"{done.trace._repr_html_()}<pre style='white-space: pre-wrap'>{escape(findings)}</pre>"
    return {"text/plain": text.getvalue(), "text/html": html}
