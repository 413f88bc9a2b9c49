"""Kernels of cuda-samples: its introduction, its features and its applications."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator

import numpy
import public_samples_techniques
import torch
from public_case import Case
from public_samples_techniques import empty, integers, sample
from torch import Tensor

INTRODUCTION = "Samples/0_Introduction"
FEATURES = "Samples/3_CUDA_Features"
DOMAIN = "Samples/5_Domain_Specific"


def cases() -> Iterator[Case]:
    """Yield one case for each kernel."""
    yield from introduction()
    yield from matrix_products()
    yield from votes_and_halves()
    yield from public_samples_techniques.cases()
    yield from groups()
    yield from transforms()
    yield from finance()
    yield from simulations()
    yield from tensor_cores()
    yield from refused()


def introduction() -> Iterator[Case]:
    """Yield kernels of one line or two."""
    a, b = torch.randn(2, 1000)
    yield sample(
        *(f"{INTRODUCTION}/vectorAdd/vectorAdd.cu", "vectorAdd", 4, 256),
        args=(a, b, torch.zeros(1000), 1000),
        expected={2: a + b},
    )
    file = f"{INTRODUCTION}/simpleTemplates/simpleTemplates.cu"
    for dtype, name in ((torch.float32, "float"), (torch.int32, "int")):
        x = torch.arange(64, dtype=dtype)
        yield sample(
            *(file, f"testKernel<{name}>", 1, 64, (x, torch.zeros_like(x))),
            expected={1: 64 * x},
            shared_mem=256,
        )
    counts = torch.zeros(11, dtype=torch.int32)
    yield sample(
        f"{INTRODUCTION}/simpleAtomicIntrinsics/simpleAtomicIntrinsics_kernel.cuh",
        *("testKernel", 64, 256, (counts,)),
        # The others depend on the order of the threads.
        expected={0: torch.tensor([10 * 64 * 256, -10 * 64 * 256])},
    )
    yield sample(
        *(f"{INTRODUCTION}/clock/clock.cu", "timedReduction", 4, 256),
        args=(a[:512].contiguous(), torch.zeros(4), torch.zeros(8, dtype=torch.int64)),
        expected={1: a[:512].min().expand(4)},
        shared_mem=2048,
    )
    file = f"{INTRODUCTION}/simpleCooperativeGroups/simpleCooperativeGroups.cu"
    yield sample(file, "cgkernel", 1, 64, (), shared_mem=256)
    yield sample(f"{INTRODUCTION}/simplePrintf/simplePrintf.cu", "testKernel", 1, 2, (10,))
    yield sample(
        *(f"{INTRODUCTION}/simpleAssert/simpleAssert.cu", "testKernel", 2, 32, (60,)),
        faults=("assertion",),
        why="the sample shows an assertion that fails",
    )
    yield sample(
        "Samples/2_Concepts_and_Techniques/inlinePTX/inlinePTX.cu",
        *("sequence_gpu", 4, 256, (empty(1000), 1000)),
        expected={0: torch.arange(1000) % 32},
    )


def matrix_products() -> Iterator[Case]:
    """Yield a tiled product, and those that copy tiles asynchronously."""
    a, b = torch.randn(64, 96), torch.randn(96, 128)
    for tile in (16, 32):
        yield sample(
            *(f"{INTRODUCTION}/matrixMul/matrixMul.cu", f"MatrixMulCUDA<{tile}>"),
            *((128 // tile, 64 // tile), (tile, tile)),
            args=(torch.zeros(64, 128), a, b, 96, 128),
            expected={0: a @ b},
        )
    for kernel in (
        *("Naive", "NaiveLargeChunk", "AsyncCopySingleStage", "AsyncCopyMultiStage"),
        *("AsyncCopyMultiStageSharedState", "AsyncCopyMultiStageLargeChunk"),
        *("AsyncCopyLargeChunk", "AsyncCopyLargeChunkAWBarrier"),
    ):
        yield _asynchronous_product(kernel, a, b)


def _asynchronous_product(kernel: str, a: Tensor, b: Tensor) -> Case:
    """Return a case of one sample, whose kernels have bugs that its constant matrices hide."""
    (rows, depth), cols = a.shape, b.shape[1]
    wanted = a @ b
    if "LargeChunk" in kernel:
        # They address b as if it were a.
        tiles = torch.arange(rows)[:, None] // 16 * 16 * depth + torch.arange(depth) // 16 * 16
        inside = torch.arange(depth) % 16 * depth
        at = (tiles + inside)[:, :, None] + torch.arange(cols) % 16
        wanted = torch.einsum("rk,rkc->rc", a, b.flatten()[at])
    faults, why = (), ""
    if kernel in ("AsyncCopyMultiStage", "AsyncCopyMultiStageLargeChunk"):
        faults = ("missing wait",)
        why = (
            "`<=` lets it copy five tiles ahead into four buffers, where the first one is not used "
            "yet"
        )
    if kernel.endswith("AWBarrier"):
        faults, why = ("race",), "sixteen threads initialise the barrier"
    return sample(
        f"{FEATURES}/globalToShmemAsyncCopy/globalToShmemAsyncCopy.cu",
        # Some threads of the kernel whose threads share a state are producers.
        *(f"MatrixMul{kernel}<16>", (8, 4), (16, 20 if kernel.endswith("SharedState") else 16)),
        args=(torch.zeros(rows, cols), a, b, depth, cols),
        expected={0: wanted},
        faults=faults,
        why=why,
    )


def votes_and_halves() -> Iterator[Case]:
    """Yield votes of warps, and scalar products of halves."""
    file = f"{INTRODUCTION}/simpleVoteIntrinsics/simpleVote_kernel.cuh"
    x = torch.zeros(128, dtype=torch.int32)
    x[40] = 1
    x[64:96] = 1
    warps = x.view(4, 32).bool()
    for kernel, wanted in (("VoteAnyKernel1", warps.any(1)), ("VoteAllKernel2", warps.all(1))):
        yield sample(
            *(file, kernel, 1, 128, (x, empty(128), 128)),
            expected={1: wanted[:, None].expand(4, 32).int()},
        )
    info = torch.zeros(96, 3, dtype=torch.bool)
    late = torch.arange(96) >= 48
    wanted = torch.stack([late.view(3, 32).any(1).repeat_interleave(32), late, late], 1)
    wanted[:64, 2] = False
    yield sample(file, "VoteAnyKernel3", 1, 96, (info, 32), expected={0: wanted})
    a, b = torch.randint(4, (2, 2048, 2), dtype=torch.float16)
    # Each thread begins at threadIdx.x + blockDim.x + blockIdx.x, so blocks overlap: as it is.
    sums = torch.zeros(4)
    for block in range(4):
        for thread in range(128):
            at = slice(thread + 128 + block, None, 512)
            sums[block] += (a[at].float() * b[at].float()).sum()
    for kernel in ("intrinsics", "native"):
        yield sample(
            f"{INTRODUCTION}/fp16ScalarProduct/fp16ScalarProduct.cu",
            *(f"scalarProductKernel_{kernel}", 4, 128, (a, b, torch.zeros(4), 2048)),
            expected={2: sums},
            tolerance=1e-2,
        )


def groups() -> Iterator[Case]:
    """Yield kernels of barriers and of partitions of a warp."""
    a, b = torch.rand(2, 1024)
    norm = (a * b).double().sum().sqrt()
    yield sample(
        f"{INTRODUCTION}/simpleAWBarrier/simpleAWBarrier.cu",
        *("normVecByDotProductAWBarrier", 1, 256),
        args=(a.clone(), b.clone(), torch.zeros(1, dtype=torch.float64), 1024),
        expected={0: a / norm, 1: b / norm},
        shared_mem=64,
    )
    x = integers(2048, 50)
    odd = x % 2 == 1
    yield sample(
        f"{FEATURES}/binaryPartitionCG/binaryPartitionCG.cu",
        *("oddEvenCountAndSumCG", 2, 256),
        args=(x, torch.zeros(1, dtype=torch.int32), torch.zeros(2, dtype=torch.int32), 2048),
        expected={1: odd.sum(), 2: torch.stack([x[odd].sum(), x[~odd].sum()])},
    )
    file = f"{FEATURES}/warpAggregatedAtomicsCG/warpAggregatedAtomicsCG.cu"
    signed = x - 25
    yield sample(
        *(file, "filter_arr", 4, 512),
        args=(torch.zeros_like(x), torch.zeros(1, dtype=torch.int32), signed, 2048),
        expected={1: (signed > 0).sum()},
    )
    buckets = integers(2048, 5)
    first = torch.arange(5, dtype=torch.int32) * 2048
    yield sample(
        *(file, "mapToBuckets", 4, 512, (buckets, empty(5 * 2048), first.clone(), 2048, 5)),
        expected={2: first + torch.bincount(buckets)},
    )
    largest = torch.zeros(5, dtype=torch.int32).scatter_reduce(0, buckets.long(), x, "amax")
    yield sample(
        *(file, "calculateMaxInEachBuckets", 4, 512),
        args=(buckets, x, torch.zeros(5, dtype=torch.int32), 2048, 5),
        expected={2: largest},
    )


def transforms() -> Iterator[Case]:
    """Yield Walsh, Haar and cosine transforms, and a transpose."""
    file = f"{DOMAIN}/fastWalshTransform/fastWalshTransform_kernel.cuh"
    x = torch.randn(2, 2048)
    walsh = functools.reduce(torch.kron, [torch.tensor([[1.0, 1.0], [1.0, -1.0]])] * 11)
    yield sample(
        *(file, "fwtBatch1Kernel", 2, 512, (torch.zeros(2, 2048), x, 11)),
        expected={0: x @ walsh},
        shared_mem=8192,
        tolerance=1e-3,
    )
    quarters = x.view(2, 4, 512)
    walsh4 = torch.kron(*[torch.tensor([[1.0, 1.0], [1.0, -1.0]])] * 2)
    yield sample(
        *(file, "fwtBatch2Kernel", (2, 2), 256, (torch.zeros(2, 2048), x, 512)),
        expected={0: torch.einsum("ij,bjk->bik", walsh4, quarters)},
    )
    yield sample(
        *(file, "modulateKernel", 2, 256, (x[0].clone(), x[1].clone(), 2048)),
        expected={0: x[0] * x[1] / 2048},
    )
    signal = torch.randn(512)
    pairs = signal.view(256, 2)
    yield sample(
        *(f"{DOMAIN}/dwtHaar1D/dwtHaar1D.cu", "dwtHaar1D", 1, 256),
        args=(signal, torch.zeros(512), torch.zeros(1), 1, 256, 256),
        expected={1: torch.cat([torch.zeros(256), (pairs[:, 0] - pairs[:, 1]) / math.sqrt(2)])},
        shared_mem=4 * (512 + 32),
    )
    n = torch.arange(8)
    cosines = torch.cos((2 * n + 1) * n[:, None] * math.pi / 16) / 2
    cosines[0] /= math.sqrt(2)
    image = torch.randn(32, 64)
    blocks = image.view(4, 8, 8, 8).transpose(1, 2)
    file = "Samples/2_Concepts_and_Techniques/dct8x8/dct8x8_kernel2.cuh"
    for kernel, basis in (("CUDAkernel2DCT", cosines), ("CUDAkernel2IDCT", cosines.T)):
        yield sample(
            *(file, kernel, (2, 2), (8, 4, 2), (torch.zeros(32, 64), image, 64)),
            expected={0: (basis @ blocks @ basis.T).transpose(1, 2).reshape(32, 64)},
        )
    pixels = integers(48 * 80, 2**31 - 1).view(48, 80)
    yield sample(
        f"{DOMAIN}/recursiveGaussian/recursiveGaussian_cuda.cu",
        *("d_transpose", (5, 3), (16, 16), (empty(80, 48), pixels, 80, 48)),
        expected={0: pixels.T},
    )


def finance() -> Iterator[Case]:
    """Yield prices of options, and quasi-random numbers."""
    stock, strike, years = 5 + 25 * torch.rand(512), 1 + 99 * torch.rand(512), torch.rand(512) + 0.2
    rate, volatility = 0.02, 0.3
    root = volatility * years.sqrt()
    d1 = ((stock / strike).log() + (rate + volatility**2 / 2) * years) / root
    normal = torch.distributions.Normal(0, 1).cdf
    discounted = strike * torch.exp(-rate * years)
    call = stock * normal(d1) - discounted * normal(d1 - root)
    yield sample(
        *(f"{DOMAIN}/BlackScholes/BlackScholes_kernel.cuh", "BlackScholesGPU", 2, 128),
        args=(*torch.zeros(2, 512), stock, strike, years, rate, volatility, 512),
        expected={0: call, 1: call - stock + discounted},
        tolerance=1e-3,
    )
    steps = 2048
    time_step = 1.0 / steps
    up = volatility * math.sqrt(time_step)
    chance = (math.exp(rate * time_step) - math.exp(-up)) / (math.exp(up) - math.exp(-up))
    discount = math.exp(-rate * time_step)
    option = [20.0, 18.0, up, chance * discount, (1 - chance) * discount]
    values = 20 * numpy.exp(up * (2.0 * numpy.arange(steps + 1) - steps)) - 18
    values = numpy.maximum(values, 0)
    for _ in range(steps):
        values = option[3] * values[1:] + option[4] * values[:-1]
    yield sample(
        f"{DOMAIN}/binomialOptions/binomialOptions_kernel.cu",
        *("binomialOptionsKernel", 1, 128, ()),
        variables={"d_OptionData": numpy.resize(numpy.float32(option), 5 * 1024)},
        expected={"d_CallValue": torch.tensor([values[0]], dtype=torch.float32)},
        tolerance=1e-2,
    )
    directions = 2 ** torch.arange(31, -1, -1)  # the first dimension: van der Corput's numbers
    count = 1000
    index = numpy.arange(count) ^ numpy.arange(count) >> 1
    bits = index[:, None] >> numpy.arange(32) & 1
    yield sample(
        *(f"{DOMAIN}/SobolQRNG/sobol_gpu.cu", "sobolGPU_kernel", (2, 1), 64),
        args=(count, 1, directions.numpy().astype(numpy.uint32), torch.zeros(count)),
        expected={3: torch.from_numpy(bits @ 0.5 ** numpy.arange(1, 33)).float()},
    )


def simulations() -> Iterator[Case]:
    """Yield stencils and iterations."""
    radius, size, depth = 4, 32, 8
    weights = torch.rand(radius + 1)
    volume = torch.randn(depth + 2 * radius, size + 2 * radius, size + 2 * radius)
    inner = volume[radius:-radius, radius:-radius, radius:-radius]
    wanted = volume.clone()
    total = weights[0] * inner
    for distance in range(1, radius + 1):
        for axis in range(3):
            shifted = [volume.roll(step, axis) for step in (distance, -distance)]
            total = total + weights[distance] * sum(
                part[radius:-radius, radius:-radius, radius:-radius] for part in shifted
            )
    wanted[radius:-radius, radius:-radius, radius:-radius] = total
    # The last plane is followed by one more that is read and not used.
    padded = torch.cat([volume, torch.zeros(1, *volume.shape[1:])])
    yield sample(
        *(f"{DOMAIN}/FDTD3d/src/FDTD3dGPU.cu", "FiniteDifferencesKernel"),
        *((1, 2), (32, 16)),
        args=(volume.clone(), padded, size, size, depth),
        options=("-I{folder}/Common", f"-I{{folder}}/{DOMAIN}/FDTD3d/inc"),
        expected={0: wanted},
        variables={"stencil": weights.numpy()},
    )
    matrix = torch.rand(512, 512) + 512 * torch.eye(512)
    b, x = torch.rand(2, 512, dtype=torch.float64)
    change = (b - matrix.double() @ x) / matrix.diagonal()
    yield sample(
        *(f"{FEATURES}/jacobiCudaGraphs/jacobi.cu", "JacobiMethod", 128, 256),
        args=(matrix, b, 1e-2, x, torch.zeros_like(x), torch.zeros(1, dtype=torch.float64)),
        expected={4: x + change, 5: change.abs().sum()},
    )
    yield sample(
        *(f"{FEATURES}/jacobiCudaGraphs/jacobi.cu", "finalError", 2, 256),
        args=(x, torch.zeros(1, dtype=torch.float64)),
        expected={1: (x - 1).abs().sum()},
        shared_mem=72,
    )


def tensor_cores() -> Iterator[Case]:
    """Yield products by nvcuda::wmma: 64 rows and columns a block."""
    m, n, k = 128, 64, 80
    for name, kernel, dtype in (
        ("cudaTensorCoreGemm", "simple_wmma_gemm", torch.float16),
        ("tf32TensorCoreGemm", "simple_wmma_tf32gemm", torch.float32),
    ):
        a, b = torch.randint(-2, 3, (m, k)).to(dtype), torch.randint(-2, 3, (n, k)).to(dtype)
        c = torch.randn(m, n)
        yield sample(
            *(f"{FEATURES}/{name}/{name}.cu", kernel, (m // 64, n // 64), (128, 4)),
            args=(a, b, c, torch.zeros(m, n), m, n, k, 1.1, 1.2),
            expected={3: 1.1 * (a.float() @ b.float().T) + 1.2 * c},
        )


def refused() -> Iterator[Case]:
    """Yield kernels that cannot run on the CPU, and say why."""
    x = torch.zeros(16)
    file = f"{FEATURES}/cdpSimplePrint/cdpSimplePrint.cu"
    yield sample(file, "cdp_kernel", 1, 2, (2, 0, 0, 0), refused="launches kernels")
    file = f"{INTRODUCTION}/simpleTexture3D/simpleTexture3D_kernel.cu"
    yield sample(file, "d_render", 1, 32, (x, 1, 1, 0.5, 0), refused="textures")
    file = f"{FEATURES}/newdelete/newdelete.cu"
    yield sample(file, "vectorCreate", 1, 1, (x, 1), refused="allocate")
