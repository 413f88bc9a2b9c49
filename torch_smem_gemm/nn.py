"""Modules built on the package's ops."""

from __future__ import annotations

import torch
from torch import Tensor

from torch_smem_gemm.ops._codes import activation_code, precision_code
from torch_smem_gemm.ops.linear import linear


class Linear(torch.nn.Linear):
    """``torch.nn.Linear`` computed by :func:`torch_smem_gemm.linear`, with a fused activation.

    ``y = activation(x @ weight.T + bias)``. Initialisation, parameter names and ``state_dict`` are
    those of ``torch.nn.Linear``, so checkpoints load in both directions.

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
    _converted: bool = False

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        activation: str | None = None,
        precision: str | None = None,
        device: torch.device | str | int | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        activation_code("Linear", activation)
        precision_code("Linear", precision)
        super().__init__(in_features, out_features, bias, device=device, dtype=dtype)
        self.activation = activation
        self.precision = precision

    def forward(self, input: Tensor) -> Tensor:
        """Apply the layer to ``input`` of shape ``(*, in_features)``."""
        return linear(
            input, self.weight, self.bias, activation=self.activation, precision=self.precision
        )

    def _get_name(self) -> str:
        """Return the name that ``print(model)`` shows: ``smem.Linear``, or the subclass's name."""
        return "smem.Linear" if type(self) is Linear else super()._get_name()

    def extra_repr(self) -> str:
        """Return ``torch.nn.Linear``'s text, with the activation and precision if they are set."""
        text = super().extra_repr()
        for name in ("activation", "precision"):
            if getattr(self, name) is not None:
                text += f", {name}={getattr(self, name)!r}"
        return text
