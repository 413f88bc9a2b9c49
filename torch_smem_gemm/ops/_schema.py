"""The arguments of the ops by name, as their schemas in csrc/bindings define them."""

import functools
from collections import namedtuple
from typing import Any

import torch


@functools.cache
def arguments_type(op: str) -> Any:
    """Return the named tuple of the arguments of ``smem::op``, with the schema's defaults.

    ``arguments_type("gemm")(a, b)`` binds the arguments of one call: its ``beta`` is 0.0.
    """
    arguments = getattr(torch.ops.smem, op).default._schema.arguments
    return namedtuple(
        f"{op.title().replace('_', '')}Arguments",
        [argument.name for argument in arguments],
        defaults=[argument.default_value for argument in arguments if argument.has_default_value()],
    )
