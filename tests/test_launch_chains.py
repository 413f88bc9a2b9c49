"""Operations of several launches, called over and over without waiting for the GPU.

A launch may begin before the one ahead of it has ended (csrc/device/pdl.h): a product behind the
pack or the split of its operands, a reduction behind the product of the slices of K. Each must wait
for what it reads. Two problems take turns here, so results of the call before would be seen.
"""

from dataclasses import dataclass

import pytest
import torch
from torch import Tensor

import torch_smem_gemm as smem

pytestmark = pytest.mark.gpu

CALLS = 40


@dataclass(frozen=True)
class Chain:
    """A product and what its plan on Hopper says of its launches."""

    kernel: str
    dtype: torch.dtype
    shape: tuple[int, int, int]  # M, N, K
    layout: str  # "n" or "t" for a and b: rows are contiguous, or columns are
    launches: tuple[str, ...]

    def operands(self) -> tuple[Tensor, Tensor]:
        m, n, k = self.shape
        a = torch.randn(m, k, device="cuda") if self.layout[0] == "n" else _columns(m, k)
        b = torch.randn(k, n, device="cuda") if self.layout[1] == "n" else _columns(k, n)
        return a.to(self.dtype), b.to(self.dtype)

    @property
    def options(self) -> dict[str, str]:
        tensor_cores = self.kernel.startswith(("wgmma", "mma"))
        return {"kernel": self.kernel, "precision": "tf32" if tensor_cores else "fp32"}

    def call(self, a: Tensor, b: Tensor) -> Tensor:
        return smem.gemm(a, b, **self.options)


def _columns(rows: int, cols: int) -> Tensor:
    return torch.randn(cols, rows, device="cuda").mT


F32, BF16 = torch.float32, torch.bfloat16
CHAINS = (
    Chain("simt:64x64", F32, (312, 337, 131), "nn", ("packed",)),
    Chain("simt", F32, (1568, 48, 2304), "tt", ("packed", "slices")),
    Chain("simt", F32, (49, 1024, 1728), "nt", ("slices",)),
    Chain("simt", F32, (9, 6, 26_458), "nn", ("slices",)),
    Chain("mma:128x128", BF16, (300, 2962, 221), "tt", ("packed",)),
    Chain("mma", BF16, (196, 1024, 25_600), "tn", ("packed", "slices")),
    Chain("mma", BF16, (2048, 256, 3840), "tn", ("slices",)),
    Chain("wgmma", BF16, (1000, 1001, 1003), "nn", ("packed",)),  # begins beside its pack
    Chain("wgmma", BF16, (271, 3072, 9216), "tt", ("packed",)),  # begins behind it
    Chain("wgmma", F32, (512, 1024, 896), "tn", ("packed",)),
    Chain("wgmma", BF16, (196, 384, 4608), "tn", ("packed", "slices")),
    Chain("fp16x3", F32, (64, 256, 4352), "nn", ()),
    Chain("fp16x3", F32, (300, 512, 8192), "tn", ()),
    Chain("gemv", F32, (26, 1, 246_682), "nn", ("slices",)),
)


@pytest.mark.parametrize("chain", CHAINS, ids=str)
def test_each_launch_waits_for_what_it_reads(chain: Chain, hopper: None) -> None:
    problems = [chain.operands() for _ in range(2)]
    plan = smem.plan(*problems[0], **chain.options)
    for part in chain.launches:
        assert part in plan.reason
    expected = []
    for problem in problems:
        expected.append(chain.call(*problem))
        torch.cuda.synchronize()
    results = [chain.call(*problems[i % 2]) for i in range(CALLS)]
    for i, result in enumerate(results):
        assert torch.equal(result, expected[i % 2])

    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        results = [chain.call(*problems[i % 2]) for i in range(CALLS)]
    for _ in range(3):
        for result in results:
            result.zero_()
        graph.replay()
        for i, result in enumerate(results):
            assert torch.equal(result, expected[i % 2])
