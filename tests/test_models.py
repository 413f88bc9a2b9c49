"""Whole models, converted: they compute, learn, generate, are saved and wrapped as before."""

import copy
import io
import os
import pickle
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"  # before transformers is imported: nothing is downloaded

import pytest
import torch
from helpers import same_bits
from models import (
    CAUSAL,
    MODELS,
    VOCABULARY,
    assert_as_accurate,
    classes_of,
    gpt2,
    gradients_of,
    inputs_of,
    llama,
    model_of,
)
from torch import Tensor, nn
from torch.nn.utils import parametrizations, parametrize

import torch_smem_gemm as smem

every_model = pytest.mark.parametrize("name", MODELS)
every_causal_model = pytest.mark.parametrize("name", CAUSAL)
with_and_without_conv1d = pytest.mark.parametrize("name", ["llama", "gpt2"])


@pytest.fixture(autouse=True)
def _no_tf32_in_convolutions() -> Iterator[None]:
    """Torch's default for the patches of a ViT; errors of the layers would drown in it."""
    convolutions = torch.backends.cudnn.conv
    before, convolutions.fp32_precision = convolutions.fp32_precision, "ieee"
    yield
    convolutions.fp32_precision = before


def duplicates(
    name: str, device: str, dtype: torch.dtype = torch.float32
) -> tuple[nn.Module, nn.Module, nn.Module]:
    """A model converted, the same unconverted, and in float64."""
    theirs = model_of(name, device, dtype)
    ours = copy.deepcopy(theirs)
    assert smem.convert(ours)
    return ours, theirs, copy.deepcopy(theirs).double()


def of_float64(inputs: dict[str, Tensor]) -> dict[str, Tensor]:
    return {k: x.double() if x.is_floating_point() else x for k, x in inputs.items()}


# --- the same numbers


@every_model
def test_logits_loss_and_gradients_agree(name: str, device: str) -> None:
    ours, theirs, exact = duplicates(name, device)
    inputs = inputs_of(name, device)
    results = [model(**inputs) for model in (ours, theirs)] + [exact(**of_float64(inputs))]
    assert_as_accurate(*([result.logits, result.loss] for result in results))
    for result in results:
        result.loss.backward()
    assert_as_accurate(*map(gradients_of, (ours, theirs, exact)))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=["float16", "bfloat16"])
@pytest.mark.parametrize("name", sorted(set(MODELS) - {"mixtral"}))  # rounding chooses its experts
def test_logits_agree_in_two_bytes(name: str, dtype: torch.dtype, device: str) -> None:
    ours, theirs, exact = duplicates(name, device, dtype)
    inputs = inputs_of(name, device, dtype)
    with torch.no_grad():
        results = [model(**inputs) for model in (ours, theirs)] + [exact(**of_float64(inputs))]
    assert_as_accurate(*([result.logits] for result in results))


@every_model
def test_twenty_optimiser_steps_agree(name: str, device: str) -> None:
    models = duplicates(name, device)
    inputs = inputs_of(name, device)
    losses = []
    for model, batch in zip(models, (inputs, inputs, of_float64(inputs)), strict=True):
        # With Adam's own eps, gradients that should be zero (a key's bias has none) would move
        # their parameters as far as any other.
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, eps=1e-4)
        losses.append([])
        for _ in range(20):
            optimizer.zero_grad()
            loss = model(**batch).loss
            loss.backward()
            optimizer.step()
            losses[-1].append(loss.detach())
        assert losses[-1][-1] < 0.9 * losses[-1][0]
    assert_as_accurate(*([torch.stack(of_one)] for of_one in losses), slack=8)
    # The steps amplify the first roundings in a few directions, by chance in ours or in theirs.
    assert_as_accurate(*(list(model.parameters()) for model in models), slack=64)


@every_causal_model
def test_generate_gives_the_same_tokens(name: str, device: str) -> None:
    model = model_of(name, device)
    prompts = inputs_of(name, device)["input_ids"]
    padded = torch.ones_like(prompts)
    padded[1, :4] = 0

    def generated() -> list[Tensor]:
        return [
            model.generate(prompts, attention_mask=padded, max_new_tokens=8, **options)
            for options in ({"do_sample": False}, {"do_sample": False, "num_beams": 3})
        ]

    expected = generated()
    assert smem.convert(model)
    for tokens, others in zip(generated(), expected, strict=True):
        assert tokens.shape == (3, 19)
        assert torch.equal(tokens, others)


@pytest.mark.gpu
@with_and_without_conv1d
def test_layers_of_a_causal_model_are_batch_invariant(name: str) -> None:
    """Each converted layer gives a sequence the same bits alone, among 32, in chunks, and decoded.

    What stands between the layers, attention above all, is torch's.
    """
    model = {
        "llama": lambda: llama(hidden_size=320, intermediate_size=808),
        "gpt2": lambda: gpt2(n_embd=320),
    }[name]()
    model = model.to("cuda", torch.bfloat16).eval()
    seen: dict[str, tuple[Tensor, Tensor]] = {}
    for layer in smem.convert(model):
        model.get_submodule(layer).register_forward_hook(
            lambda module, args, output, layer=layer: seen.update({layer: (args[0], output)})
        )
    with torch.no_grad():
        model(torch.randint(VOCABULARY, (32, 48), device="cuda"))
        assert len(seen) == {"llama": 15, "gpt2": 9}[name]
        for layer, (x, y) in list(seen.items()):
            module = model.get_submodule(layer)
            for row in (0, 17, 31):
                alone, expected = x[row : row + 1], y[row : row + 1]
                assert same_bits(module(alone), expected), layer
                chunks = [module(chunk) for chunk in alone.split([1, 5, 16, 26], dim=1)]
                assert same_bits(torch.cat(chunks, dim=1), expected), layer
                assert same_bits(module(alone[:, -1:]), expected[:, -1:]), layer


@pytest.mark.gpu
def test_the_example_of_batch_invariance() -> None:
    """A Llama of 29 layers: all give the same bits once converted."""
    root = Path(__file__).resolve().parent.parent
    example = [sys.executable, str(root / "examples" / "batch_invariance.py")]
    environment = os.environ | {"PYTHONPATH": str(root)}
    run = subprocess.run(example, env=environment, capture_output=True, text=True, timeout=300)
    assert run.returncode == 0, run.stderr
    answers = re.findall(r"^layers, .*differ +(\d+ of 29) differ$", run.stdout, re.MULTILINE)
    assert answers == ["0 of 29"] * 2, run.stdout


# --- what is converted, what is skipped, and back


@every_model
def test_every_linear_is_converted_and_revert_restores(name: str) -> None:
    model = model_of(name, "cpu")
    inputs = inputs_of(name, "cpu")
    expected, classes = model(**inputs).logits, classes_of(model)
    variables = {key: dict(vars(module)) for key, module in model.named_modules()}
    converted = smem.convert(model)
    assert converted == [k for k, c in classes.items() if c.__name__ in ("Linear", "Conv1D")]
    for layer in converted:
        module = model.get_submodule(layer)
        assert type(module) is not classes[layer]
        assert isinstance(module, classes[layer])
        assert type(module).__module__.startswith("torch_smem_gemm.")
    assert smem.revert(model) == converted
    assert classes_of(model) == classes
    assert {key: vars(module) for key, module in model.named_modules()} == variables
    assert same_bits(model(**inputs).logits, expected)


def test_experts_and_routers_are_skipped_and_said_to_be() -> None:
    assert smem.convert(model_of("mixtral", "cpu")).skipped == {
        f"model.layers.{layer}.mlp.{part}": f"transformers.models.mixtral.modeling_mixtral.{kind} "
        "multiplies by parameters of its own, without a Linear"
        for layer in (0, 1)
        for part, kind in (("gate", "MixtralTopKRouter"), ("experts", "MixtralExperts"))
    }
    assert smem.convert(model_of("gpt2", "cpu")).skipped == {}


# --- saved, copied, wrapped


def through_torch(model: nn.Module, path: Path) -> nn.Module:
    torch.save(model, path / "model.pt")
    return torch.load(path / "model.pt", weights_only=False)


def through_hugging_face(model: nn.Module, path: Path) -> nn.Module:
    model.save_pretrained(path)
    twin = type(model).from_pretrained(path).eval()
    assert smem.convert(twin)
    return twin


def through_state_dict(model: nn.Module, path: Path) -> nn.Module:
    file = io.BytesIO()
    torch.save(model.state_dict(), file)
    file.seek(0)
    twin = type(model)(model.config).eval()
    assert smem.convert(twin)
    twin.load_state_dict(torch.load(file))
    return twin


def through_safetensors(model: nn.Module, path: Path) -> nn.Module:
    safetensors = pytest.importorskip("safetensors.torch")
    safetensors.save_model(model, path / "model.safetensors")
    twin = type(model)(model.config).eval()
    safetensors.load_model(twin, path / "model.safetensors")
    assert smem.convert(twin)
    return twin


@pytest.mark.parametrize("name", ["qwen", "gpt2"])  # both tie the head to the embedding
@pytest.mark.parametrize(
    "duplicate",
    [
        lambda model, path: copy.deepcopy(model),
        lambda model, path: pickle.loads(pickle.dumps(model)),
        through_torch,
        through_state_dict,
        through_safetensors,
        through_hugging_face,
    ],
    ids=["deepcopy", "pickle", "torch", "state_dict", "safetensors", "hugging_face"],
)
def test_copies_compute_the_same_and_revert(
    name: str, duplicate: Callable[[nn.Module, Path], nn.Module], tmp_path: Path
) -> None:
    model = model_of(name, "cpu")
    keys = list(model.state_dict())
    converted = smem.convert(model)
    assert list(model.state_dict()) == keys
    twin = duplicate(model, tmp_path)
    inputs = inputs_of(name, "cpu")
    assert classes_of(twin) == classes_of(model)
    assert twin.lm_head.weight is twin.get_input_embeddings().weight
    assert twin.lm_head.weight is not model.lm_head.weight
    assert same_bits(twin(**inputs).logits, model(**inputs).logits)
    assert smem.revert(twin) == converted


@pytest.mark.parametrize(
    "wrap",
    [parametrizations.weight_norm, parametrizations.spectral_norm],
    ids=["weight", "spectral"],
)
@with_and_without_conv1d
def test_parametrizations_of_converted_layers(
    name: str, wrap: Callable[[nn.Module], nn.Module], device: str
) -> None:
    """They subclass our class; without them the layer is ours again, and can be reverted."""
    theirs = model_of(name, device)
    ours = copy.deepcopy(theirs)
    converted = smem.convert(ours)
    layers = [layer for layer in converted if layer != "lm_head"]
    for model in (ours, theirs):
        for layer in layers:
            torch.manual_seed(1)  # the spectral norm starts from random vectors
            wrap(model.get_submodule(layer))
    exact = copy.deepcopy(theirs).double()
    models, inputs = (ours, theirs, exact), inputs_of(name, device)
    for model in models:
        model(**inputs).loss.backward()
    assert len(gradients_of(ours)) > len(layers)
    assert_as_accurate(*map(gradients_of, models), slack=2)
    assert smem.revert(copy.deepcopy(ours)) == ["lm_head"]
    for layer in layers:
        parametrize.remove_parametrizations(ours.get_submodule(layer), "weight")
    assert smem.revert(ours) == converted


@pytest.mark.parametrize("first", ["convert", "wrap"])
@with_and_without_conv1d
def test_lora_by_peft(name: str, first: str, device: str) -> None:
    """On converted layers, and converted inside of adapters, which are left alone themselves."""
    peft = pytest.importorskip("peft")
    target = {"llama": ["q_proj", "down_proj"], "gpt2": ["c_attn", "c_proj"]}[name]
    config = peft.LoraConfig(
        r=4, target_modules=target, fan_in_fan_out=name == "gpt2", init_lora_weights=False
    )
    theirs = model_of(name, device)
    base = copy.deepcopy(theirs)
    converted = smem.convert(base) if first == "convert" else []
    torch.manual_seed(1)
    ours = peft.get_peft_model(base, config)
    torch.manual_seed(1)
    theirs = peft.get_peft_model(theirs, copy.deepcopy(config))
    if first == "wrap":
        converted = smem.convert(ours)
        adapted = [key for key in classes_of(ours) if key.endswith(".base_layer")]
        assert set(converted) > set(adapted)
        assert set(converted.skipped) == {key.removesuffix(".base_layer") for key in adapted}
    exact = copy.deepcopy(theirs).double()
    models, inputs = (ours, theirs, exact), inputs_of(name, device)
    logits = []
    for model in models:
        result = model(**inputs)
        result.loss.backward()
        logits.append(result.logits)
    assert len(gradients_of(ours)) == len([p for p in ours.parameters() if p.requires_grad]) > 0
    assert_as_accurate(*([x] for x in logits))
    assert_as_accurate(*map(gradients_of, models), slack=2)
    merged = [model.merge_and_unload()(**inputs).logits for model in models]
    assert_as_accurate(*([x] for x in merged), slack=2)


@pytest.mark.parametrize("reentrant", [False, True])
@with_and_without_conv1d
def test_gradient_checkpointing(name: str, reentrant: bool, device: str) -> None:
    model = model_of(name, device).train()
    assert smem.convert(model)
    inputs = inputs_of(name, device)
    model(**inputs).loss.backward()
    expected = gradients_of(model)
    model.zero_grad()
    model.gradient_checkpointing_enable({"use_reentrant": reentrant})
    model.enable_input_require_grads()
    model(**inputs).loss.backward()
    for gradient, other in zip(gradients_of(model), expected, strict=True):
        torch.testing.assert_close(gradient, other)
