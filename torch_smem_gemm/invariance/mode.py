"""smem.batch_invariant: torch's own operators keep a row's bits in any batch."""

from __future__ import annotations

import contextlib
import threading
from collections import Counter
from typing import Any

import torch
from torch._C._dynamo.eval_frame import set_eval_frame

_NAME = "smem.batch_invariant"

_lock = threading.Lock()
_everywhere: frozenset[int] = frozenset()  # devices for which `enable` was called
_regions: Counter[int] = Counter()  # of all threads, by device
_eager_regions = 0
_eager = contextlib.ExitStack()  # holds torch.compile's stance while there are eager regions


class _Thread(threading.local):
    """What a thread knows of its own regions.

    Attributes:
        devices: those of the innermost region; None outside of any.
        is_autograds: whether the thread was not started by Python. A backward runs on such threads,
            for whoever calls it: they keep the contract while any thread is in a region.
    """

    devices: frozenset[int] | None = None

    def __init__(self) -> None:
        self.is_autograds = isinstance(threading.current_thread(), threading._DummyThread)


_thread = _Thread()


class batch_invariant(contextlib.ContextDecorator):
    """Context and decorator in which torch's operators on CUDA tensors are batch-invariant.

    In it a row of a batch has the same bits alone and among any others, in the forward and in the
    backward: call ``backward`` in it, too. It replaces torch's kernels where they depend on the
    batch: matrix products, sums and what is made of them, convolutions, the gradient of softmax,
    and scaled_dot_product_attention; docs/reproducibility.md lists them. The others stay torch's.

    As torch.no_grad, it applies to the calling thread, and to autograd's threads for a backward
    that is called in it. ``batch_invariant.enable()`` applies to all threads.

    Functions made by torch.compile run without compilation while it is in force, in all threads,
    and so does the part of such a function that is in a region of its own.
    CUDA graphs that are captured in it keep the contract when they are replayed.

    Args:
        device: a CUDA device; None is all of them.
        enabled: False takes the device out of an outer region or of ``enable``.

    Raises:
        TypeError, RuntimeError: ``device`` is not a CUDA device.
        NotImplementedError: raised by an operator that has no batch-invariant kernel for its
            arguments; the text names it.
    """

    def __init__(
        self, device: torch.device | str | int | None = None, *, enabled: bool = True
    ) -> None:
        self._devices = _devices(device)
        self._enabled = enabled
        self._outer: list[tuple[frozenset[int] | None, Any]] = []
        for function in (batch_invariant.__enter__, batch_invariant.__exit__):
            torch.compiler.disable(function, recursive=False)

    def _recreate_cm(self) -> batch_invariant:
        region = type(self)(enabled=self._enabled)
        region._devices = self._devices
        return region

    def __enter__(self) -> None:
        # In a function of torch.compile, what follows is not to be compiled, either.
        compiler = set_eval_frame(None)
        try:
            outer = _thread.devices
            current = _everywhere if outer is None else outer
            if self._enabled:
                _install()
                _run_eagerly(True)
                with _lock:
                    _regions.update(self._devices)
        except BaseException:
            set_eval_frame(compiler)
            raise
        self._outer.append((outer, compiler))
        _thread.devices = current | self._devices if self._enabled else current - self._devices

    def __exit__(self, *exception: object) -> None:
        _thread.devices, compiler = self._outer.pop()
        if self._enabled:
            with _lock:
                _regions.subtract(self._devices)
            _run_eagerly(False)
        set_eval_frame(compiler)

    @staticmethod
    def enable(device: torch.device | str | int | None = None) -> None:
        """Keep the contract in all threads, on ``device`` or on all CUDA devices.

        Raises:
            RuntimeError: called in a function of torch.compile; see also the class.
        """
        global _everywhere
        devices = _devices(device)
        _install()
        with _lock:
            added = devices - _everywhere
            _everywhere |= added
        try:
            if added:
                _run_eagerly(True, len(added))
        except BaseException:
            with _lock:
                _everywhere -= added
            raise

    @staticmethod
    def disable(device: torch.device | str | int | None = None) -> None:
        """End what ``enable`` began, on ``device`` or on all CUDA devices."""
        global _everywhere
        devices = _devices(device)
        with _lock:
            removed = devices & _everywhere
            _everywhere -= removed
        if removed:
            _run_eagerly(False, len(removed))


def is_in_force(device: int) -> bool:
    """Whether this thread's operators on the CUDA device of that index keep the contract."""
    devices = _thread.devices
    if devices is not None:
        return device in devices
    return device in _everywhere or (_thread.is_autograds and _regions[device] > 0)


def _devices(device: torch.device | str | int | None) -> frozenset[int]:
    count = torch.cuda.device_count()
    if device is None:
        return frozenset(range(max(count, 1)))
    if not isinstance(device, (torch.device, str, int)) or isinstance(device, bool):
        raise TypeError(f"{_NAME}: device is {device!r}, expected a CUDA device or None")
    chosen = torch.device("cuda", device) if isinstance(device, int) else torch.device(device)
    if chosen.type != "cuda":
        raise RuntimeError(f"{_NAME}: device is {str(chosen)!r}, expected a CUDA device")
    current = torch.cuda.current_device() if count else 0
    index = current if chosen.index is None else chosen.index
    if count and index >= count:
        raise RuntimeError(f"{_NAME}: device is {str(chosen)!r}, but there are {count}")
    return frozenset((index,))


def _install() -> None:
    from torch_smem_gemm.invariance.overrides import install

    with _lock:
        install()


def _run_eagerly(begin: bool, regions: int = 1) -> None:
    """Let functions of torch.compile run without compilation while there is a region.

    Compiled code has been specialized without the mode, and calls kernels of its own. There is one
    stance for all threads.
    """
    global _eager_regions
    with _lock:
        before = _eager_regions
        after = before + (regions if begin else -regions)
        if before == 0:
            try:
                _eager.enter_context(torch.compiler.set_stance("force_eager"))
            except RuntimeError as error:
                raise RuntimeError(
                    f"{_NAME}.enable: called in a function of torch.compile, expected to be called "
                    "before it: the rest of the function would be compiled code"
                ) from error
        elif after == 0:
            _eager.close()
        _eager_regions = after
