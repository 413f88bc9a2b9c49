"""PyTorch's own test data, run through ours: OpInfo's samples of ops, ModuleInfo's of modules.

Both are made for whoever implements these ops for another device. They are of torch.testing's
internal part, and differ a little from version to version.
"""

import copy
import functools
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from helpers import (
    FLOATS_BUT_TWO_BY_SWEEP,
    GEMMS,
    SUMS,
    TRANSPOSES,
    assert_accurate,
    runs_needed,
    short,
)
from torch import Tensor
from torch.autograd import gradcheck, gradgradcheck

import torch_smem_gemm as smem

Function = Callable[..., Any]


def matmul(a: Tensor, b: Tensor, **kernel: str) -> Tensor:
    """smem.gemm by torch.matmul's rule for vectors."""
    y = smem.gemm(a[None] if a.dim() == 1 else a, b[:, None] if b.dim() == 1 else b, **kernel)
    y = y.squeeze(-1) if b.dim() == 1 else y
    return y.squeeze(-2 if b.dim() > 1 else -1) if a.dim() == 1 else y


def addmm(c: Tensor, a: Tensor, b: Tensor, **options: Any) -> Tensor:
    """smem.gemm with torch.addmm's arguments and defaults."""
    return smem.gemm(a, b, c=c, **{"beta": 1.0, **options})


GENERAL = [row.name for row in smem.kernels("sum") if row.any_operator]
# torch's op -> ours, and the kernels that can be named for it
OURS: dict[str, tuple[Function, list[str]]] = {
    "mm": (smem.gemm, GEMMS),
    "bmm": (smem.gemm, GEMMS),
    "matmul": (matmul, GEMMS),
    "addmm": (addmm, GEMMS),
    "baddbmm": (addmm, GEMMS),
    "nn.functional.linear": (smem.linear, []),
    "transpose": (smem.transpose, TRANSPOSES),
    "transpose_copy": (smem.transpose, TRANSPOSES),
    "sum": (smem.sum, SUMS),
    "mean": (smem.mean, GENERAL),
    "amax": (smem.amax, GENERAL),
    "amin": (smem.amin, GENERAL),
}
every_op = pytest.mark.parametrize("name", OURS)
MODULES = ("Linear", "TransformerEncoderLayer", "MultiheadAttention")


@functools.cache
def databases() -> tuple[list[Any], list[Any]]:
    """torch's OpInfos and ModuleInfos."""
    # The import freezes torch.backends' settings, which other tests change.
    with torch.backends.__allow_nonbracketed_mutation():
        from torch.testing._internal.common_methods_invocations import op_db
        from torch.testing._internal.common_modules import module_db

    return op_db, module_db


def test_torchs_settings_stay_free() -> None:
    databases()
    assert not torch.backends.flags_frozen()


def op_info(name: str) -> Any:
    """The OpInfo of that name; its variants differ in nothing that ours would see."""
    (found,) = (i for i in databases()[0] if (i.name, i.variant_test_name) == (name, ""))
    return found


def calls(
    name: str, device: str, dtype: torch.dtype, *, requires_grad: bool = False
) -> Iterator[tuple[Function, Function, tuple]]:
    """torch's function, ours, and the arguments of both: of each sample, then noncontiguous."""
    ours, _ = OURS[name]
    info = op_info(name)
    for sample in info.sample_inputs(device, dtype, requires_grad=requires_grad):
        for one in (sample, sample.noncontiguous()):
            yield (
                functools.partial(info.op, **one.kwargs),
                functools.partial(ours, **one.kwargs),
                (one.input, *one.args),
            )


def check(torchs: Function, ours: Function, args: tuple) -> None:
    """Compare by the sample and by random numbers of its shape: torch may be lucky with one."""
    results = [(ours(*args), args)]
    for _ in range(max(4, runs_needed(results[0][0].numel())) - 1):
        drawn = tuple(torch.randn_like(x) if isinstance(x, Tensor) else x for x in args)
        results.append((ours(*drawn), drawn))
    assert_accurate(torchs, *results)


@every_op
@pytest.mark.parametrize("dtype", FLOATS_BUT_TWO_BY_SWEEP, ids=short)
def test_forward(name: str, dtype: torch.dtype, device: str) -> None:
    for torchs, ours, args in calls(name, device, dtype):
        check(torchs, ours, args)


@pytest.mark.parametrize(
    ("name", "kernel"),
    [
        # One op of each kind by all kernels, the others by the last.
        pytest.param(
            *(name, kernel),
            marks=[]
            if name in ("mm", "transpose", "sum", "amax") or kernel == kernels[-1]
            else [pytest.mark.sweep],
        )
        for name, (_, kernels) in OURS.items()
        for kernel in kernels
    ],
)
@pytest.mark.one_in(2)
def test_forward_by_every_kernel(name: str, kernel: str, device: str) -> None:
    for torchs, ours, args in calls(name, device, torch.float32):
        check(torchs, functools.partial(ours, kernel=kernel), args)


@every_op
def test_gradients(name: str, device: str) -> None:
    """First and second order, in reverse and in forward mode, against finite differences."""
    for _, ours, args in calls(name, device, torch.float64, requires_grad=True):
        assert gradcheck(ours, args, fast_mode=True, check_forward_ad=True)
        assert gradgradcheck(
            ours, args, fast_mode=True, gen_non_contig_grad_outputs=True, check_fwd_over_rev=True
        )


@every_op
def test_gradients_are_as_accurate_as_torchs(name: str, device: str) -> None:
    def gradient(function: Function, index: int) -> Function:
        def of(grad: Tensor, *args: Any) -> Tensor:
            leaves = [x.detach().requires_grad_() if isinstance(x, Tensor) else x for x in args]
            return torch.autograd.grad(function(*leaves), leaves[index], grad)[0]

        return of

    for torchs, ours, args in calls(name, device, torch.bfloat16):
        inputs = (torch.randn_like(torchs(*args)), *args)
        for index, x in enumerate(args):
            if isinstance(x, Tensor):
                result = gradient(ours, index)(*inputs)
                assert_accurate(gradient(torchs, index), (result, inputs))


@every_op
def test_errors(name: str, device: str) -> None:
    """What torch's op refuses ours refuses, by the same type of error or a RuntimeError."""
    ours, _ = OURS[name]
    info = op_info(name)
    for refused in info.error_inputs(device) if info.error_inputs_func else ():
        sample = refused.sample_input
        with pytest.raises((refused.error_type, RuntimeError)):
            ours(sample.input, *sample.args, **sample.kwargs)


@pytest.mark.parametrize("name", MODULES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=short)
@pytest.mark.parametrize("training", [False, True], ids=["eval", "train"])
def test_converted_modules(name: str, dtype: torch.dtype, training: bool, device: str) -> None:
    (info,) = (info for info in databases()[1] if info.module_cls.__name__ == name)
    options = {"device": device, "dtype": dtype}
    for case in info.module_inputs_func(info, **options, requires_grad=False, training=training):
        made, given = case.constructor_input, case.forward_input
        plain = info.module_cls(*made.args, **made.kwargs).to(**options).train(training)
        converted, wide = copy.deepcopy(plain), copy.deepcopy(plain).double()
        smem.convert(converted)
        names = list(given.kwargs)

        def call(module: torch.nn.Module, *inputs: Any, names: list[str] = names) -> tuple:
            positional = len(inputs) - len(names)
            keywords = dict(zip(names, inputs[positional:], strict=True))
            results = module(*inputs[:positional], **keywords)
            return results if isinstance(results, tuple) else (results,)

        def module_for(inputs: tuple, both: tuple = (plain, wide)) -> torch.nn.Module:
            return both[any(isinstance(x, Tensor) and x.dtype == torch.float64 for x in inputs)]

        inputs = [*given.args, *given.kwargs.values()]
        results, torchs = call(converted, *inputs), call(plain, *inputs)
        for i, result in enumerate(results):
            if result is None:
                assert torchs[i] is None
                continue
            assert_accurate(lambda *x, i=i: call(module_for(x), *x)[i], (result, inputs))
        if training:
            grad = torch.randn_like(results[0])

            def gradients(module: torch.nn.Module, *inputs: Any, grad: Tensor = grad) -> Tensor:
                """All of them in one row: some have few elements."""
                y = call(module, *inputs)[0]
                found = torch.autograd.grad(y, list(module.parameters()), grad.to(y.dtype))
                return torch.cat([g.flatten() for g in found])

            mine = gradients(converted, *inputs)
            assert_accurate(lambda *x: gradients(module_for(x), *x), (mine, inputs))
