"""Modules built on the package's ops."""

from __future__ import annotations

import torch
from torch import Tensor

from torch_smem_gemm.ops._arguments import check_bool
from torch_smem_gemm.ops._codes import activation_code, precision_code
from torch_smem_gemm.ops.linear import linear
from torch_smem_gemm.split_cache import CachesSplit

# torch.fx.symbolic_trace keeps it as one call, as it keeps the modules of torch.nn.
torch.fx.wrap("linear")


class Linear(torch.nn.Linear, CachesSplit):
    """``torch.nn.Linear`` computed by :func:`torch_smem_gemm.linear`, with a fused activation.

    ``y = activation(x @ weight.T + bias)``. Initialisation, parameter names and ``state_dict`` are
    those of ``torch.nn.Linear``, so checkpoints load in both directions.

    With ``cache_split`` a layer keeps what the kernel ``fp16x3`` makes of a float32 weight at every
    call, two float16 matrices: products take less time, and the bits are the same. That is done for
    weights on a GPU whose products run on ``fp16x3`` (:func:`torch_smem_gemm.plan`), in eval mode
    and without gradients. Calls under autocast, torch.compile, transforms of torch.func, dispatch
    modes and the capture of a CUDA graph neither make nor use it, nor do processes with FSDP.

    The split is made at the first such call, and again when the weight has changed: torch counts
    changes in place (``weight._version``). It is freed by ``train()`` and ``to()``, and with the
    weight. torch does not count a change through ``weight.data``, by a kernel that it does not
    know, or by a replayed CUDA graph: call ``train().eval()`` afterwards.

    Args:
        in_features: size K of each input row.
        out_features: size N of each output row.
        bias: whether to learn an additive bias.
        activation: None, ``"relu"``, ``"gelu"``, ``"gelu_tanh"`` or ``"silu"``, applied to the
            result before it is stored.
        precision: float32 arithmetic: ``"fp32"``, ``"ieee"``, ``"tf32"``, or None to follow torch's
            setting. Other dtypes ignore it.
        device: device of the parameters.
        dtype: dtype of the parameters: float64, float32, float16 or bfloat16.
        cache_split: keep the split of a float32 weight. It takes as much GPU memory as the weight
            again, and 17 bytes per output feature.

    Shape:
        input ``(*, in_features)``, output ``(*, out_features)``, weight
        ``(out_features, in_features)``, bias ``(out_features,)``.

    Raises:
        TypeError, ValueError: an activation or precision that does not exist.
    """

    # On the class, because convert() turns torch.nn.Linear objects into this class without running
    # __init__. `_converted` distinguishes them from layers that were constructed directly.
    activation: str | None = None
    precision: str | None = None
    _converted: bool = False  # cache_split is on CachesSplit

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        activation: str | None = None,
        precision: str | None = None,
        device: torch.device | str | int | None = None,
        dtype: torch.dtype | None = None,
        cache_split: bool = False,
    ) -> None:
        activation_code("Linear", activation)
        precision_code("Linear", precision)
        check_bool("Linear", "cache_split", cache_split)
        super().__init__(in_features, out_features, bias, device=device, dtype=dtype)
        self.activation = activation
        self.precision = precision
        self.cache_split = cache_split

    def forward(self, input: Tensor) -> Tensor:
        """Apply the layer to ``input`` of shape ``(*, in_features)``."""
        if self.cache_split and (kept := self.multiply_by_kept(input, self.activation)) is not None:
            return kept
        return linear(
            input, self.weight, self.bias, activation=self.activation, precision=self.precision
        )

    def _get_name(self) -> str:
        """Return the name that ``print(model)`` shows: ``smem.Linear``, or the subclass's name."""
        return "smem.Linear" if type(self) is Linear else super()._get_name()

    def extra_repr(self) -> str:
        """Return ``torch.nn.Linear``'s text, with the options that are set."""
        text = super().extra_repr()
        for name in ("activation", "precision"):
            if getattr(self, name) is not None:
                text += f", {name}={getattr(self, name)!r}"
        return text + ", cache_split=True" * self.cache_split
