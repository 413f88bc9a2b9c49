"""FLOP of the ops for torch.utils.flop_counter, which knows those of ATen alone."""

import importlib.util
import math
import sys
import threading
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

import torch

COUNTER = "torch.utils.flop_counter"
_WITH_Z = "_with_preactivation"


def register_when_imported() -> None:
    """Register the formulas as soon as the counter is imported, which we leave to its users.

    It brings triton with it, where there is one, and that takes longer than all of our import.
    """
    if COUNTER in sys.modules:
        _register(sys.modules[COUNTER])
    else:
        sys.meta_path.insert(0, _CounterFinder())


class _CounterFinder(MetaPathFinder, threading.local):
    """Finds the counter as all others would, and has it register the formulas when loaded."""

    is_asking = False  # the others, in this thread

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name != COUNTER or self.is_asking:
            return None
        self.is_asking = True
        try:
            spec = importlib.util.find_spec(name)
        finally:
            self.is_asking = False
        if spec is None or spec.loader is None:
            return spec
        load = spec.loader.exec_module

        def load_and_register(module: ModuleType) -> None:
            load(module)
            _register(module)
            sys.meta_path.remove(self)

        spec.loader.exec_module = load_and_register  # type: ignore[method-assign]
        return spec


def _register(counter: Any) -> None:
    ops = torch.ops.smem
    for name, formula in (("gemm", _gemm), ("linear", _linear)):
        forms = [f"{prefix}{name}{end}" for prefix in ("", "_") for end in ("", _WITH_Z)]
        counter.register_flop_formula([getattr(ops, form) for form in forms])(formula)


# As torch's formulas, these count the products' FLOP alone.


def _gemm(a: Sequence[int], b: Sequence[int], *args: Any, out_shape: Any, **kwargs: Any) -> int:
    batch = torch.broadcast_shapes(a[:-2], b[:-2])
    return 2 * math.prod(batch) * a[-2] * a[-1] * b[-1]


def _linear(x: Sequence[int], weight: Sequence[int], *a: Any, out_shape: Any, **kw: Any) -> int:
    return 2 * math.prod(x) * weight[0]
