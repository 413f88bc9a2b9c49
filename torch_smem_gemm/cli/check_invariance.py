"""``check-invariance``: whether a language model has the same bits alone and in any batch."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import torch

from torch_smem_gemm.cli._text import default_device, device_argument
from torch_smem_gemm.cli._trace_options import natural

SUMMARY = "find out whether a language model computes the same alone and in any batch"
DTYPES = ("bfloat16", "float16", "float32")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("model", help="a name on the Hugging Face hub, or a folder")
    parser.add_argument(
        "--plain", action="store_true", help="check the model outside of smem.batch_invariant"
    )
    parser.add_argument(
        "--random-weights", action="store_true", help="use its configuration alone, no weights"
    )
    parser.add_argument(
        "--context", type=_positive, default=16, metavar="N", help="tokens of a row (default: 16)"
    )
    parser.add_argument(
        "--new-tokens", type=natural, default=8, metavar="N", help="tokens to generate (default: 8)"
    )
    parser.add_argument(
        "--batch-sizes",
        type=_sizes,
        default=(1, 2, 7, 32),
        metavar="N,N",
        help="numbers of rows (default: 1,2,7,32)",
    )
    parser.add_argument("--dtype", choices=DTYPES, default="bfloat16")
    parser.add_argument("--device", type=device_argument, help="default: cuda where there is one")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of weights and tokens")


def run(args: argparse.Namespace) -> int:
    """Print the report: 0 if the bits are the same, 1 if not, 2 if there is no such model."""
    from torch_smem_gemm.invariance import check_batch_invariance
    from torch_smem_gemm.invariance.mode import batch_invariant

    torch.manual_seed(args.seed)
    try:
        device = args.device or default_device()
        model = _load(args.model, args.random_weights, getattr(torch, args.dtype)).to(device)
    except (OSError, ValueError) as error:
        print(f"check-invariance: error: {str(error).splitlines()[0]}", file=sys.stderr)
        return 2
    print("torch's operators as they are" if args.plain else "in smem.batch_invariant()")
    shape = max(args.batch_sizes), args.context
    tokens = torch.randint(model.config.vocab_size, shape, device=device)
    with batch_invariant(enabled=not args.plain):
        report = check_batch_invariance(
            model,
            {"input_ids": tokens, "attention_mask": torch.ones_like(tokens)},
            args.batch_sizes,
            generate=args.new_tokens or None,
        )
    print(report)
    return int(not report)


def _load(name: str, random_weights: bool, dtype: torch.dtype) -> Any:
    """Return a causal language model. ``SystemExit`` if transformers is not installed."""
    try:
        from transformers import AutoConfig, AutoModelForCausalLM
    except ImportError:
        raise SystemExit(
            "check-invariance needs transformers: `pip install transformers`"
        ) from None
    # The name of a folder that does not exist would be looked for on the hub.
    if name.startswith((".", "/", "~")) and not Path(name).expanduser().is_dir():
        raise OSError(f"{name} is not a folder")
    if random_weights:
        return AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(name), dtype=dtype)
    return AutoModelForCausalLM.from_pretrained(name, dtype=dtype)


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is less than 1")
    return number


def _sizes(text: str) -> tuple[int, ...]:
    return tuple(_positive(part) for part in text.split(","))
