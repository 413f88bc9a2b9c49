"""smem::_linear_split: linear with a float32 weight whose split is kept.

The kernel fp16x3 splits both operands into float16 matrices at every call. ``_split_weight`` splits
a weight once; csrc/gemm/fp16x3/split_problem.h has the layout of its result.
"""

import torch
from torch import Tensor

from torch_smem_gemm import _C
from torch_smem_gemm.ops._checks import check_codes, check_linear, check_weight, check_weight_split
from torch_smem_gemm.ops._dispatch import asking_torch_for_memory, register_fake


def _describe_split(weight: Tensor) -> tuple[list[int], torch.dtype]:
    check_weight("_split_weight", weight)
    return [_C.weight_split_bytes(*map(int, weight.shape))], torch.uint8


def _describe_linear(
    x: Tensor,
    weight: Tensor,
    split: Tensor,
    bias: Tensor | None = None,
    activation: int = 0,
    precision: int = 0,
    kernel_id: int = 0,
) -> tuple[list[int], torch.dtype]:
    check_codes("linear", activation, precision)
    described = check_linear(x, weight, bias)
    check_weight_split(split, weight, _C.weight_split_bytes(*map(int, weight.shape)))
    return described


for _op, _describe in (("_split_weight", _describe_split), ("_linear_split", _describe_linear)):
    register_fake(_op, _describe)
    # They have no gradient, and torch's own kernel would ask every tensor for one, in 0.3 us.
    torch.library.impl(f"smem::{_op}", "Autograd", torch.library.fallthrough_kernel)

#: ``split_weight(weight)`` returns the split of a weight (N, K), in uint8.
split_weight = asking_torch_for_memory(torch.ops.smem._split_weight.default, _describe_split)
#: ``linear_split(x, weight, split, bias, activation, precision)`` has the bits of linear.
linear_split = asking_torch_for_memory(torch.ops.smem._linear_split.default, _describe_linear)
