"""The paths of OpCall, with functions that record their calls instead of ops."""

import contextlib
import sys
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch.autograd import forward_ad
from torch.utils._python_dispatch import TorchDispatchMode

from torch_smem_gemm._C import OpCall

DEFAULTS = (None, None, 5, 6)  # of two tensors, an option and a precision
TF32_DEFAULTS = (None, None, 5, 7)

Calls = list[tuple[str, tuple]]


def make(op: Callable[..., Any] | None = None, **parts: Any) -> tuple[OpCall, Calls]:
    """Return an OpCall of two tensors whose parts return their names, and the list of calls."""
    calls: Calls = []

    def recording(name: str) -> Callable[..., Any]:
        def part(*args: Any) -> Any:
            calls.append((name, args))
            return op(*args) if name == "op" and op else name

        return part

    call = OpCall(
        2,
        *(recording(name) for name in ("op", "public", "cpu", "recover", "setup")),
        parts.get("cast"),
        DEFAULTS,
        parts.get("tf32_defaults"),
    )
    call.differentiate_by(recording("differentiate"), recording("apply"))
    return call, calls


def on_gpu(**attributes: Any) -> Any:
    """Return what has the attributes of a CUDA tensor."""
    usual: dict[str, Any] = {"is_cpu": False, "is_cuda": True, "requires_grad": False}
    return SimpleNamespace(**(usual | {"dtype": torch.bfloat16} | attributes))


@contextlib.contextmanager
def autocast() -> Iterator[None]:
    """Enable autocast to bfloat16 for CUDA tensors, which torch.autocast refuses without a GPU."""
    enabled, dtype = torch.is_autocast_enabled("cuda"), torch.get_autocast_dtype("cuda")
    torch.set_autocast_enabled("cuda", True)
    torch.set_autocast_dtype("cuda", torch.bfloat16)
    try:
        yield
    finally:
        torch.set_autocast_enabled("cuda", enabled)
        torch.set_autocast_dtype("cuda", dtype)


@pytest.fixture
def tf32() -> Iterator[None]:
    matmul = torch.backends.cuda.matmul
    before, matmul.fp32_precision = matmul.fp32_precision, "tf32"
    yield
    matmul.fp32_precision = before


def test_the_op_gets_the_arguments_as_they_are() -> None:
    call, calls = make()
    x = on_gpu()
    assert call(x) == call.plain(x) == call(x, None, 1) == "op"
    assert calls == [("op", (x,)), ("op", (x,)), ("op", (x, None, 1))]


def test_cpu_tensors() -> None:
    call, calls = make()
    x = torch.ones(2)
    assert call(x, None) == "cpu"
    assert call.plain(x, None) is NotImplemented
    assert calls == [("cpu", (x, None))]


@pytest.mark.parametrize("at", [0, 1])
def test_a_tensor_that_requires_grad(at: int) -> None:
    call, calls = make()
    args = tuple(on_gpu(requires_grad=i == at) for i in range(2))
    assert call(*args) == "differentiate"
    assert call.plain(*args) == "apply"
    with torch.no_grad():
        assert call(*args) == "op"
    assert calls == [
        ("differentiate", (*args, 5, 6)),
        ("apply", args),
        ("op", args),
    ]


def test_only_tensors_are_asked_for_gradients() -> None:
    call, calls = make()
    x, option = on_gpu(), on_gpu(requires_grad=True)
    assert call(x, None, option) == call(x, "text") == "op"
    assert len(calls) == 2


def test_transforms_need_the_public_op() -> None:
    call, calls = make()
    x = on_gpu()

    def both(y: torch.Tensor) -> torch.Tensor:
        assert call(x) == "public"
        assert call.plain(x) is NotImplemented
        return y

    ones = torch.ones(2)
    torch.func.vmap(both)(ones)
    with TorchDispatchMode():
        both(ones)
    with forward_ad.dual_level():
        both(ones)
    assert calls == [("public", (x,))] * 3
    assert call(x) == "op"


def test_recovery_from_an_error_of_the_op() -> None:
    error = RuntimeError("no memory")

    def op(*args: Any) -> None:
        raise error

    call, calls = make(op)
    x = on_gpu()
    assert call(x, 1) == call.plain(x, 1) == "recover"
    assert calls[1] == ("recover", (error, x, 1))


def test_other_errors_pass() -> None:
    def op(*args: Any) -> None:
        raise TypeError("no tensor")

    call, _ = make(op)
    for function in (call, call.plain):
        with pytest.raises(TypeError, match="no tensor"):
            function(on_gpu())
        with pytest.raises(AttributeError, match="is_cpu"):
            function("text")
        with pytest.raises(IndexError):
            function()


def test_autocast_casts_the_tensors_of_other_dtypes() -> None:
    x, y, option = on_gpu(dtype=torch.float32), on_gpu(), on_gpu(dtype=torch.float32)
    cast = on_gpu()
    asked = []

    def cast_one(*args: Any) -> Any:
        asked.append(args)
        return cast

    call, calls = make(cast=cast_one)
    with autocast():
        assert call.plain(x, None, option) == call.plain(y, x) == "op"
        assert call.plain(on_gpu(is_cuda=False)) is NotImplemented
    with torch.autocast("cpu", torch.bfloat16):
        assert call.plain(x) == "op"
    assert asked == [(x, torch.bfloat16)] * 2
    assert calls == [("op", (cast, None, option)), ("op", (y, cast)), ("op", (x,))]

    call, calls = make()
    with autocast():
        assert call.plain(x) is NotImplemented


@pytest.mark.usefixtures("tf32")
def test_tf32_is_an_option_of_float32() -> None:
    call, calls = make(tf32_defaults=TF32_DEFAULTS)
    x, narrow = on_gpu(dtype=torch.float32), on_gpu()
    assert call.plain(x, x) == call.plain(narrow, narrow) == call(x, x) == "op"
    assert [args for _, args in calls] == [(x, x, 5, 7), (narrow, narrow), (x, x)]
    torch.backends.cuda.matmul.fp32_precision = "ieee"
    assert call.plain(x, x) == "op"
    assert calls[-1] == ("op", (x, x))


def test_forward_calls_the_op_then_setup_with_all_arguments() -> None:
    call, calls = make()
    x, context = on_gpu(), object()
    assert call.forward(context, x) == "op"
    assert calls == [("op", (x,)), ("setup", (context, (x, None, 5, 6), "op"))]
    y = torch.ones(2)
    assert call.forward(context, y, None, 9) == "cpu"
    assert calls[2:] == [("cpu", (y, None, 9)), ("setup", (context, (y, None, 9, 6), "cpu"))]


@pytest.mark.usefixtures("tf32")
def test_calls_keep_no_references() -> None:
    def fails(*args: Any) -> None:
        raise RuntimeError("no memory")

    x = on_gpu(dtype=torch.float32, requires_grad=True)
    context = object()
    calls = []
    for op in (lambda *args: "op", fails):
        call, made = make(op, cast=lambda t, dtype: t, tf32_defaults=TF32_DEFAULTS)
        calls.append(made)

        def all_paths(call: OpCall = call) -> None:
            call(x)
            with torch.no_grad():
                call.plain(x, x)
                with autocast():
                    call.plain(x, x)
            call.plain(x)
            call.forward(context, x)

        all_paths()
        made.clear()
        before = [sys.getrefcount(part) for part in (x, context, None, "op")]
        for _ in range(100):
            all_paths()
            made.clear()
        after = [sys.getrefcount(part) for part in (x, context, None, "op")]
        assert all(abs(a - b) < 20 for a, b in zip(after, before, strict=True)), (before, after)


def test_arguments_of_the_type_itself() -> None:
    with pytest.raises(TypeError):
        OpCall(1)  # type: ignore[call-arg]


def test_keyword_arguments_are_refused() -> None:
    call, calls = make()
    with pytest.raises(TypeError, match="OpCall takes no keyword arguments"):
        call(on_gpu(), None, alpha=2)
    assert not calls
