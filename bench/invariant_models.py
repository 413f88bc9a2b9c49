"""Measure language models in smem.batch_invariant, and write docs/reproducibility.md's table.

python bench/invariant_models.py --out bench/results/invariant-models-h100.json    # on a GPU
PYTHONPATH=. python bench/invariant_models.py            # rewrite the table
PYTHONPATH=. python bench/invariant_models.py --check    # exit with 1 if it is stale

The models have random weights, the width of real ones and fewer layers. Each speed is the best of
some runs, which alternate with those of plain torch. Where the package batch_invariant_ops can be
imported, its mode is measured too.
"""

from __future__ import annotations

import contextlib
import functools
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from statistics import geometric_mean
from typing import Any

import torch
from measured_document import command
from origin import measured_on, origin

import torch_smem_gemm as smem
from torch_smem_gemm.bench.report import between

ROOT = Path(__file__).resolve().parent.parent
DOCUMENT = ROOT / "docs" / "reproducibility.md"
README = ROOT / "README.md"
RESULTS = ROOT / "bench" / "results" / "invariant-models-h100.json"

STEPS_CHECKED, STEPS_TIMED, RUNS = 64, 32, 2
VOCABULARY = 32000
LONGEST = 9000
BATCH_SIZES = (1, 2, 7, 32)
# Name: class, configuration, its options, and the (batch, context) to time.
MODELS: dict[str, tuple[str, str, dict[str, Any], list[tuple[int, int]]]] = {
    "Llama-3-8B, 4 layers": (
        "LlamaForCausalLM",
        "LlamaConfig",
        {
            "hidden_size": 4096,
            "intermediate_size": 14336,
            "num_hidden_layers": 4,
            "num_attention_heads": 32,
            "num_key_value_heads": 8,
        },
        [(1, 16), (1, 700), (1, 3000), (1, 8000), (7, 700), (32, 700), (32, 3000), (32, 8000)],
    ),
    "Qwen3-4B, 4 layers": (
        "Qwen3ForCausalLM",
        "Qwen3Config",
        {
            "hidden_size": 2560,
            "intermediate_size": 9728,
            "num_hidden_layers": 4,
            "num_attention_heads": 32,
            "num_key_value_heads": 8,
            "head_dim": 128,
        },
        [(1, 700), (32, 700)],
    ),
    "Mixtral-8x7B, 1 layer": (
        "MixtralForCausalLM",
        "MixtralConfig",
        {
            "hidden_size": 4096,
            "intermediate_size": 14336,
            "num_hidden_layers": 1,
            "num_attention_heads": 32,
            "num_key_value_heads": 8,
            "num_local_experts": 8,
            "experts_implementation": "eager",
        },
        [(1, 700), (32, 700)],
    ),
    "GPT-2, 12 layers": (
        "GPT2LMHeadModel",
        "GPT2Config",
        {"n_embd": 768, "n_layer": 12, "n_head": 12, "n_positions": LONGEST},
        [(1, 700), (32, 700)],
    ),
}


def _theirs() -> dict[str, Callable[[], Any]]:
    """Return the mode of batch_invariant_ops, if it is installed."""
    try:
        from batch_invariant_ops import set_batch_invariant_mode
    except ImportError:
        return {}
    return {"batch_invariant_ops": lambda: set_batch_invariant_mode(True)}


def _model(name: str) -> Any:
    import transformers

    kind, configuration, options, _ = MODELS[name]
    sizes = {"vocab_size": VOCABULARY, "max_position_embeddings": LONGEST}
    config = getattr(transformers, configuration)(**{**sizes, **options})
    torch.manual_seed(0)
    with torch.device("cuda"):
        return getattr(transformers, kind)(config).bfloat16().eval()


def _seconds(model: Any, ids: torch.Tensor) -> tuple[float, float]:
    """Return how long the prompts take, and a step of decoding after them."""
    torch.cuda.synchronize()
    begin = time.perf_counter()
    out = model(input_ids=ids, use_cache=True, logits_to_keep=1)
    torch.cuda.synchronize()
    prompt = time.perf_counter() - begin
    begin = time.perf_counter()
    for _ in range(STEPS_TIMED):
        token = out.logits[:, -1:].argmax(-1)
        out = model(input_ids=token, past_key_values=out.past_key_values, use_cache=True)
    torch.cuda.synchronize()
    return prompt, (time.perf_counter() - begin) / STEPS_TIMED


def _timed(
    model: Any, batch: int, context: int, modes: Mapping[str, Callable[[], Any]]
) -> dict[str, dict[str, float]]:
    """Return the tokens per second of prefill and decode in each mode."""
    ids = torch.randint(VOCABULARY, (batch, context), device="cuda")
    best: dict[str, tuple[float, float]] = {}
    for _ in range(RUNS):
        for mode, enter in modes.items():
            with enter():
                found = _seconds(model, ids)
            before = best.get(mode, found)
            best[mode] = min(before[0], found[0]), min(before[1], found[1])
    return {
        "prefill": {mode: batch * context / prompt for mode, (prompt, _) in best.items()},
        "decode": {mode: batch / step for mode, (_, step) in best.items()},
    }


def _holds(model: Any, context: int) -> bool:
    ids = torch.randint(VOCABULARY, (8, context), device="cuda")
    inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    with smem.batch_invariant():
        return bool(smem.check_batch_invariance(model, inputs, BATCH_SIZES, generate=STEPS_CHECKED))


@torch.no_grad()
def _speeds(modes: Mapping[str, Callable[[], Any]]) -> Iterator[dict[str, Any]]:
    for name, (*_, cases) in MODELS.items():
        model = _model(name)
        for batch, context in cases if modes else ():
            row = {"model": name, "batch": batch, "context": context}
            yield {**row, **_timed(model, batch, context, modes)}
            print(row, flush=True)
        del model
        torch.cuda.empty_cache()


@torch.no_grad()
def _same_bits() -> Iterator[bool]:
    for name, (*_, cases) in MODELS.items():
        model = _model(name)
        holds = {context: _holds(model, context) for context in {c for _, c in cases}}
        print(name, holds, flush=True)
        yield from (holds[context] for _, context in cases)
        del model
        torch.cuda.empty_cache()


def _rows() -> list[dict[str, Any]]:
    # Theirs comes first: it cannot replace kernels that this package has replaced.
    theirs = list(_speeds(_theirs()))
    rows = list(_speeds({"torch": contextlib.nullcontext, "smem": smem.batch_invariant}))
    for row, other in zip(rows, theirs, strict=False):
        for kind in ("prefill", "decode"):
            row[kind] |= other[kind]
    return [{**row, "same_bits": held} for row, held in zip(rows, _same_bits(), strict=True)]


def measure() -> dict[str, Any]:
    """Everything that the results file holds."""
    import transformers

    transformers.logging.set_verbosity_error()
    return {**origin(), "transformers": transformers.__version__, "rows": _rows()}


def table(found: Mapping[str, Any]) -> str:
    """A line for each model, batch and context."""
    lines = [
        f"{measured_on(found)}, commit {found['versions']['commit']}, transformers "
        f"{found['transformers']}.",
        "",
        "| model | batch | context | prefill, tokens/s | of torch's | theirs | "
        "decode, tokens/s | of torch's | theirs | same bits |",
        "| --- | --: | --: | --: | --: | --: | --: | --: | --: | --- |",
    ]
    for row in found["rows"]:
        speeds = []
        for kind in ("prefill", "decode"):
            speed = row[kind]
            theirs = speed.get("batch_invariant_ops")
            ratio = "" if theirs is None else f"{theirs / speed['torch']:.2f}"
            speeds += [f"{speed['smem']:,.0f}", f"{speed['smem'] / speed['torch']:.2f}", ratio]
        held = "yes" if row["same_bits"] else "**no**"
        cells = [row["model"], str(row["batch"]), str(row["context"]), *speeds, held]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def document(text: str, found: Mapping[str, Any]) -> str:
    """docs/reproducibility.md's ``text`` with the table of ``found``."""
    return between(text, "models", table(found))


def headline(text: str, found: Mapping[str, Any]) -> str:
    """README's ``text`` with the figure of ``found``."""

    def ratios(mode: str) -> list[float]:
        speeds = [row[kind] for row in found["rows"] for kind in ("prefill", "decode")]
        return [speed[mode] / speed["torch"] for speed in speeds if mode in speed]

    ours, theirs = ratios("smem"), ratios("batch_invariant_ops")
    peer = f"; batch_invariant_ops {geometric_mean(theirs):.2f}" if theirs else ""
    figure = (
        f"**{geometric_mean(ours):.2f} × the speed of plain torch** (geometric mean of {len(ours)} "
        f"prefills and decodes; {min(ours):.2f} to {max(ours):.2f}{peer})."
    )
    return between(text, "mode", figure)


def main() -> int:
    """Measure, rewrite or check; returns the exit status."""
    measured = functools.cache(measure)
    return max(
        command(__doc__, document=path, results=RESULTS, measure=measured, shown=shown)
        for path, shown in ((DOCUMENT, document), (README, headline))
    )


if __name__ == "__main__":
    sys.exit(main())
