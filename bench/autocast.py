"""Host time of a layer under CUDA autocast, beside torch's: ``python bench/autocast.py``.

float32 parameters under bfloat16 autocast, one context around all calls, so that the parameters'
casts come from the cache. Rows so few that the host is what takes the time.
"""

import statistics
import time
from collections.abc import Callable
from functools import partial

import torch
from torch import nn

import torch_smem_gemm as smem

CALLS, ROUNDS = 200, 40


def microseconds(call: Callable[[], object]) -> float:
    """Host time of one call, the GPU not waited for."""
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(CALLS):
        call()
    return (time.perf_counter() - start) / CALLS * 1e6


def layers(features: int) -> dict[str, nn.Module]:
    """The same layer three times: two of torch's, which show what ratio is noise, and ours."""
    made = {"torch": nn.Linear(features, features), "torch again": nn.Linear(features, features)}
    made["smem"] = smem.Linear(features, features)
    return {name: layer.cuda() for name, layer in made.items()}


def main() -> None:
    """Print medians, and ratios to torch's taken round by round."""
    for grad in (False, True):
        for dtype in (torch.float32, torch.bfloat16):
            x = torch.randn(16, 256, device="cuda", dtype=dtype)
            candidates = layers(256)
            times: dict[str, list[float]] = {name: [] for name in candidates}
            with torch.autocast("cuda", torch.bfloat16), torch.set_grad_enabled(grad):
                for _ in range(ROUNDS):
                    for name, layer in candidates.items():
                        times[name].append(microseconds(partial(layer, x)))
            print(f"x {str(dtype).removeprefix('torch.')}, {'with' if grad else 'no'} gradients")
            for name, values in times.items():
                ratio = statistics.median(
                    a / b for a, b in zip(values, times["torch"], strict=True)
                )
                print(f"  {name:12} {statistics.median(values):6.2f} us  x torch {ratio:.2f}")


if __name__ == "__main__":
    main()
