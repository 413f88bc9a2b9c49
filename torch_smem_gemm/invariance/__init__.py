"""Whether a model gives a row of a batch the same bits alone and among others, and why not."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree

from torch_smem_gemm.invariance.record import Alone, InBatch, Output, Results, Step
from torch_smem_gemm.invariance.report import Cause, Difference, Finding, InvarianceReport
from torch_smem_gemm.invariance.rows import batch_of, batch_size_of, checksum, part_of
from torch_smem_gemm.split_cache import release

__all__ = ["Cause", "Difference", "Finding", "InvarianceReport", "check_batch_invariance"]

_NAME = "smem.check_batch_invariance"


def check_batch_invariance(
    model: torch.nn.Module,
    inputs: Any,
    batch_sizes: Sequence[int] = (1, 2, 7, 32),
    *,
    generate: int | Mapping[str, Any] | None = None,
) -> InvarianceReport:
    """Compare the first row of ``inputs`` alone with the same row in batches, bit by bit.

    In each batch the row is first, then last; the other rows of ``inputs`` are repeated around it.
    A batch of 1 is a second run of the row alone: it differs if the model is not deterministic.
    Where the results differ, further runs find the first operator whose result for the row differs
    although its inputs for that row have the same bits. A tensor's part for a row is found if the
    batch is one dimension of it, or the outer part of one.

    The model runs in eval mode and without gradients; its modes are restored.

    Args:
        model: any module. Its submodules' names appear in the report.
        inputs: a tensor, a tuple of positional or a mapping of keyword arguments of the model. Its
            tensors have the batch as their first dimension. Rows that differ make a better test.
        batch_sizes: the numbers of rows.
        generate: how many tokens ``model.generate`` of a Hugging Face model adds to ``inputs``, or
            its keyword arguments; tokens and logits are compared. None calls the model itself.

    Returns:
        A report, which is true if all bits are the same. ``print`` shows it as a table.

    Raises:
        TypeError: ``model`` is not a torch.nn.Module, or a batch size is not an integer.
        ValueError: ``inputs`` have no common batch dimension, a batch size is less than 1, or no
            output of the model has the batch as a dimension.
    """
    if not isinstance(model, torch.nn.Module):
        raise TypeError(f"{_NAME}: model is {type(model).__name__}, expected a torch.nn.Module")
    if not isinstance(batch_sizes, Sequence):
        raise TypeError(f"{_NAME}: batch_sizes is {batch_sizes!r}, expected a sequence of integers")
    if not batch_sizes:
        raise ValueError(f"{_NAME}: batch_sizes is empty, expected numbers of rows")
    for size in batch_sizes:
        if not isinstance(size, int):
            raise TypeError(f"{_NAME}: batch_sizes holds {size!r}, expected integers")
        if size < 1:
            raise ValueError(f"{_NAME}: batch_sizes holds {size}, expected 1 or more")
    batch_size_of(inputs)
    checker = _Checker(model, inputs, generate)
    with _in_eval_mode(model), torch.no_grad():
        return InvarianceReport(
            tuple(
                checker.compare(size, position)
                for size in batch_sizes
                for position in sorted({0, size - 1})
            )
        )


class _Checker:
    """A model, the results of its row alone, and, if they are needed, the steps of that run."""

    def __init__(
        self, model: torch.nn.Module, inputs: Any, generate: int | Mapping[str, Any] | None
    ) -> None:
        self.model, self.inputs, self.generate = model, inputs, generate
        self._results: list[Tensor] | None = None
        self._steps: dict[Step, Results] | None = None

    def compare(self, size: int, position: int) -> Finding:
        """Compare the row alone with the row at ``position`` of a batch."""
        if self._results is None:
            self._results = self._run(1, 0)
        difference, compared = None, 0
        for alone, result in zip(self._results, self._run(size, position), strict=False):
            depends_on_batch = size == 1 or result.shape != alone.shape
            part = part_of(result, tuple(alone.shape), size, position)
            if part is None or not depends_on_batch:
                continue
            compared += 1
            difference = difference or _difference(alone, part)
        if not compared:
            raise ValueError(
                f"{_NAME}: no output of the model grows with the batch in one dimension"
            )
        cause = self._cause(size, position) if difference else None
        return Finding(size, position, difference, cause)

    def _run(self, size: int, position: int) -> list[Tensor]:
        result = _call(self.model, batch_of(self.inputs, size, position), self.generate)
        return [leaf for leaf in _pytree.tree_leaves(result) if isinstance(leaf, Tensor)]

    def _cause(self, size: int, position: int) -> Cause | None:
        if self._steps is None:
            alone = Alone(self.model)
            with alone.watching(self.model):
                self._run(1, 0)
            self._steps = alone.steps
        batch = InBatch(self.model, self._steps, size, position)
        with batch.watching(self.model):
            self._run(size, position)
        if batch.culprit is None:
            step = batch.unpaired
            return None if step is None else Cause(step.module, step.operator, None)
        values = self._values(batch.culprit, batch.output, size, position)
        return Cause(
            batch.culprit.module,
            batch.culprit.operator,
            values and _difference(*values),
            batch.has_other_tensors,
        )

    def _values(
        self, step: Step, index: int, size: int, position: int
    ) -> tuple[Tensor, Tensor] | None:
        """Return a result of a step, of the row alone and of the row in the batch, by more runs."""
        found = []
        for n, p in ((1, 0), (size, position)):
            output = Output(self.model, step, index)
            with output.watching(self.model):
                self._run(n, p)
            found.append(output.found)
        alone, whole = found
        if alone is None or whole is None:
            return None
        part = part_of(whole, tuple(alone.shape), size, position)
        return None if part is None else (alone, part)


def _call(model: torch.nn.Module, inputs: Any, generate: int | Mapping[str, Any] | None) -> Any:
    kwargs = dict(inputs) if isinstance(inputs, Mapping) else {}
    args: Sequence[Any] = inputs if isinstance(inputs, (tuple, list)) else (inputs,)
    args = () if kwargs else args
    if generate is None:
        return model(*args, **kwargs)
    if isinstance(generate, int):
        # As many tokens for each row, whether or not one of them ends the text.
        generate = {"max_new_tokens": generate, "min_new_tokens": generate}
    options = {"do_sample": False, **generate}
    options |= {"return_dict_in_generate": True, "output_logits": True}
    made = model.generate(*args, **kwargs, **options)  # type: ignore[operator]
    return made.sequences, torch.stack(made.logits, dim=1)


def _difference(a: Tensor, b: Tensor) -> Difference | None:
    """Return how two tensors of the same shape differ; None if they have the same bits."""
    if a.dtype == b.dtype and checksum(a) == checksum(b):
        return None
    wide = torch.complex128 if a.is_complex() else torch.float64
    a, b = a.to(wide), b.to(wide)
    differ = (a != b) & ~(a.isnan() & b.isnan())
    largest = float((a - b).abs()[differ].max()) if differ.any() else 0.0
    return Difference(tuple(a.shape), int(differ.sum()), largest)


@contextlib.contextmanager
def _in_eval_mode(model: torch.nn.Module) -> Iterator[None]:
    modes = {module: module.training for module in model.modules()}
    model.eval()
    try:
        yield
    finally:
        for module, training in modes.items():
            module.training = training
            if training:
                release(module)
