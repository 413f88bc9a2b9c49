"""Small models of the kinds that people convert, with random weights and inputs.

Each returns an object with ``logits`` and ``loss``, as the models of transformers do.
"""

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

VOCABULARY = 100
# Weights large enough that the layers matter beside the residual stream.
_SIZES = {"vocab_size": VOCABULARY, "hidden_size": 48, "initializer_range": 0.2}
_LAYERS = {"num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 72}
_TOKENS = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": None}
_DECODER = {**_SIZES, **_LAYERS, **_TOKENS, "num_key_value_heads": 2}
_DRY = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}


def _hugging_face(model: str, config: str, **options: Any) -> nn.Module:
    transformers = pytest.importorskip("transformers")
    return getattr(transformers, model)(getattr(transformers, config)(**options))


def llama(**options: Any) -> nn.Module:
    return _hugging_face("LlamaForCausalLM", "LlamaConfig", **{**_DECODER, **options})


def qwen() -> nn.Module:
    tied = {"head_dim": 12, "tie_word_embeddings": True}
    return _hugging_face("Qwen3ForCausalLM", "Qwen3Config", **_DECODER, **tied)


def gpt2(**options: Any) -> nn.Module:
    sizes = {"vocab_size": VOCABULARY, "n_embd": 48, "n_layer": 2, "n_head": 4, "n_positions": 64}
    dry = {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0, "initializer_range": 0.2}
    return _hugging_face("GPT2LMHeadModel", "GPT2Config", **{**sizes, **dry, **_TOKENS, **options})


def bert() -> nn.Module:
    options = {**_SIZES, **_LAYERS, **_DRY, "max_position_embeddings": 64}
    return _hugging_face("BertForMaskedLM", "BertConfig", **options)


def vit() -> nn.Module:
    image = {"image_size": 16, "patch_size": 4, "num_labels": 5, "initializer_range": 0.2}
    options = {**_LAYERS, **_DRY, **image, "hidden_size": 48}
    return _hugging_face("ViTForImageClassification", "ViTConfig", **options)


def mixtral() -> nn.Module:
    # Eager, because the grouped product takes no float64.
    experts = {"num_local_experts": 4, "experts_implementation": "eager"}
    return _hugging_face("MixtralForCausalLM", "MixtralConfig", **_DECODER, **experts)


class Classifier(nn.Module):
    """Logits of 5 classes for images of 3 x 16 x 16, and the loss."""

    def forward(self, pixel_values: Tensor, labels: Tensor) -> SimpleNamespace:
        logits = self.classify(pixel_values)
        return SimpleNamespace(logits=logits, loss=F.cross_entropy(logits, labels))


class Block(nn.Module):
    """A block of timm's VisionTransformer: queries, keys and values by one Linear."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width)
        )

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(self.norm1(x)).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        attention = F.scaled_dot_product_attention(q, k, v)
        x = x + self.proj(attention.transpose(1, 2).flatten(2))
        return x + self.mlp(self.norm2(x))


class TimmViT(Classifier):
    """The structure of timm's ViT: patches, a class token, blocks, a head."""

    def __init__(self, width: int = 48) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, width, 4, stride=4)
        self.token = nn.Parameter(torch.randn(1, 1, width))
        self.blocks = nn.Sequential(Block(width, 4), Block(width, 4), nn.LayerNorm(width))
        self.head = nn.Linear(width, 5)

    def classify(self, x: Tensor) -> Tensor:
        x = self.patches(x).flatten(2).mT
        x = torch.cat([self.token.expand(len(x), -1, -1), x], 1)
        return self.head(self.blocks(x)[:, 0])


class MLP(Classifier):
    """The structure of torchvision.ops.MLP: activations in place."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            *(nn.Flatten(), nn.Linear(768, 40), nn.LayerNorm(40), nn.ReLU(inplace=True)),
            *(nn.Linear(40, 33), nn.ReLU(inplace=True), nn.Linear(33, 5)),
        )

    def classify(self, x: Tensor) -> Tensor:
        return self.layers(x)


CAUSAL: dict[str, Callable[[], nn.Module]] = {
    "llama": llama,
    "qwen": qwen,
    "gpt2": gpt2,
    "mixtral": mixtral,
}
OF_TEXT = {**CAUSAL, "bert": bert}
MODELS = {**OF_TEXT, "vit": vit, "timm_vit": TimmViT, "mlp": MLP}


def model_of(name: str, device: str, dtype: torch.dtype = torch.float32) -> nn.Module:
    """Return that model; nothing in it is random when it runs."""
    return MODELS[name]().to(device, dtype).eval()


def inputs_of(name: str, device: str, dtype: torch.dtype = torch.float32) -> dict[str, Tensor]:
    """Random inputs for a model of that name, with labels."""
    if name in OF_TEXT:
        tokens = torch.randint(2, VOCABULARY, (3, 11), device=device)
        return {"input_ids": tokens, "labels": tokens.roll(1, 0)}
    images = torch.randn(4, 3, 16, 16, device=device, dtype=dtype)
    return {"pixel_values": images, "labels": torch.randint(5, (4,), device=device)}


def classes_of(model: nn.Module) -> dict[str, type]:
    """The class of each module, by name."""
    return {name: type(module) for name, module in model.named_modules()}


def gradients_of(model: nn.Module) -> list[Tensor]:
    """The gradients of the parameters that have one."""
    return [p.grad for p in model.parameters() if p.grad is not None]


def assert_as_accurate(
    ours: Sequence[Tensor], theirs: Sequence[Tensor], exact: Sequence[Tensor], slack: float = 1
) -> None:
    """Assert that our error in each tensor is at most twice theirs, and a little.

    Errors are norms, to be judged against ``exact``. The little is ``slack`` ulps of the norm of
    all tensors together: a gradient that should be zero has no scale of its own.
    """
    scale = torch.cat([x.flatten() for x in exact]).norm().item()
    allowance = slack * torch.finfo(ours[0].dtype).eps * scale
    for place, (x, y, reference) in enumerate(zip(ours, theirs, exact, strict=True)):
        error, other = ((z.double() - reference).norm().item() for z in (x, y))
        assert error <= 2 * other + allowance, (
            f"tensor {place}: error {error:.3g}, unconverted {other:.3g}, allowed {allowance:.3g}"
        )
