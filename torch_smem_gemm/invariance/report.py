"""What check_batch_invariance found, as a table for terminals and notebooks."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape

from torch_smem_gemm.cli._text import plain_table

_PRODUCTS = ("mm", "addmm", "bmm", "baddbmm", "matmul", "linear", "mv", "addmv", "dot", "einsum")
_ATTENTION = ("scaled_dot_product", "flash_attention", "efficient_attention", "cudnn_attention")
_REDUCTIONS = ("sum", "mean", "amax", "amin")


@dataclass(frozen=True)
class Difference:
    """How two tensors that should have the same bits differ."""

    shape: tuple[int, ...]
    elements: int  # that differ
    largest: float  # absolute difference; nan where one of two elements is not a number

    def __str__(self) -> str:
        count = 1
        for size in self.shape:
            count *= size
        return f"{self.elements:,} of {count:,}, by up to {self.largest:.3g}"


@dataclass(frozen=True)
class Cause:
    """The first operator whose result for the row differs though its inputs for it do not.

    Attributes:
        module: the name of the module that calls it, as in ``model.named_modules()``.
        operator: for example "aten.addmm.default".
        difference: of the operator's results. None: no such operator was found, and this is the
            first that only the batch calls, not the row alone.
        has_other_tensors: it gets more or fewer tensors than for the row alone, a mask for example.
    """

    module: str
    operator: str
    difference: Difference | None
    has_other_tensors: bool = False

    @property
    def advice(self) -> str:
        """What to do about it."""
        name = self.operator.split(".")[1] if "." in self.operator else self.operator
        if self.difference is None:
            return "only the batch calls it: the model does something else for a row alone"
        if self.has_other_tensors:
            return "it gets other tensors than for a row alone: a mask, for example"
        if self.operator.startswith("smem."):
            return "this is an error of torch_smem_gemm: please report it"
        if name in _PRODUCTS:
            return "smem.convert(model) replaces torch.nn.Linear, and smem.gemm(a, b) a @ b"
        if any(part in name for part in _ATTENTION):
            return "try another backend of attention: torch.nn.attention.sdpa_kernel"
        if name in _REDUCTIONS:
            return f"call smem.{name} instead"
        return "the operator adds in another order for this batch size"


@dataclass(frozen=True)
class Finding:
    """One batch, compared with its first row alone.

    Attributes:
        batch_size: the number of rows.
        position: the row's place in the batch.
        difference: of the model's first output that differs; None if all bits are the same.
        cause: None if all bits are the same, or if no single operator could be found.
    """

    batch_size: int
    position: int
    difference: Difference | None
    cause: Cause | None


@dataclass(frozen=True)
class InvarianceReport:
    """The findings of :func:`check_batch_invariance`, one per batch size and position."""

    findings: tuple[Finding, ...]

    @property
    def holds(self) -> bool:
        """Whether the row has the same bits in every batch."""
        return all(finding.difference is None for finding in self.findings)

    def __bool__(self) -> bool:
        return self.holds

    def __str__(self) -> str:
        return "\n".join([plain_table(self._title(), _HEADS, self._rows()), *self._advice()])

    def _repr_html_(self) -> str:
        heads = "".join(f"<th>{escape(head.removeprefix('>'))}</th>" for head in _HEADS)
        rows = "".join(
            f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>"
            for row in self._rows()
        )
        advice = "".join(f"<p>{escape(line)}</p>" for line in self._advice())
        title = f"<caption>{escape(self._title())}</caption>"
        return f"<table>{title}<tr>{heads}</tr>{rows}</table>{advice}"

    def _title(self) -> str:
        if self.holds:
            return "The row has the same bits alone and in every batch."
        return "The row's bits depend on the batch."

    def _rows(self) -> list[list[str]]:
        return [
            [
                str(finding.batch_size),
                str(finding.position),
                "same bits" if finding.difference is None else str(finding.difference),
                *_cause_cells(finding),
            ]
            for finding in self.findings
        ]

    def _advice(self) -> list[str]:
        """Return a line for each cause."""
        causes = {
            (finding.cause.module, finding.cause.operator): finding.cause.advice
            for finding in self.findings
            if finding.cause
        }
        return [
            f"{operator} in {module or 'the model itself'}: {advice}"
            for (module, operator), advice in causes.items()
        ]


_HEADS = (">batch", ">row", "elements that differ", "first in module", "operator", "its elements")


def _cause_cells(finding: Finding) -> list[str]:
    if finding.cause is None:
        unknown = "no single operator was found" if finding.difference else ""
        return [unknown, "", ""]
    cause = finding.cause
    return [
        cause.module or "(the model itself)",
        cause.operator,
        str(cause.difference) if cause.difference else "",
    ]
