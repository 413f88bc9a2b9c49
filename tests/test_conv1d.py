"""The Conv1D of transformers, converted."""

import copy
import logging
import pickle
import subprocess
import sys

import pytest
import torch
from helpers import FLOATS, normal, short
from models import assert_as_accurate
from torch import Tensor, nn

import torch_smem_gemm as smem

pytest.importorskip("transformers")

from transformers.pytorch_utils import Conv1D

from torch_smem_gemm import conv1d

SHAPES = [(7,), (5, 7), (2, 3, 7), (2, 1, 4, 7), (0, 7), (2, 0, 7)]


def results(layer: nn.Module, x: Tensor, grad: Tensor) -> list[Tensor]:
    """The output and all gradients."""
    x = x.to(layer.weight.dtype).requires_grad_()
    y = layer(x)
    return [y, *torch.autograd.grad(y, (x, layer.weight, layer.bias), grad.to(y.dtype))]


@pytest.mark.parametrize("dtype", FLOATS, ids=short)
@pytest.mark.parametrize("shape", SHAPES, ids=short)
def test_output_and_gradients_agree(
    shape: tuple[int, ...], dtype: torch.dtype, device: str
) -> None:
    theirs = Conv1D(33, 7).to(device, dtype)
    nn.init.normal_(theirs.bias)
    ours = copy.deepcopy(theirs)
    assert smem.convert(ours) == [""]
    assert type(ours) is conv1d.Conv1D
    x, grad = (normal(*s, dtype=dtype, device=device) for s in (shape, (*shape[:-1], 33)))
    layers = (ours, theirs, copy.deepcopy(theirs).double())
    for of_each in zip(*(results(layer, x, grad) for layer in layers), strict=True):
        assert of_each[0].shape == of_each[1].shape
        assert of_each[0].dtype == dtype
        assert_as_accurate(*([x] for x in of_each), slack=2)


def test_inputs_that_have_no_view_of_rows() -> None:
    layer = Conv1D(4, 6)
    x = torch.randn(6, 2, 3).permute(1, 2, 0)
    expected = layer(x.contiguous())
    smem.convert(layer)
    torch.testing.assert_close(layer(x), expected)
    torch.testing.assert_close(layer(x.mT.contiguous().mT), expected)


def test_autocast_and_compilation(device: str) -> None:
    layer = Conv1D(40, 24).to(device)
    x = torch.randn(3, 5, 24, device=device)
    with torch.autocast(device, torch.bfloat16):
        expected = layer(x)
        smem.convert(layer)
        assert layer(x).dtype == expected.dtype == torch.bfloat16
        torch.testing.assert_close(layer(x), expected)
    compiled = torch.compile(layer, backend="aot_eager", fullgraph=True)
    torch.testing.assert_close(compiled(x), layer(x))


def test_names_precision_and_repr() -> None:
    layer = Conv1D(4, 6)
    weight, before = layer.weight, dict(vars(layer))
    model = nn.Sequential(layer, nn.Linear(4, 3), layer)
    assert smem.convert(model, precision="ieee") == ["0", "1", "2"]
    assert layer.precision == model[1].precision == "ieee"
    assert layer.weight is weight
    assert repr(layer) == "smem.Conv1D(nf=4, nx=6)"
    assert type(pickle.loads(pickle.dumps(layer))) is conv1d.Conv1D
    again = smem.convert(model)
    assert again.skipped["0"] == "already a torch_smem_gemm.Conv1D"
    assert smem.revert(model) == ["0", "1", "2"]
    assert type(layer) is Conv1D
    assert vars(layer) == before


def test_made_by_hand_it_stays() -> None:
    layer = conv1d.Conv1D(4, 6)
    assert smem.revert(layer) == []
    assert type(layer) is conv1d.Conv1D


class Adapted(Conv1D):
    """Stands for an adapter."""


def with_complex_weight() -> nn.Module:
    layer = Conv1D(4, 6)
    layer.weight = nn.Parameter(torch.ones(6, 4, dtype=torch.complex64))
    return layer


@pytest.mark.parametrize(
    ("layer", "reason"),
    [
        (Adapted(4, 6), "Adapted is not exactly torch.nn.Linear or transformers' Conv1D"),
        (with_complex_weight(), "its weight is torch.complex64, expected one of float64"),
    ],
)
def test_skips_and_says_why(
    layer: nn.Module, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, logger="torch_smem_gemm.convert"):
        converted = smem.convert(layer)
    assert converted == []
    assert reason in converted.skipped[""]
    assert f"skipped '': {converted.skipped['']}" in caplog.messages


def test_transformers_is_imported_by_nobody_who_does_not_use_it() -> None:
    code = (
        "import sys, torch, torch_smem_gemm as smem\n"
        "model = torch.nn.Linear(2, 2)\n"
        "assert smem.convert(model) == smem.revert(model) == ['']\n"
        "assert 'transformers' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
