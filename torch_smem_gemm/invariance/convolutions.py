"""Convolutions of the mode: smem.gemm of the windows of the input."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import torch.nn.functional as F
from torch import Tensor

from torch_smem_gemm.invariance.forms import Kernel
from torch_smem_gemm.invariance.products import gemm
from torch_smem_gemm.invariance.reductions import sum as smem_sum

Sizes = Sequence[int]
_OP = "aten::convolution"


class _Window:
    """How a convolution of some dimensions looks at its input."""

    def __init__(self, kernel: Sizes, stride: Sizes, padding: Sizes, dilation: Sizes) -> None:
        n = len(kernel)
        self.kernel = tuple(kernel)
        # One number may stand for all dimensions.
        self.stride, self.padding, self.dilation = (
            tuple(x) * n if len(x) == 1 else tuple(x) for x in (stride, padding, dilation)
        )

    def positions(self, spatial: Sizes) -> list[int]:
        """Return how many positions the window has in an input of these sizes."""
        return [
            (size + 2 * p - d * (k - 1) - 1) // s + 1
            for size, k, s, p, d in zip(
                spatial, self.kernel, self.stride, self.padding, self.dilation, strict=True
            )
        ]

    def of(self, x: Tensor, groups: int, positions: Sizes) -> Tensor:
        """Return the windows as (groups, batch * positions, channels of a group * kernel)."""
        x = F.pad(x, [p for padding in reversed(self.padding) for p in (padding, padding)])
        batch, channels = x.shape[:2]
        steps = x.stride()[2:]
        windows = x.as_strided(
            (batch, groups, channels // groups, *positions, *self.kernel),
            (
                x.stride(0),
                x.stride(1) * (channels // groups),
                x.stride(1),
                *(s * step for s, step in zip(steps, self.stride, strict=True)),
                *(s * dilation for s, dilation in zip(steps, self.dilation, strict=True)),
            ),
        )
        n = len(self.kernel)
        order = (1, 0, *range(3, 3 + n), 2, *range(3 + n, 3 + 2 * n))
        rows = channels // groups * math.prod(self.kernel)
        return windows.permute(order).reshape(groups, batch * math.prod(positions), rows)

    def add_up(self, windows: Tensor, shape: Sizes, positions: Sizes) -> Tensor:
        """Return the input of ``shape`` with each window's values added where they came from."""
        groups = windows.shape[0]
        batch, channels, *spatial = shape
        n = len(self.kernel)
        parts = windows.reshape(groups, batch, *positions, channels // groups, *self.kernel)
        order = (1, 0, 2 + n, *range(2, 2 + n), *range(3 + n, 3 + 2 * n))
        parts = parts.permute(order).reshape(batch, channels, *positions, *self.kernel)
        padded = [size + 2 * p for size, p in zip(spatial, self.padding, strict=True)]
        total = windows.new_zeros(batch, channels, *padded)
        for at in itertools.product(*map(range, self.kernel)):
            where = (slice(None),) * 2 + tuple(
                slice(a * dilation, a * dilation + step * (count - 1) + 1, step)
                for a, dilation, step, count in zip(
                    at, self.dilation, self.stride, positions, strict=True
                )
            )
            total[where] += parts[(slice(None),) * (2 + n) + at]
        for d, (padding, size) in enumerate(zip(self.padding, spatial, strict=True), start=2):
            total = total.narrow(d, padding, size)
        return total.contiguous()


def convolution(
    torchs: Kernel,
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Sizes,
    padding: Sizes,
    dilation: Sizes,
    transposed: bool,
    output_padding: Sizes,
    groups: int,
) -> Tensor:
    """torch.nn.functional.conv1d, conv2d, conv3d and their transposed forms."""
    if not x.numel() or not weight.numel() or x.dim() != weight.dim():
        return torchs(
            x, weight, bias, stride, padding, dilation, transposed, output_padding, groups
        )
    window = _Window(weight.shape[2:], stride, padding, dilation)
    if transposed:
        extra = (
            tuple(output_padding) * (x.dim() - 2) if len(output_padding) == 1 else output_padding
        )
        shape = _transposed_shape(x, weight, window, extra, groups)
        out = _input_gradient(x, weight, window, shape, groups)
    else:
        out = _forward(x, weight, window, groups, window.positions(x.shape[2:]))
    return out if bias is None else out.add_(bias.reshape(-1, *(1,) * (x.dim() - 2)))


def convolution_backward(
    torchs: Kernel,
    grad: Tensor,
    x: Tensor,
    weight: Tensor,
    bias_sizes: Sizes | None,
    stride: Sizes,
    padding: Sizes,
    dilation: Sizes,
    transposed: bool,
    output_padding: Sizes,
    groups: int,
    needs: Sequence[bool],
) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
    """The gradients of the input, the weight and the bias."""
    window = _Window(weight.shape[2:], stride, padding, dilation)
    grad_x = grad_weight = grad_bias = None
    if needs[0]:
        grad_x = (
            _forward(grad, weight, window, groups, x.shape[2:])
            if transposed
            else _input_gradient(grad, weight, window, x.shape, groups)
        )
    if needs[1]:
        narrow, wide = (x, grad) if transposed else (grad, x)
        by_group = _rows(narrow, groups)
        windows = window.of(wide, groups, narrow.shape[2:])
        grad_weight = gemm(_OP, by_group.mT, windows).reshape(weight.shape)
    if needs[2]:
        dims = [d for d in range(grad.dim()) if d != 1]
        grad_bias = smem_sum(torchs, grad, dims)
    return grad_x, grad_weight, grad_bias


def _rows(x: Tensor, groups: int) -> Tensor:
    """Return (batch, channels, ...) as (groups, batch * positions, channels of a group)."""
    batch, channels = x.shape[:2]
    by_group = x.reshape(batch, groups, channels // groups, -1)
    return by_group.permute(1, 0, 3, 2).reshape(groups, -1, channels // groups)


def _forward(x: Tensor, weight: Tensor, window: _Window, groups: int, positions: Sizes) -> Tensor:
    matrices = weight.reshape(groups, weight.shape[0] // groups, -1)
    out = gemm(_OP, window.of(x, groups, positions), matrices.mT)
    out = out.reshape(groups, x.shape[0], *positions, -1).movedim(-1, 2).movedim(0, 1)
    return out.reshape(x.shape[0], weight.shape[0], *positions)


def _input_gradient(
    grad: Tensor, weight: Tensor, window: _Window, shape: Sizes, groups: int
) -> Tensor:
    matrices = weight.reshape(groups, weight.shape[0] // groups, -1)
    windows = gemm(_OP, _rows(grad, groups), matrices)
    return window.add_up(windows, shape, grad.shape[2:])


def _transposed_shape(
    x: Tensor, weight: Tensor, window: _Window, extra: Sizes, groups: int
) -> list[int]:
    spatial = [
        (size - 1) * s - 2 * p + d * (k - 1) + e + 1
        for size, k, s, p, d, e in zip(
            x.shape[2:],
            window.kernel,
            window.stride,
            window.padding,
            window.dilation,
            extra,
            strict=True,
        )
    ]
    return [x.shape[0], weight.shape[1] * groups, *spatial]


KERNELS: dict[str, Kernel] = {
    "convolution": convolution,
    "convolution_backward": convolution_backward,
}
