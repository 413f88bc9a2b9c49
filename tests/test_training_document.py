"""docs/accuracy.md shows what bench/training.py measured."""

import copy
import json

import needs_bench  # noqa: F401
import pytest
import torch
import training

import torch_smem_gemm as smem

FOUND = json.loads(training.RESULTS.read_text(encoding="utf-8"))


def test_document_shows_the_figures() -> None:
    shown = training.DOCUMENT.read_text(encoding="utf-8")
    assert shown == training.document(shown, FOUND), "run `PYTHONPATH=. python bench/training.py`"


def test_losses_stay_with_torchs() -> None:
    losses = FOUND["losses"]
    assert losses["smem"] == pytest.approx(losses["torch"], abs=0.05)
    assert losses["smem"][-1] < losses["smem"][0] / 2


def test_a_step_has_the_gradients_of_all_parameters(monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    grad = torch.autograd.grad
    monkeypatch.setattr(torch.autograd, "grad", lambda *args: found.append(grad(*args)))
    torchs = training.Block(16, 2)
    ours = copy.deepcopy(torchs)
    smem.convert(ours)
    x = torch.randn(2, 5, 16, requires_grad=True)
    for block in (torchs, ours):
        training.step_of(block, x)()
    assert len(found[0]) == 1 + len(list(torchs.parameters()))
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other)
