"""Forward kernels of llm.c's dev/cuda, launched as the files do, on small problems."""

from __future__ import annotations

import math
from collections.abc import Iterator

import public_llmc_backward
import torch
from public_case import Case
from torch import Tensor
from torch.nn import functional

FOLDER = "dev/cuda"
BF16 = {"tolerance": 0.03}  # of values of magnitude 1, and up to four roundings


def bf16(*shape: int) -> Tensor:
    """Return random values in bfloat16."""
    return torch.randn(*shape).bfloat16()


def cases() -> Iterator[Case]:
    """Yield one case for each kernel."""
    yield from layernorms()
    yield from residuals()
    yield from softmaxes()
    yield from attention_kernels()
    yield from triangular_products()
    yield from permutations()
    yield from matrix_products()
    yield from elementwise()
    yield from public_llmc_backward.cases()


def layernorms() -> Iterator[Case]:
    """Yield layer normalisations, the mean and the reciprocal deviation apart in two of them."""
    file, n, c = f"{FOLDER}/layernorm_forward.cu", 32, 256
    x, weight, bias = torch.randn(n, c), torch.randn(c), torch.randn(c)
    mean, rstd = x.mean(1), torch.rsqrt(x.var(1, unbiased=False) + 1e-5)
    expected = {0: functional.layer_norm(x, (c,), weight, bias), 1: mean, 2: rstd}
    for number, grid, block, shared in (
        (1, 1, 64, 0),
        (3, 8, 128, 0),
        (4, 8, 128, 0),
        (5, 32, 128, 0),
        (6, 8, (32, 4), (2 + 4) * c * 4),
    ):
        yield Case(
            *(file, f"layernorm_forward_kernel{number}", grid, block),
            args=(torch.zeros(n, c), torch.zeros(n), torch.zeros(n), x, weight, bias, n, c),
            expected=expected,
            shared_mem=shared,
        )
    reduction = {"shared_mem": 4 * 128}
    yield Case(
        *(file, "mean_kernel", n, 128, (torch.zeros(n), x, n, c, 128)),
        expected={0: mean},
        **reduction,
    )
    yield Case(
        *(file, "rstd_kernel", n, 128, (torch.zeros(n), x, mean, n, c, 128)),
        expected={0: rstd},
        **reduction,
    )
    yield Case(
        *(file, "normalization_kernel", n * c // 256, 256),
        args=(torch.zeros(n, c), x, mean, rstd, weight, bias, 1, n, c),
        expected={0: expected[0]},
    )


def residuals() -> Iterator[Case]:
    """Yield additions of a residual, alone and with the layer normalisation that follows."""
    n, c = 32, 256
    a, b = bf16(n, c), bf16(n, c)
    total = a + b
    for kernel, blocks in (("residual_forward_kernel1", 32), ("residual_forward_kernel2", 4)):
        yield Case(
            *(f"{FOLDER}/residual_forward.cu", kernel, blocks, 256),
            args=(torch.zeros_like(a), a, b, n * c),
            expected={0: total},
            **BF16,
        )
    weight, bias = bf16(c), bf16(c)
    x = total.float()
    normed = functional.layer_norm(x, (c,), weight.float(), bias.float())
    mean, rstd = x.mean(1), torch.rsqrt(x.var(1, unbiased=False) + 1e-5)
    rows = 2 * c
    for kernel, grid, block, shared in (
        ("fused_residual_forward2", 1, 32, 0),
        ("fused_residual_forward3", 8, (32, 4), 0),
        ("fused_residual_forward_kernel4", 8, (32, 4), 0),
        ("fused_residual_forward_kernel5", 8, (32, 4), (2 + 4) * rows),
        ("fused_residual_forward_kernel6", 4, (32, 1, 4), (2 + 4) * rows + 64 * 4 * 4),
    ):
        outs = [torch.zeros_like(a), torch.zeros_like(a)]
        outs += [torch.zeros(n, dtype=torch.bfloat16) for _ in range(2)]
        yield Case(
            *(f"{FOLDER}/fused_residual_forward.cu", kernel, grid, block),
            args=(*outs, a, b, weight, bias, n, c),
            expected={0: total, 1: normed, 2: mean, 3: rstd},
            shared_mem=shared,
            **BF16,
        )


def softmaxes() -> Iterator[Case]:
    """Yield softmaxes of rows."""
    file, n, c = f"{FOLDER}/softmax_forward.cu", 32, 300
    x = torch.randn(n, c)
    for kernel, grid, block, shared in (
        ("softmax_forward_kernel1", 1, 64, 0),
        ("softmax_forward_kernel2", n, 128, 512),
        ("softmax_forward_kernel3", n, 32, 128),
        ("softmax_forward_kernel4", n, 128, 16),
        ("softmax_forward_kernel7", n, 128, 32),
        ("softmax_forward_online_kernel1", 1, 64, 0),
        ("softmax_forward_online_kernel2", 8, 128, 0),
        ("softmax_forward_online_kernel8", 8, 128, 0),
    ):
        yield Case(
            *(file, kernel, grid, block, (torch.zeros(n, c), x, n, c)),
            expected={0: x.softmax(1)},
            shared_mem=shared,
            faults=("race",) if kernel == "softmax_forward_kernel4" else (),
            why="sums overwrite the maximum, which other warps may not have read",
        )


def attention_kernels() -> Iterator[Case]:
    """Yield the steps of causal attention, and attention in one kernel."""
    file = f"{FOLDER}/attention_forward.cu"
    b, t, heads, size = 2, 64, 3, 16
    c = heads * size
    inp = torch.randn(b, t, 3, heads, size)
    q, k, v = inp.permute(2, 0, 3, 1, 4).contiguous()
    causal = torch.ones(t, t, dtype=torch.bool).tril()
    scale = 1 / math.sqrt(size)
    scores = (q @ k.mT * scale).masked_fill(~causal, -math.inf)
    weights = scores.softmax(-1)
    values = weights @ v
    out = values.transpose(1, 2)
    pairs = b * heads * t * t
    yield Case(
        *(file, "attention_query_key_kernel1", pairs // 256, 256),
        args=(torch.zeros_like(scores), inp, b, t, c, heads),
        expected={0: scores},
    )
    yield Case(
        *(file, "attention_softmax_kernel1", 2, 256),
        args=(torch.zeros_like(scores), scores, b, t, heads),
        expected={0: weights},
    )
    yield Case(
        *(file, "attention_value_kernel1", 2, 256),
        args=(torch.zeros(b, t, c), weights, inp, b, t, c, heads),
        expected={0: out},
    )
    yield Case(
        *(file, "softmax_forward_kernel5", b * heads * t // 8, 256),
        args=(torch.zeros_like(scores), scale, q @ k.mT, b * heads, t),
        expected={0: weights},
    )
    yield Case(
        *(file, "attention_forward_fused1", (t // 4, heads, b), 128),
        args=(torch.zeros(b, t, c), *torch.zeros(2, *scores.shape), inp, b, t, c, heads),
        expected={0: out, 2: weights},
        differs=True,
        why="lanes read from global memory what others stored, without __syncwarp(): right where "
        "all lanes of a warp run in step",
    )
    sums, largest = torch.zeros(b, heads, t), torch.full((b, heads, t), -1e4)
    yield Case(
        *(file, "attention_forward_kernel2", (b, heads), 32),
        args=(q, k, v, t, size, 2, 2, 32, 32, scale, sums, largest, torch.zeros_like(q)),
        expected={12: values},
        shared_mem=4 * (3 * 32 * size + 32 * 32),
    )
    yield Case(
        *(file, "scale_kernel", pairs // 256, 256, (q @ k.mT, scale, b, heads, t)),
        expected={0: scores},
    )
    low = torch.zeros_like(scores, dtype=torch.bfloat16)
    products = (q @ k.mT).bfloat16()
    masked = (products.float() * scale).masked_fill(~causal, -math.inf)
    yield Case(
        *(file, "softmax_forward_kernel5_lowp", b * heads * t // 8, 256),
        args=(low, scale, products, b * heads, t),
        expected={0: masked.softmax(-1)},
        **BF16,
    )


def triangular_products() -> Iterator[Case]:
    """Yield products of queries and keys below the diagonal."""
    t, size = 256, 32
    inp = torch.randn(1, t, 3, 1, size)
    q, k, _ = inp.permute(2, 0, 3, 1, 4).contiguous()
    for function in ("matmul_tri_naive", "matmul_tri_registers", "matmul_tri3", "matmul_tri4"):
        # Squares on the diagonal are computed whole.
        square = torch.arange(t) // 8
        wanted = (q @ k.mT / math.sqrt(size)).masked_fill(square[:, None] < square, 0)
        yield Case(
            f"{FOLDER}/trimat_forward.cu",
            *(f"trimul_global<{function}>", (2, 2, 1), (16, 16)),
            args=(torch.zeros(1, 1, t, t), inp, t, size, 1),
            expected={0: wanted},
        )


def permutations() -> Iterator[Case]:
    """Yield permutations of four dimensions."""
    b, t, heads, size = 2, 64, 3, 16
    inp = torch.randn(b, t, 3, heads, size)
    parts = inp.permute(2, 0, 3, 1, 4).contiguous()
    grid = b * t * heads * size // 256
    for file in ("attention_forward", "attention_backward", "trimat_forward"):
        yield Case(
            *(f"{FOLDER}/{file}.cu", "permute_kernel", grid, 256),
            args=(*torch.zeros_like(parts), inp, b, t, heads, size),
            expected=dict(enumerate(parts)),
        )
    file = f"{FOLDER}/attention_forward.cu"
    x = parts[0]
    yield Case(
        *(file, "unpermute_kernel", grid, 256, (x, torch.zeros_like(x), b, t, heads, size)),
        expected={1: x.transpose(1, 2)},
    )
    yield Case(
        *(file, "permute_kernel_lowp", grid, 256),
        args=(*torch.zeros_like(parts, dtype=torch.bfloat16), inp, b, t, heads, size),
        expected=dict(enumerate(parts.bfloat16())),
    )
    low = x.bfloat16()
    yield Case(
        *(file, "unpermute_kernel_lowp", grid, 256, (low, torch.zeros_like(x), b, t, heads, size)),
        expected={1: low.float().transpose(1, 2)},
    )
    x = torch.randn(6, 5, 4, 8)
    yield Case(
        *(f"{FOLDER}/permute.cu", "permute_kernel", 4, 256, (x, torch.zeros_like(x), 6, 5, 4, 8)),
        expected={1: x.permute(3, 2, 0, 1)},
    )


def matrix_products() -> Iterator[Case]:
    """Yield products with a bias."""
    file, rows, depth, cols = f"{FOLDER}/matmul_forward.cu", 128, 64, 128
    x, weight, bias = torch.randn(rows, depth), torch.randn(cols, depth), torch.randn(cols)
    product = x @ weight.T
    yield Case(
        *(file, "matmul_forward_kernel1", (rows // 16, cols // 16), (16, 16)),
        args=(torch.zeros(rows, cols), x, weight, bias, rows, depth, cols),
        expected={0: product + bias},
    )
    yield Case(
        *(file, "matmul_forward_kernel4", (1, 1), (16, 16)),
        args=(torch.zeros(rows, cols), x, weight, bias, depth, cols),
        expected={0: product + bias},
    )
    yield Case(
        *(file, "add_bias", 4, 256, (product.clone(), bias, 1, rows, cols)),
        expected={0: product + bias},
    )


def elementwise() -> Iterator[Case]:
    """Yield GELU, embeddings, cross entropy, AdamW and norms."""
    x = bf16(4096)
    gelu = functional.gelu(x.float(), approximate="tanh")
    for number, threads in ((1, 4096), (2, 512)):
        yield Case(
            f"{FOLDER}/gelu_forward.cu",
            *(f"gelu_forward_kernel{number}", threads // 128, 128, (torch.zeros_like(x), x, 4096)),
            expected={0: gelu},
            **BF16,
        )
    b, t, c, vocabulary = 2, 16, 64, 50
    tokens = torch.randint(vocabulary, (b, t), dtype=torch.int32)
    table, positions = bf16(vocabulary, c), bf16(t, c)
    for number, threads in ((1, b * t), (2, b * t * c), (3, b * t * c // 8)):
        yield Case(
            *(f"{FOLDER}/encoder_forward.cu", f"encoder_forward_kernel{number}"),
            *(-(-threads // 128), 128),
            args=(torch.zeros_like(table[tokens.long()]), tokens, table, positions, b, t, c),
            expected={0: table[tokens.long()] + positions},
            **BF16,
        )
    chances = torch.rand(b, t, vocabulary).softmax(-1)
    yield Case(
        *(f"{FOLDER}/crossentropy_forward.cu", "crossentropy_forward_kernel1", 1, 32),
        args=(torch.zeros(b, t), chances, tokens, b, t, vocabulary),
        expected={0: -chances.gather(-1, tokens.long()[..., None])[..., 0].log()},
    )
    params, grads, m, v = torch.randn(4, 1000)
    v = v.abs()
    rate, beta1, beta2, decay = 1e-3, 0.9, 0.999, 0.1
    new_m, new_v = beta1 * m + (1 - beta1) * grads, beta2 * v + (1 - beta2) * grads**2
    step = new_m / (1 - beta1) / ((new_v / (1 - beta2)).sqrt() + 1e-8) + decay * params
    for number in (1, 2):
        memory = (params.clone(), grads, m.clone(), v.clone())
        settings = (rate, beta1, beta2, 1 - beta1, 1 - beta2, 1e-8, decay)
        yield Case(
            *(f"{FOLDER}/adamw.cu", f"adamw_kernel{number}", 2, 512, (*memory, 1000, *settings)),
            expected={0: params - rate * step, 2: new_m, 3: new_v},
        )
    norm = x.float().square().sum()
    for number in (1, 2, 3, 4):
        blocks = x.float().square().view(4, 4, 256).sum((0, 2))
        yield Case(
            f"{FOLDER}/global_norm.cu",
            *(f"norm_kernel{number}<floatX>", 4, 256, (torch.zeros(4), x, 4096)),
            expected={0: blocks if number == 4 else norm.view(1)},
            tolerance=1e-3,
        )
    sums = torch.rand(100)
    yield Case(
        *(f"{FOLDER}/global_norm.cu", "global_norm_aggregate_kernel", 1, 1024, (sums.clone(), 100)),
        expected={0: sums.sum().view(1)},
    )
