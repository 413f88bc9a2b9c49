"""Does a sequence get the same bits alone, among 32, and with its prompt in chunks?

Asks a random bfloat16 Llama, before and after ``smem.convert``, without any download:

    python examples/batch_invariance.py      # in a checkout: PYTHONPATH=. python examples/...

Each layer is judged by itself, on the inputs that it had in the batch: that is what converting
changes. The logits hold the attention and the norms as well, which stay torch's.
"""

import os

os.environ["HF_HUB_OFFLINE"] = "1"

import torch
from torch import Tensor, nn
from transformers import LlamaConfig, LlamaForCausalLM

import torch_smem_gemm as smem

SEQUENCES, LENGTH, CHUNK = 32, 96, 40


def random_llama(device: str) -> LlamaForCausalLM:
    """Return a small model with weights large enough that its logits differ from each other."""
    sizes = {"hidden_size": 1024, "intermediate_size": 2816, "vocab_size": 4096}
    layers = {"num_hidden_layers": 4, "num_attention_heads": 16, "num_key_value_heads": 4}
    torch.manual_seed(0)
    return LlamaForCausalLM(LlamaConfig(**sizes, **layers)).to(device, torch.bfloat16).eval()


def logits_in_chunks(model: LlamaForCausalLM, tokens: Tensor) -> Tensor:
    """Return the logits of a prompt that goes through the model a chunk at a time."""
    cache, logits = None, []
    for chunk in tokens.split(CHUNK, dim=1):
        result = model(chunk, past_key_values=cache, use_cache=True)
        cache = result.past_key_values
        logits.append(result.logits)
    return torch.cat(logits, dim=1)


def layers_that_differ(model: LlamaForCausalLM, tokens: Tensor) -> dict[str, str]:
    """Count the Linear layers that give the first sequence other bits than within the batch."""
    linears = [module for module in model.modules() if isinstance(module, nn.Linear)]
    differ = {"alone": 0, "in chunks": 0}

    def compare(layer: nn.Linear, args: tuple[Tensor], output: Tensor) -> None:
        alone, expected = args[0][:1], output[:1]
        in_chunks = torch.cat([layer.forward(x) for x in alone.split(CHUNK, dim=1)], dim=1)
        differ["alone"] += not torch.equal(layer.forward(alone), expected)
        differ["in chunks"] += not torch.equal(in_chunks, expected)

    hooks = [layer.register_forward_hook(compare) for layer in linears]
    model(tokens)
    for hook in hooks:
        hook.remove()
    return {f"layers, {how}": f"{n} of {len(linears)} differ" for how, n in differ.items()}


@torch.no_grad()
def report(model: LlamaForCausalLM, tokens: Tensor) -> dict[str, str]:
    """Say for layers and logits how far the first sequence depends on how it is computed."""
    expected = model(tokens).logits[:1]
    answers = layers_that_differ(model, tokens)
    for how, logits in (
        ("alone", model(tokens[:1]).logits),
        ("in chunks", logits_in_chunks(model, tokens[:1])),
    ):
        largest = (logits.float() - expected.float()).abs().max().item()
        answers[f"logits, {how}"] = f"differ by {largest:.3g}" if largest else "the same bits"
    return answers


def main() -> None:
    """Print torch's answers beside the converted model's."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    if device == "cpu":
        print("No GPU: on CPU tensors both are ATen's, which promises no bits.\n")
    model = random_llama(device)
    tokens = torch.randint(model.config.vocab_size, (SEQUENCES, LENGTH), device=device)
    torchs = report(model, tokens)
    smem.convert(model)
    ours = report(model, tokens)
    print(f"A sequence against itself among {SEQUENCES}:\n{'':20} {'torch':20} converted")
    for question, answer in torchs.items():
        print(f"{question:20} {answer:20} {ours[question]}")


if __name__ == "__main__":
    main()
