"""Whole models in smem.batch_invariant: a text alone and in any batch, with and without padding."""

from collections.abc import Callable
from typing import Any

import models
import pytest
import torch
from torch import Tensor, nn

import torch_smem_gemm as smem

pytestmark = pytest.mark.gpu

WIDE = {"hidden_size": 256, "num_attention_heads": 4, "intermediate_size": 700}


def llama() -> nn.Module:
    return models.llama(**WIDE, max_position_embeddings=4096)


LANGUAGE_MODELS: dict[str, Callable[[], nn.Module]] = {
    "llama": llama,
    "qwen": models.qwen,
    "gpt2": lambda: models.gpt2(n_positions=1024),
    "mixtral": models.mixtral,
}
every_language_model = pytest.mark.parametrize(
    "make", LANGUAGE_MODELS.values(), ids=LANGUAGE_MODELS
)


def on_gpu(make: Callable[[], nn.Module], dtype: torch.dtype = torch.bfloat16) -> nn.Module:
    torch.manual_seed(0)
    return make().to("cuda", dtype).eval()


def tokens(batch: int, length: int) -> Tensor:
    generator = torch.Generator("cuda").manual_seed(length)
    return torch.randint(2, models.VOCABULARY, (batch, length), device="cuda", generator=generator)


def generated(model: Any, ids: Tensor, mask: Tensor, new: int = 8) -> tuple[Tensor, Tensor]:
    """Return the new tokens and their logits."""
    made = model.generate(
        ids,
        attention_mask=mask,
        max_new_tokens=new,
        min_new_tokens=new,
        do_sample=False,
        return_dict_in_generate=True,
        output_logits=True,
    )
    return made.sequences[:, ids.shape[1] :], torch.stack(made.logits, 1)


@every_language_model
@pytest.mark.parametrize("context", [16, 700])
def test_generated_text_is_the_same_in_every_batch(
    make: Callable[[], nn.Module], context: int
) -> None:
    model = on_gpu(make)
    ids = tokens(7, context)
    with smem.batch_invariant():
        report = smem.check_batch_invariance(
            model, {"input_ids": ids, "attention_mask": torch.ones_like(ids)}, generate=8
        )
    assert report, str(report)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32], ids=["bfloat16", "float32"])
@pytest.mark.parametrize("longest", [20, 700])
def test_padding_on_the_left_changes_nothing(dtype: torch.dtype, longest: int) -> None:
    model = on_gpu(llama, dtype)
    ids = tokens(3, longest)
    lengths = [longest, longest - 1, longest // 3]
    mask = torch.stack([torch.arange(longest) >= longest - n for n in lengths]).long().cuda()
    ids = torch.where(mask.bool(), ids, 0)
    with smem.batch_invariant():
        together = generated(model, ids, mask)
        for row, n in enumerate(lengths):
            only = ids[row : row + 1, longest - n :]
            alone = generated(model, only, torch.ones_like(only))
            for a, b in zip(together, alone, strict=True):
                assert torch.equal(a[row : row + 1], b)


def test_padding_on_the_right_changes_nothing() -> None:
    model = on_gpu(llama)
    ids, lengths = tokens(3, 150), [150, 149, 37]
    mask = torch.stack([torch.arange(150) < n for n in lengths]).long().cuda()
    with smem.batch_invariant(), torch.no_grad():
        together = model(input_ids=ids, attention_mask=mask).logits
        for row, n in enumerate(lengths):
            alone = model(input_ids=ids[row : row + 1, :n]).logits
            assert torch.equal(together[row : row + 1, :n], alone)


def test_prefill_in_chunks() -> None:
    model = on_gpu(llama)
    ids = tokens(7, 300)

    def logits(batch: int) -> Tensor:
        cache, parts = None, []
        for chunk in ids[:batch].split(128, dim=1):
            out = model(input_ids=chunk, past_key_values=cache, use_cache=True)
            cache = out.past_key_values
            parts.append(out.logits)
        return torch.cat(parts, 1)

    with smem.batch_invariant(), torch.no_grad():
        assert torch.equal(logits(7)[:1], logits(1))


@pytest.mark.parametrize("make", [models.bert, models.vit], ids=["bert", "vit"])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32], ids=["bfloat16", "float32"])
def test_encoders(make: Callable[[], nn.Module], dtype: torch.dtype) -> None:
    model = on_gpu(make, dtype)
    if make is models.vit:
        inputs: Any = {"pixel_values": torch.randn(7, 3, 16, 16, device="cuda").to(dtype)}
    else:
        inputs = {"input_ids": tokens(7, 60)}
    with smem.batch_invariant():
        report = smem.check_batch_invariance(model, inputs)
    assert report, str(report)


def test_loss_and_gradients_of_a_sequence() -> None:
    """A sequence alone has the gradients that it adds to those of a batch."""
    model = on_gpu(lambda: models.llama(num_hidden_layers=1))
    ids = tokens(4, 60)

    def losses_and_gradient(batch: int) -> tuple[Tensor, Tensor]:
        embedded = model.get_input_embeddings()(ids[:batch]).detach().requires_grad_()
        logits = model(inputs_embeds=embedded).logits
        targets = ids[:batch, 1:].flatten()
        losses = nn.functional.cross_entropy(
            logits[:, :-1].flatten(0, 1), targets, reduction="none"
        )
        losses = losses.view(batch, -1).sum(1)
        return losses, torch.autograd.grad(losses.sum(), embedded)[0]

    with smem.batch_invariant():
        together, alone = losses_and_gradient(4), losses_and_gradient(1)
    for a, b in zip(together, alone, strict=True):
        assert torch.equal(a[:1], b)


def test_gradients_of_weights_add_over_micro_batches() -> None:
    """In their order, each the gradient that it has without the others."""
    model = on_gpu(lambda: models.llama(num_hidden_layers=1), torch.float32)
    micro_batches = tokens(6, 60).split(2)

    def gradients(*batches: Tensor) -> list[Tensor]:
        model.zero_grad()
        for ids in batches:
            model(input_ids=ids, labels=ids).loss.backward()
        return [x.grad.clone() for x in model.parameters() if x.grad is not None]

    with smem.batch_invariant():
        together = gradients(*micro_batches)
        parts = [gradients(ids) for ids in micro_batches]
    assert together
    for whole, first, second, third in zip(together, *parts, strict=True):
        assert torch.equal(whole, first + second + third)


def test_compiled_model() -> None:
    model = on_gpu(llama)
    ids = tokens(7, 20)
    compiled = torch.compile(model)
    with torch.no_grad():
        compiled(input_ids=ids)
        with smem.batch_invariant():
            assert torch.equal(compiled(input_ids=ids).logits[:1], model(input_ids=ids[:1]).logits)
