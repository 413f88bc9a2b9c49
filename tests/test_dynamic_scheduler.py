"""Products whose clusters take work tiles from a counter have the bits that they always have.

tests/test_sm90_mutants.py runs the scheduler on the CPU; what only a GPU has is here: launches
beside each other, and graphs.
"""

import threading

import pytest
import torch
from torch import Tensor

import torch_smem_gemm as smem

pytestmark = pytest.mark.gpu

# About 150 us each on an H100, or many work tiles: (M, N, K), in bfloat16 and tf32.
SHAPES = ((4096, 4096, 4096), (3000, 4100, 5000), (40000, 2000, 64), (2000, 30000, 72))


def operands(m: int, n: int, k: int, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Small integers: float32 sums them without an error, in any order."""
    return tuple(torch.randint(-4, 5, s, device="cuda").to(dtype) for s in ((m, k), (k, n)))


def product(a: Tensor, b: Tensor) -> Tensor:
    return smem.gemm(a, b, precision="tf32")


@pytest.fixture(scope="module")
def problems() -> list[tuple[Tensor, Tensor, Tensor]]:
    """Operands and their product, by rows that fit one round of work tiles."""
    found = []
    for shape in SHAPES:
        for dtype in (torch.bfloat16, torch.float32):
            a, b = operands(*shape, dtype)
            found.append((a, b, torch.cat([product(rows, b) for rows in a.split(64)])))
    return found


def test_counters_are_zero_again_for_the_next_launch(problems: list) -> None:
    for _ in range(20):
        for a, b, expected in problems:
            assert torch.equal(product(a, b), expected)


def test_launches_on_several_streams_at_once(problems: list) -> None:
    streams = [torch.cuda.Stream() for _ in range(4)]
    results = []
    for turn in range(5):
        for number, (a, b, expected) in enumerate(problems):
            stream = streams[(number + turn) % 4]
            stream.wait_stream(torch.cuda.default_stream())
            with torch.cuda.stream(stream):
                results.append((product(a, b), expected))
    torch.cuda.synchronize()
    for result, expected in results:
        assert torch.equal(result, expected)


def test_launches_of_several_threads(problems: list) -> None:
    wrong = []

    def run() -> None:
        with torch.cuda.stream(torch.cuda.Stream()):
            for _ in range(10):
                wrong.extend(e for a, b, e in problems if not torch.equal(product(a, b), e))

    threads = [threading.Thread(target=run) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_graphs_beside_their_stream(problems: list) -> None:
    """A captured launch has a counter of its own: graphs run beside each other and eager ones."""
    stream = torch.cuda.Stream()
    graphs, results = [], []
    with torch.cuda.stream(stream):
        for a, b, _ in problems:
            product(a, b)
    torch.cuda.synchronize()
    for _ in range(2):
        graphs.append(torch.cuda.CUDAGraph())
        with torch.cuda.graph(graphs[-1], stream=stream):
            results.append([product(a, b) for a, b, _ in problems])
    others = [torch.cuda.Stream() for _ in graphs]
    for _ in range(5):
        for result in (*results[0], *results[1]):
            result.zero_()
        torch.cuda.synchronize()
        for graph, other in zip(graphs, others, strict=True):
            with torch.cuda.stream(other):
                graph.replay()
        with torch.cuda.stream(stream):
            eager = [product(a, b) for a, b, _ in problems]
        torch.cuda.synchronize()
        for found in (eager, *results):
            for result, (_, _, expected) in zip(found, problems, strict=True):
                assert torch.equal(result, expected)


@pytest.mark.parametrize("side", ["rows", "columns"])
def test_fallback_lines_in_a_long_product(side: str, hopper: None) -> None:
    """A block notes which of its work tiles have FALLBACK lines, and computes those last."""
    a, b = torch.randn(2500, 2700, device="cuda"), torch.randn(2700, 2600, device="cuda")
    lines = torch.randperm(2500, device="cuda")[:40]
    if side == "rows":
        a[lines, 5], a[lines, 6] = 1e-12, 1e-13
    else:
        b[9, lines], b[8, lines] = 1e-12, 1e-13
    simt = smem.gemm(a, b, kernel="double_buffered")
    expected = torch.cat([smem.gemm(part, b, kernel="fp16x3:wgmma") for part in a.split(100)])
    for _ in range(3):
        result = smem.gemm(a, b, kernel="fp16x3:wgmma")
        assert torch.equal(result, expected)
        found, wanted = (x if side == "rows" else x.mT for x in (result, simt))
        assert torch.equal(found[lines], wanted[lines])
        assert not torch.equal(found, wanted)


def test_beside_a_kernel_that_holds_sms(problems: list) -> None:
    """The clusters that start late find no work tiles left."""
    holder = torch.cuda.Stream()
    x = torch.randn(1024, 8192, device="cuda", dtype=torch.float64)
    for a, b, expected in problems:
        torch.cuda.synchronize()
        with torch.cuda.stream(holder):
            x @ x.mT  # milliseconds; 64 blocks of some SMs
        assert torch.equal(product(a, b), expected)
