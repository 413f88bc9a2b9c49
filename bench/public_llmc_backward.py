"""Backward kernels of llm.c's dev/cuda, launched as the files do, on small problems."""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch
from public_case import Case
from torch import Tensor
from torch.nn import functional

FOLDER = "dev/cuda"


def cases() -> Iterator[Case]:
    """Yield one case for each kernel."""
    yield from elementwise()
    yield from biases()
    yield from layernorms()
    yield from softmaxes()
    yield from permutations()
    yield from classifiers()


def elementwise() -> Iterator[Case]:
    """Yield the gradients of GELU, embeddings and cross entropy."""
    x, gradient = torch.randn(2, 4096).bfloat16()
    inp = x.float().requires_grad_()
    functional.gelu(inp, approximate="tanh").backward(gradient.float())
    for number, threads in ((1, 4096), (2, 512)):
        yield Case(
            *(f"{FOLDER}/gelu_backward.cu", f"gelu_backward{number}", threads // 128, 128),
            args=(torch.zeros_like(x), x, gradient, 4096),
            expected={0: _gradient(inp)},
            tolerance=0.03,
        )
    b, t, c, vocabulary = 2, 16, 64, 50
    tokens = torch.randint(vocabulary, (b, t), dtype=torch.int32)
    gradient = torch.randn(b, t, c)
    table = torch.zeros(vocabulary, c).index_add(0, tokens.flatten(), gradient.view(-1, c))
    for number, grid in ((1, b * t * c // 128), (2, 1)):
        yield Case(
            *(f"{FOLDER}/encoder_backward.cu", f"encoder_backward_kernel{number}", grid, 128),
            args=(torch.zeros(vocabulary, c), torch.zeros(t, c), gradient, tokens, b, t, c),
            expected={0: table, 1: gradient.sum(0)},
        )
    chances, losses = torch.rand(b, t, vocabulary).softmax(-1), torch.rand(b, t)
    wanted = (chances - functional.one_hot(tokens.long(), vocabulary)) * losses[..., None]
    yield Case(
        f"{FOLDER}/crossentropy_softmax_backward.cu",
        *("crossentropy_softmax_backward_kernel1", -(-b * t * vocabulary // 128), 128),
        args=(torch.zeros_like(chances), losses, chances, tokens, b, t, vocabulary),
        expected={0: wanted},
    )


def _gradient(x: Tensor) -> Tensor:
    assert x.grad is not None
    return x.grad


def biases() -> Iterator[Case]:
    """Yield sums over the columns of a gradient."""
    b, t, c = 2, 64, 256
    x = torch.randn(b, t, c)
    wanted = {0: x.sum((0, 1))}
    file = f"{FOLDER}/matmul_backward.cu"
    yield Case(
        *(file, "matmul_backward_bias_kernel_naive", 2, 128, (torch.zeros(c), x, b, t, c)),
        expected=wanted,
    )
    yield Case(
        *(file, "matmul_backward_bias_kernel_faster", c, 64, (torch.zeros(c), x, b, t, c)),
        expected=wanted,
        shared_mem=256,
    )
    file = f"{FOLDER}/matmul_backward_bias.cu"
    low = x.bfloat16()
    wanted = {0: low.float().sum((0, 1))}
    for number, grid, block, shared in (
        (1, c, 128, 512),
        (2, c // 4, 128, 0),
        (3, c, 128, 0),
        (4, c // 32, 128, 512),
    ):
        yield Case(
            *(file, f"matmul_backward_bias_kernel{number}", grid, block),
            args=(torch.zeros(c, dtype=torch.bfloat16), low, b, t, c),
            expected=wanted,
            shared_mem=shared,
            tolerance=0.05,
        )
    yield Case(
        *(file, "matmul_backward_bias_kernel7", (1, 2), (32, 16)),
        args=(torch.zeros(c), low, b, t, c, 512),
        expected=wanted,
        shared_mem=1024,
        faults=("barrier not reached by all",),
        why="half of the warps return before three barriers, which only Volta and later allow",
    )
    for number in (8, 9):
        for name in ("false", "true"):
            is_float = name == "true"
            parts = 2 if is_float else 1
            out = torch.zeros(parts, c, dtype=torch.float32 if is_float else torch.bfloat16)
            expected = wanted
            if number == 9 and is_float:
                row = torch.arange(b * t) // 16 % 2  # 4 * 4 rows a step, two blocks in turn
                sums = [low.float().view(-1, c)[row == i].sum(0) for i in range(2)]
                expected = {0: torch.stack(sums)}
            type_name = "float" if is_float else "floatX"
            yield Case(
                *(file, f"matmul_backward_bias_kernel{number}<{type_name}, {name}>"),
                *((c // 64, parts), (4, 8, 4)),
                args=(out, low, b, t, c, b"\0"),
                expected=expected,
                tolerance=1e-3 if is_float else 0.05,
            )
    source = torch.randn(c)
    target = torch.randn(c).bfloat16()
    yield Case(
        *(file, "cast_and_add_kernel", 1, 256, (target.clone(), source, c)),
        expected={0: target.float() + source},
        tolerance=0.03,
    )
    parts = torch.randn(3, c)
    yield Case(
        *(file, "reduce_add_sum_kernel", 1, 256, (target.clone(), parts, c, 3)),
        expected={0: target.float() + parts.sum(0)},
        tolerance=0.03,
    )


def layernorms() -> Iterator[Case]:
    """Yield the gradients of a layer normalisation."""
    file, b, t, c = f"{FOLDER}/layernorm_backward.cu", 2, 16, 512
    x, gradient, weight = torch.randn(b, t, c), torch.randn(b, t, c), torch.randn(c)

    def wanted(x: Tensor, gradient: Tensor, weight: Tensor) -> dict[int, Tensor]:
        parts = [part.float().detach().requires_grad_() for part in (x, weight, torch.zeros(c))]
        functional.layer_norm(parts[0], (c,), parts[1], parts[2]).backward(gradient.float())
        return dict(enumerate(map(_gradient, parts)))

    def statistics(x: Tensor) -> tuple[Tensor, Tensor]:
        return x.mean(-1), torch.rsqrt(x.var(-1, unbiased=False) + 1e-5)

    def outs(dtype: torch.dtype) -> list[Tensor]:
        return [torch.zeros(*shape, dtype=dtype) for shape in ((b, t, c), (c,), (c,))]

    given = (gradient, x, weight, *statistics(x), b, t, c)
    exact = {"expected": wanted(x, gradient, weight), "tolerance": 1e-3}
    yield Case(
        *(file, "layernorm_backward_kernel1", 1, 32, (*outs(torch.float32), *given)), **exact
    )
    types = "<float, float, float, float>"
    dweight, dbias = torch.zeros(2, c)
    yield Case(
        *(file, f"layernorm_backward_kernel2{types}", 8, 128),
        args=(*outs(torch.float32), *given, dweight, dbias),
        expected={0: exact["expected"][0], 11: exact["expected"][1], 12: exact["expected"][2]},
        shared_mem=8 * c,
        tolerance=1e-3,
    )
    yield Case(
        *(file, "copy_to_dweight_dbias<float>", 1, 512),
        args=(c, torch.zeros(c), torch.zeros(c), weight, gradient[0, 0].contiguous()),
        expected={1: weight, 2: gradient[0, 0]},
    )
    yield Case(
        *(file, f"layernorm_backward_kernel3{types}", 4, 128, (*outs(torch.float32), *given)),
        shared_mem=8 * c,
        **exact,
    )
    for number in (5, 6):
        scratch = torch.zeros(4 * 2 * c + 1)
        yield Case(
            *(file, f"layernorm_backward_kernel{number}{types}", 4, 128),
            args=(*outs(torch.float32), scratch, *given),
            shared_mem=8 * c + 4,
            **exact,
        )
    low = [part.bfloat16() for part in (gradient, x, weight, *statistics(x))]
    rough = {"expected": wanted(low[1], low[0], low[2]), "tolerance": 0.1}
    types = "<__nv_bfloat16, __nv_bfloat16, __nv_bfloat16, __nv_bfloat16>"
    yield Case(
        *(file, f"layernorm_backward_kernel4{types}", 4, 128),
        args=(*outs(torch.bfloat16), *low, b, t, c),
        shared_mem=8 * c,
        **rough,
    )
    for number, shared in ((7, 2 * c + 1), (8, 2 * c + 1), (9, 2 * c + 257), (10, 2 * c + 768)):
        yield Case(
            *(file, f"layernorm_backward_kernel{number}", 4, 128),
            args=(*outs(torch.bfloat16), torch.zeros(32 + 4 * 2 * c), *low, b, t, c),
            shared_mem=4 * shared,
            **rough,
        )


def softmaxes() -> Iterator[Case]:
    """Yield the gradients of a causal softmax."""
    file, b, heads, t, c = f"{FOLDER}/attention_backward.cu", 1, 2, 64, 32
    scale = 1 / math.sqrt(c // heads)
    causal = torch.ones(t, t, dtype=torch.bool).tril()
    scores = torch.randn(b, heads, t, t, requires_grad=True)
    weights = (scores * scale).masked_fill(~causal, -math.inf).softmax(-1)
    gradient = torch.randn_like(weights)
    weights.backward(gradient)
    given = (gradient, weights.detach(), b, t, c)
    wanted = {0: _gradient(scores)}
    race = {
        "faults": ("race",),
        "why": "the first warp clears what the others store, without a barrier between them",
    }
    for number, name, grid, block, last in (
        (1, "", 1, 64, heads),
        (2, "", (1, b * heads), 64, heads),
        (3, "", (16, b * heads), 128, heads),
        (4, "", (2, b * heads), 128, heads),
        (5, "", (2, b * heads), 128, heads),
        (6, "<64>", (t, b * heads), 64, heads),
        (7, "<64>", (t, b * heads), 64, scale),
        (8, "<64>", (t // 4, b * heads), 64, scale),
    ):
        out = torch.zeros(b, heads, t, t)
        yield Case(
            *(file, f"softmax_autoregressive_backward_kernel{number}{name}", grid, block),
            args=(out, *given, last),
            expected=wanted,
            **(race if number in (7, 8) else {}),
        )


def permutations() -> Iterator[Case]:
    """Yield the gradients of permutations."""
    file, b, t, heads, size = f"{FOLDER}/attention_backward.cu", 2, 64, 3, 16
    gradients = torch.randn(3, b, heads, t, size)
    grid = b * t * heads * size // 256
    out = torch.zeros(b, t, 3, heads, size)
    yield Case(
        *(file, "permute_kernel_backward", grid, 256, (out, *gradients, b, t, heads, size)),
        expected={0: gradients.permute(1, 3, 0, 2, 4)},
    )
    x = torch.randn(b, t, heads, size)
    out = torch.zeros(b, heads, t, size)
    yield Case(
        *(file, "unpermute_kernel_backward", grid, 256, (out, x, b, t, heads, size)),
        expected={0: x.transpose(1, 2)},
    )


def classifiers() -> Iterator[Case]:
    """Yield cross entropies that also return the gradients."""
    file, b, t, classes, padded = f"{FOLDER}/classifier_fused.cu", 2, 8, 1000, 1024
    logits = torch.full((b, t, padded), math.nan)
    logits[..., :classes] = torch.randn(b, t, classes)
    targets = torch.randint(classes, (b, t), dtype=torch.int32)
    losses = torch.rand(b, t)
    chances = logits[..., :classes].softmax(-1)
    wanted = (chances - functional.one_hot(targets.long(), classes)) * losses[..., None]
    rows = torch.zeros(b, t, padded)
    rows[..., :classes] = wanted
    loss = -chances.gather(-1, targets.long()[..., None])[..., 0].log()
    for number in (1, 2, 3, 4, 5):
        outs: list[Tensor | None] = [torch.zeros(b, t, padded), torch.zeros(b, t)]
        name = f"fused_classifier_kernel{number}" + ("<true, false>" if number == 5 else "")
        yield Case(
            *(file, name, b * t // 4 if number == 1 else b * t, 128),
            args=(
                *(outs if number == 1 else [*outs, None]),
                *(logits, losses, targets, b, t, classes, padded),
            ),
            expected={0: rows, 1: loss},
        )
