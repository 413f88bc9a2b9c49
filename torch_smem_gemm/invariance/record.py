"""What each operator of a run reads and writes, as checksums, and the module that calls it."""

from __future__ import annotations

import collections
import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree
from torch.utils._python_dispatch import TorchDispatchMode

from torch_smem_gemm.invariance.rows import checksum, part_of


@dataclass(frozen=True)
class Value:
    """A tensor of a run of one row alone."""

    shape: tuple[int, ...]
    dtype: torch.dtype
    checksum: int


@dataclass(frozen=True)
class Step:
    """A call of an operator: its name, the module that calls it, and how many came before."""

    module: str
    operator: str
    number: int


@dataclass(frozen=True)
class Results:
    """What a step reads and writes in the run of one row."""

    inputs: tuple[Value, ...]
    options: tuple[Any, ...]  # the arguments that are no tensors
    outputs: tuple[Value, ...]


class _Steps(TorchDispatchMode):
    """Gives each call of an operator that computes something its step.

    Steps of two runs belong together if they have the same module, operator and number there, since
    a batch may call some operators that a row alone does not.
    """

    def __init__(self, model: torch.nn.Module) -> None:
        super().__init__()
        self.calls: collections.Counter[tuple[str, str]] = collections.Counter()
        self.modules: list[str] = []
        # Weights are the same in every run. Their views share their memory.
        self.weights = {
            weight.untyped_storage().data_ptr()
            for weight in (*model.parameters(), *model.buffers())
            if weight.layout == torch.strided
        }

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if func.is_view or func.namespace == "prim":
            return func(*args, **kwargs)
        module = self.modules[-1] if self.modules else ""
        step = Step(module, str(func), self.calls[module, str(func)])
        self.calls[module, str(func)] += 1
        return self.observe(step, func, args, kwargs)

    def observe(self, step: Step, func: Any, args: tuple, kwargs: Mapping[str, Any]) -> Any:
        raise NotImplementedError

    def inputs_of(self, args: tuple, kwargs: Mapping[str, Any]) -> list[Tensor]:
        return [t for t in _tensors((args, dict(kwargs))) if not self._is_weight(t)]

    def _is_weight(self, tensor: Tensor) -> bool:
        return tensor.untyped_storage().data_ptr() in self.weights

    @contextlib.contextmanager
    def watching(self, model: torch.nn.Module) -> Iterator[None]:
        """Observe what the model calls, and follow which of its modules runs."""
        handles = []

        def enter(name: str) -> Callable[..., None]:
            return lambda module, args: self.modules.append(name)

        def leave(module: torch.nn.Module, args: Any, output: Any) -> None:
            self.modules.pop()

        for name, module in model.named_modules():
            handles.append(module.register_forward_pre_hook(enter(name)))
            handles.append(module.register_forward_hook(leave, always_call=True))
        try:
            with self:
                yield
        finally:
            for handle in handles:
                handle.remove()


class Alone(_Steps):
    """Records every step of a run of one row."""

    def __init__(self, model: torch.nn.Module) -> None:
        super().__init__(model)
        self.steps: dict[Step, Results] = {}

    def observe(self, step: Step, func: Any, args: tuple, kwargs: Mapping[str, Any]) -> Any:
        inputs = tuple(map(_value, self.inputs_of(args, kwargs)))
        result = func(*args, **kwargs)
        outputs = tuple(map(_value, _tensors(result)))
        self.steps[step] = Results(inputs, _options(args, kwargs), outputs)
        return result


class InBatch(_Steps):
    """Compares a row of a batch with the steps of that row alone.

    Attributes:
        culprit: the first step whose result for the row differs though its inputs for it do not.
        output: which of its tensors.
        has_other_tensors: the culprit gets more or fewer tensors than for the row alone.
        unpaired: the first step that the row alone does not have.
    """

    def __init__(
        self, model: torch.nn.Module, steps: Mapping[Step, Results], size: int, position: int
    ) -> None:
        super().__init__(model)
        self.steps, self.size, self.position = steps, size, position
        self.culprit: Step | None = None
        self.output = 0
        self.has_other_tensors = False
        self.unpaired: Step | None = None

    def observe(self, step: Step, func: Any, args: tuple, kwargs: Mapping[str, Any]) -> Any:
        alone = self.steps.get(step)
        if alone is None:
            self.unpaired = self.unpaired or step
        if alone is None or self.culprit:
            return func(*args, **kwargs)
        inputs = self.inputs_of(args, kwargs)
        equal = all(
            self._is_equal(tensor, value)
            for tensor, value in zip(inputs, alone.inputs, strict=False)
        )
        has_other_tensors = len(inputs) != len(alone.inputs)
        comparable = has_other_tensors or self._fit(_options(args, kwargs), alone.options)
        result = func(*args, **kwargs)
        if equal and comparable:
            for i, pair in enumerate(zip(_tensors(result), alone.outputs, strict=False)):
                if self._is_equal(*pair) is False:
                    self.culprit, self.output = step, i
                    self.has_other_tensors = has_other_tensors
                    break
        return result

    def _fit(self, options: tuple[Any, ...], alone: tuple[Any, ...]) -> bool:
        """Whether the options of two calls are the same, but for sizes that grow with the batch."""
        return len(options) == len(alone) and all(
            a == b or (type(a) is type(b) is int and a == self.size * b)
            for a, b in zip(options, alone, strict=True)
        )

    def _is_equal(self, tensor: Tensor, value: Value) -> bool | None:
        """Whether a tensor's part for the row has the bits of the row alone; None: not known."""
        part = part_of(tensor, value.shape, self.size, self.position)
        if part is None or part.dtype != value.dtype:
            return None
        return checksum(part) == value.checksum


class Output(_Steps):
    """Keeps one result of one step."""

    def __init__(self, model: torch.nn.Module, step: Step, index: int) -> None:
        super().__init__(model)
        self.step, self.index = step, index
        self.found: Tensor | None = None

    def observe(self, step: Step, func: Any, args: tuple, kwargs: Mapping[str, Any]) -> Any:
        result = func(*args, **kwargs)
        if step == self.step:
            self.found = _tensors(result)[self.index].clone()
        return result


def _value(tensor: Tensor) -> Value:
    return Value(tuple(tensor.shape), tensor.dtype, checksum(tensor))


def _tensors(tree: Any) -> list[Tensor]:
    """Return the tensors whose elements are in memory one by one; sparse ones are not compared."""
    leaves = _pytree.tree_leaves(tree)
    return [x for x in leaves if isinstance(x, Tensor) and x.layout == torch.strided]


def _options(args: tuple, kwargs: Mapping[str, Any]) -> tuple[Any, ...]:
    leaves = _pytree.tree_leaves((args, dict(kwargs)))
    return tuple(leaf for leaf in leaves if not isinstance(leaf, Tensor))
