"""The splits of float32 weights that layers keep: ``cache_split`` of smem.Linear and smem.convert.

fp16x3 splits a float32 weight into two float16 matrices at every call. A layer in eval mode can
keep them, because its weight changes rarely. With few rows the product then only reads them, which
are as many bytes as the weight; with many rows a launch is saved. The bits are the same.

A split belongs to a Parameter, not to a module: modules that share the weight share the split, and
it is freed with the weight. It is in no ``state_dict``, and neither pickle nor deepcopy sees it.
"""

from __future__ import annotations

import contextlib
import sys
import threading
import weakref
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import forward_ad
from torch.compiler import is_dynamo_compiling

from torch_smem_gemm.ops._codes import PRECISIONS, activation_code, precision_code, resolved
from torch_smem_gemm.ops.linear_split import linear_split, split_weight

_FP32 = PRECISIONS["fp32"]
_PLAIN = (Tensor, nn.Parameter)


class CachesSplit(nn.Module):
    """A layer with a weight whose split it keeps if ``cache_split`` is set.

    A base of :class:`torch_smem_gemm.Linear` and ``Conv1D``, behind the class of the layer itself.
    """

    cache_split: bool = False
    precision: str | None
    weight: Tensor
    bias: Any  # a Tensor or None, declared otherwise by torch.nn.Linear

    def multiply_by_kept(
        self, x: Tensor, activation: str | None = None, *, is_transposed: bool = False
    ) -> Tensor | None:
        """Return the linear of ``x`` by the kept split; None as `kept_linear`, and in training."""
        if self.training or is_dynamo_compiling():
            return None
        return kept_linear(
            x, self.weight, self.bias, activation, self.precision, is_transposed=is_transposed
        )

    def train(self, mode: bool = True) -> Any:
        """Set the mode as torch does; free the kept split unless it is that of evaluation."""
        if mode:
            release(self)
        return super().train(mode)

    def _apply(self, *args: Any, **kwargs: Any) -> Any:
        release(self)  # .to(), .half(), .cuda() and others may leave the Parameter in place
        return super()._apply(*args, **kwargs)


@dataclass
class _Split:
    weight: weakref.ref[Tensor]
    key: tuple
    buffer: Tensor | None  # None: the kernel that runs for this weight splits nothing
    made: torch.cuda.Event
    streams: set[int] = field(default_factory=set)  # those that are ordered after the split


_splits: dict[int, _Split] = {}  # by id of the weight
_lock = threading.Lock()  # held while a split is made


class _Cuda:
    """What is asked of CUDA. Tests without a GPU put something else in its place."""

    def serves(self, weight: Tensor) -> bool:
        return weight.is_cuda

    def is_capturing(self, device: torch.device) -> bool:
        """Whether the device's current stream is being captured in a graph."""
        if device.index == torch.cuda.current_device():
            return torch.cuda.is_current_stream_capturing()
        with torch.cuda.device(device):
            return torch.cuda.is_current_stream_capturing()

    def takes_split(self, matrix: Tensor) -> bool:
        """Whether products with this weight run on the kernel that splits it."""
        from torch_smem_gemm.ops.plan import plan  # not imported with the package

        row = matrix.new_empty(1, matrix.shape[1])
        return plan(row, matrix.mT, precision="fp32").kernel == "fp16x3"

    def stream(self, device: torch.device) -> int:
        """Return the handle of the current stream."""
        return torch._C._cuda_getCurrentRawStream(device.index)

    def record(self, device: torch.device) -> torch.cuda.Event:
        """Return an event of the current stream."""
        return torch.cuda.current_stream(device).record_event()

    def order_after(self, made: torch.cuda.Event, buffer: Tensor) -> None:
        """Let the current stream use a buffer that another stream has written."""
        stream = torch.cuda.current_stream(buffer.device)
        stream.wait_event(made)
        buffer.record_stream(stream)  # freed memory is not reused before this stream is done


_cuda = _Cuda()


def kept_linear(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    activation: str | None,
    precision: str | None,
    *,
    is_transposed: bool = False,
) -> Tensor | None:
    """Return the linear by the kept split of ``weight``, which is made now if there is none.

    None where a split must not be used: then the caller calls the op. ``is_transposed``: the weight
    is stored (in_features, out_features).
    """
    if not _is_served(x, weight, bias):
        return None
    if resolved(precision_code("linear", precision), x.dtype) != _FP32:
        return None
    matrix = weight.mT if is_transposed else weight
    split = _split_of(weight, matrix)
    if split is None:
        return None
    return linear_split(x, matrix, split, bias, activation_code("linear", activation), _FP32)


def _is_served(x: Tensor, weight: Tensor, bias: Tensor | None) -> bool:
    """Whether this is a plain eager call without gradients, of float32 and outside of captures.

    A graph keeps addresses: it would read a split that was released, or that of an older weight.
    """
    return (
        (type(weight) is nn.Parameter and type(x) in _PLAIN and weight.dim() == 2)
        and weight.dtype == x.dtype == torch.float32
        and _cuda.serves(weight)
        and not weight.is_inference()  # it has no version counter
        and not (
            torch.is_grad_enabled()
            and (
                x.requires_grad or weight.requires_grad or (bias is not None and bias.requires_grad)
            )
        )
        and not torch._C._is_any_autocast_enabled()
        and not torch._C._are_functorch_transforms_active()
        and not torch._C._len_torch_dispatch_stack()
        and forward_ad._current_level < 0
        and not torch._C._is_tracing()
        and not _cuda.is_capturing(weight.device)
        and not _may_be_gathered()
    )


def _may_be_gathered() -> bool:
    """Whether FSDP may be in use: it gathers weights at each forward, and no version counts it."""
    return "torch.distributed.fsdp" in sys.modules and torch.distributed.is_initialized()


def _split_of(weight: Tensor, matrix: Tensor) -> Tensor | None:
    """Return the split of the weight as it is now, for use in the current stream."""
    key = weight.data_ptr(), weight._version, matrix.shape, matrix.stride(), weight.device
    split = _current(weight, key)
    if split is None:
        with _lock:
            split = _current(weight, key) or _make(weight, matrix, key)
    buffer = split.buffer
    if buffer is not None:
        stream = _cuda.stream(weight.device)
        if stream not in split.streams:
            _cuda.order_after(split.made, buffer)
            split.streams.add(stream)
    return buffer


def _current(weight: Tensor, key: tuple) -> _Split | None:
    split = _splits.get(id(weight))
    return split if split is not None and split.key == key and split.weight() is weight else None


def _make(weight: Tensor, matrix: Tensor, key: tuple) -> _Split:
    """Split the weight in the current stream."""
    address = id(weight)
    _splits.pop(address, None)  # its memory can be used for the new one
    buffer = None
    if _cuda.takes_split(matrix):
        # The product itself needs no such memory if there are few rows.
        with contextlib.suppress(torch.OutOfMemoryError):
            buffer = split_weight(matrix)
    device = weight.device

    def end(ref: weakref.ref[Tensor]) -> None:
        split = _splits.get(address)
        if split is not None and split.weight is ref:
            del _splits[address]

    split = _Split(weakref.ref(weight, end), key, buffer, _cuda.record(device))
    split.streams.add(_cuda.stream(device))
    _splits[address] = split
    return split


def release(module: nn.Module) -> None:
    """Free the split of the module's weight, if one is kept."""
    weight = module._parameters.get("weight")
    if weight is not None:
        _splits.pop(id(weight), None)
