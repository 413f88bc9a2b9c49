"""Kernels of cuda-samples' "Concepts and Techniques": transposes, reductions, scans, sorts."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator

import numpy
import torch
from public_case import Case
from torch import Tensor

FOLDER = "Samples/2_Concepts_and_Techniques"

sample: Callable[..., Case] = functools.partial(Case, options=("-I{folder}/Common",))


def integers(count: int, end: int) -> Tensor:
    """Return random integers from 0 to end - 1."""
    return torch.randint(end, (count,), dtype=torch.int32)


def empty(*shape: int) -> Tensor:
    """Return integers to be overwritten."""
    return torch.full(shape, -1, dtype=torch.int32)


def cases() -> Iterator[Case]:
    """Yield one case for each kernel."""
    yield from transposes()
    yield from reductions()
    yield from reductions_of_other_samples()
    yield from histograms()
    yield from scans()
    yield from shuffled_scans()
    yield from bitonic_sorts()
    yield from merge_sorts()
    yield from convolutions()


def transposes() -> Iterator[Case]:
    """Yield copies and transposes of a square."""
    x = torch.randn(128, 128)
    tiles = x.view(4, 32, 4, 32)
    wanted = {
        "copy": x,
        "copySharedMem": x,
        "transposeNaive": x.T,
        "transposeCoalesced": x.T,
        "transposeNoBankConflicts": x.T,
        "transposeDiagonal": x.T,
        # These two leave out a part of the way, to measure the other.
        "transposeFineGrained": tiles.permute(0, 3, 2, 1),
        "transposeCoarseGrained": tiles.permute(2, 1, 0, 3),
    }
    for kernel, out in wanted.items():
        yield sample(
            *("Samples/6_Performance/transpose/transpose.cu", kernel, (4, 4), (32, 16)),
            args=(torch.zeros(128, 128), x, 128, 128),
            expected={0: out},
        )


def reductions() -> Iterator[Case]:
    """Yield the reductions of one sample, each faster than the one before."""
    threads, blocks = 128, 4
    x = integers(2 * threads * blocks, 1000)
    by_block = {
        1: x[: threads * blocks].view(blocks, threads).sum(1),  # elements of a thread: sums
        2: x.view(blocks, -1).sum(1),
    }
    strided = x.view(2, blocks, threads).sum((0, 2))
    kernels = {
        "reduce0<int>": (1, by_block[1]),
        "reduce1<int>": (1, by_block[1]),
        "reduce2<int>": (1, by_block[1]),
        "reduce3<int>": (2, by_block[2]),
        "reduce4<int, 128>": (2, by_block[2]),
        "reduce5<int, 128>": (2, by_block[2]),
        "reduce6<int, 128, true>": (2, by_block[2]),
        "reduce6<int, 128, false>": (2, strided),
        "reduce7<int, 128, true>": (2, by_block[2]),
        "cg_reduce<int>": (2, strided),
        "multi_warp_cg_reduce<int, 128, 64>": (2, by_block[2]),
    }
    for kernel, (elements, sums) in kernels.items():
        yield sample(
            *(f"{FOLDER}/reduction/reduction_kernel.cu", kernel, blocks, threads),
            args=(x, empty(blocks), elements * threads * blocks),
            expected={1: sums},
            shared_mem=4 * threads,
            refused="several warps" if "multi_warp" in kernel else "",
        )
    floats = torch.randn(2 * threads * blocks)
    yield sample(
        *(f"{FOLDER}/reduction/reduction_kernel.cu", "reduce7<float, 128, true>", blocks, threads),
        args=(floats, torch.zeros(blocks), len(floats)),
        expected={1: floats.view(blocks, -1).sum(1)},
        shared_mem=4 * threads,
        faults=("absent lanes",),
        differs=True,
        why="four lanes shuffle over the distance of sixteen: the guide leaves open what they get",
    )


def reductions_of_other_samples() -> Iterator[Case]:
    """Yield reductions that take one launch, and scalar products."""
    x = torch.randn(4096)
    file = f"{FOLDER}/threadFenceReduction/threadFenceReduction_kernel.cuh"
    launch = {"shared_mem": 512}
    yield sample(
        *(file, "reduceMultiPass<128, true>", 4, 128, (x, torch.zeros(4), 4096)),
        expected={1: x.view(4, 4, 256).sum((0, 2))},
        **launch,
    )
    yield sample(
        *(file, "reduceSinglePass<128, true>", 4, 128, (x, torch.zeros(4), 4096)),
        expected={1: x.sum().view(1)},
        **launch,
    )
    yield sample(
        f"{FOLDER}/reductionMultiBlockCG/reductionMultiBlockCG.cu",
        *("reduceSinglePassMultiBlockCG", 1, 256, (x, torch.zeros(1), 4096)),
        expected={1: x.sum().view(1)},
        shared_mem=2048,
    )
    a, b = torch.randn(2, 6, 2048)
    yield sample(
        *(f"{FOLDER}/scalarProd/scalarProd_kernel.cuh", "scalarProdGPU", 4, 256),
        args=(torch.zeros(6), a, b, 6, 2048),
        expected={0: (a * b).sum(1)},
        tolerance=1e-3,
    )


def histograms() -> Iterator[Case]:
    """Yield histograms of bytes, and the sums of partial ones."""
    data = torch.randint(256, (4096,), dtype=torch.uint8)
    words = data.view(torch.int32)
    bins = {64: data // 4, 256: data}
    for count, threads in ((64, 64), (256, 192)):
        file = f"{FOLDER}/histogram/histogram{count}.cu"
        parts = empty(2, count)
        elements = len(words) if count == 256 else len(words) // 4
        order = torch.arange(elements) // threads % 2  # the block that counts an element
        by_block = [
            torch.bincount(bins[count].view(elements, -1)[order == i].flatten(), minlength=count)
            for i in range(2)
        ]
        yield sample(
            *(file, f"histogram{count}Kernel", 2, threads, (parts, words, elements)),
            expected={0: torch.stack(by_block)},
        )
        given = integers(300 * count, 100)
        yield sample(
            *(file, f"mergeHistogram{count}Kernel", count, 256, (empty(count), given, 300)),
            expected={0: given.view(300, count).sum(0)},
        )


def scans() -> Iterator[Case]:
    """Yield exclusive prefix sums."""
    file = f"{FOLDER}/scan/scan.cu"
    x = integers(2048, 100)
    by_row = x.view(-1, 1024)
    yield sample(
        *(file, "scanExclusiveShared", 2, 256, (empty(2048), x, 1024)),
        expected={0: by_row.cumsum(1) - by_row},
    )
    # The last of every 1024: their exclusive prefix sums and themselves.
    many = integers(1024 * 256, 100)
    exclusive = many.view(-1, 1024).cumsum(1).int() - many.view(-1, 1024)
    sums = many.view(-1, 1024).sum(1)
    yield sample(
        *(file, "scanExclusiveShared2", 1, 256, (empty(256), exclusive, many, 256, 256)),
        expected={0: sums.cumsum(0) - sums},
    )
    added = integers(2, 100)
    yield sample(
        *(file, "uniformUpdate", 2, 256, (x.clone(), added)),
        expected={0: by_row + added[:, None]},
    )


def shuffled_scans() -> Iterator[Case]:
    """Yield prefix sums by shuffles."""
    file = f"{FOLDER}/shfl_scan/shfl_scan.cu"
    x = integers(512, 100)
    sums = x.view(2, 256).cumsum(1)
    yield sample(
        *(file, "shfl_scan_test", 2, 256, (x.clone(), 32, empty(2))),
        expected={0: sums, 2: sums[:, -1]},
        shared_mem=32,
    )
    added = integers(2, 100)
    yield sample(
        *(file, "uniform_add", 2, 256, (x.clone(), added, 511)),
        expected={0: x.view(2, 256) + added[:, None]},
    )
    image = torch.randint(256, (2, 1920), dtype=torch.uint8)
    yield sample(
        *(file, "shfl_intimage_rows", 2, 120, (image, empty(2, 1920))),
        expected={1: image.cumsum(1)},
        faults=("uninitialised",),
        why="the first warp scans 32 sums of warps, and there are only four",
    )
    columns = torch.randint(100, (1080, 64), dtype=torch.int32)
    yield sample(
        *(file, "shfl_vertical_shfl", 2, (32, 8), (columns.clone(), 64, 1080)),
        expected={0: columns.cumsum(0)},
    )


def bitonic_sorts() -> Iterator[Case]:
    """Yield sorting networks of one sample and one of another."""
    folder = f"{FOLDER}/sortingNetworks"
    for file, kernel in (
        (f"{folder}/bitonicSort.cu", "bitonicSortShared"),
        (f"{folder}/oddEvenMergeSort.cu", "oddEvenMergeSortShared"),
        ("Samples/0_Introduction/mergeSort/bitonic.cu", "bitonicSortSharedKernel"),
    ):
        keys = torch.randperm(1024).int()
        yield sample(
            *(file, kernel, 1, 512, (empty(1024), empty(1024), keys, _numbers(1024), 1024, 1)),
            expected=dict(enumerate(keys.sort())),
        )
    keys = torch.randperm(2048).int()
    # Neighbours are sorted in opposite directions: the first descending.
    halves = [half.sort(descending=i == 0) for i, half in enumerate(keys.view(2, 1024))]
    out = torch.cat([half.values for half in halves])
    order = torch.cat([half.indices + 1024 * i for i, half in enumerate(halves)]).int()
    args = (empty(2048), empty(2048), keys, _numbers(2048))
    bitonic = f"{folder}/bitonicSort.cu"
    yield sample(*(bitonic, "bitonicSortShared1", 2, 512, args), expected={0: out, 1: order})
    low, high = out.view(2, 1024).min(0).values, out.view(2, 1024).max(0).values
    yield sample(
        *(bitonic, "bitonicMergeGlobal", 4, 256),
        args=(empty(2048), empty(2048), out, order, 2048, 2048, 1024, 1),
        expected={0: torch.cat([low, high])},
    )
    yield sample(
        *(bitonic, "bitonicMergeShared", 2, 512),
        args=(empty(2048), empty(2048), torch.cat([low, high]), order, 2048, 2048, 1),
        expected={0: keys.sort().values},
    )
    ascending = keys.view(2, 1024).sort().values
    yield sample(
        *(f"{folder}/oddEvenMergeSort.cu", "oddEvenMergeGlobal", 4, 256),
        args=(empty(2048), empty(2048), ascending, _numbers(2048), 2048, 2048, 1024, 1),
        expected={0: torch.cat([ascending.min(0).values, ascending.max(0).values])},
    )


def merge_sorts() -> Iterator[Case]:
    """Yield the steps of a merge sort of two sorted halves."""
    file = "Samples/0_Introduction/mergeSort/mergeSort.cu"
    keys = torch.randperm(1024).int()
    yield sample(
        *(file, "mergeSortSharedKernel<1U>", 1, 512),
        args=(empty(1024), empty(1024), keys, _numbers(1024), 1024),
        expected=dict(enumerate(keys.sort())),
    )
    halves = torch.randperm(2048).int().view(2, 1024).sort().values
    a, b = halves.numpy()
    samples = numpy.arange(0, 1024, 128)
    in_a = numpy.concatenate([samples, numpy.searchsorted(a, b[samples], side="right")])
    in_b = numpy.concatenate([numpy.searchsorted(b, a[samples]), samples])
    ranks = [torch.from_numpy(rank).int() for rank in (in_a, in_b)]
    yield sample(
        *(file, "generateSampleRanksKernel<1U>", 1, 256),
        args=(empty(16), empty(16), halves, 1024, 2048, 8),
        expected=dict(enumerate(ranks)),
    )
    limits = [rank.sort().values for rank in ranks]
    yield sample(
        *(file, "mergeRanksAndIndicesKernel", 1, 256, (empty(16), ranks[0], 1024, 2048, 8)),
        expected={0: limits[0]},
    )
    args = (halves, _numbers(2048), *limits, 1024, 2048)
    merged = {0: halves.flatten().sort().values}
    yield sample(
        *(file, "mergeElementaryIntervalsKernel<1U>", 16, 128),
        args=(empty(2048), empty(2048), *args),
        expected=merged,
    )
    yield sample(
        "Samples/0_Introduction/mergeSort/bitonic.cu",
        *("bitonicMergeElementaryIntervalsKernel<1U>", 16, 128),
        args=(empty(2048), empty(2048), *args),
        expected=merged,
        faults=("uninitialised",),
        why="it also sorts elements that are marked as absent, whose keys nobody stored",
    )


def convolutions() -> Iterator[Case]:
    """Yield a separable filter's two passes, the filter in constant memory."""
    image, weights = torch.randn(128, 128), torch.randn(17)
    for kernel, grid, block, is_row in (
        ("convolutionRowsKernel", (1, 32), (16, 4), True),
        ("convolutionColumnsKernel", (8, 2), (16, 8), False),
    ):
        shape, padding = ((1, 17), (0, 8)) if is_row else ((17, 1), (8, 0))
        filtered = torch.nn.functional.conv2d(
            image[None, None], weights.flip(0).view(1, 1, *shape), padding=padding
        )
        yield sample(
            *(f"{FOLDER}/convolutionSeparable/convolutionSeparable.cu", kernel, grid, block),
            args=(torch.zeros(128, 128), image, 128, 128, 128),
            expected={0: filtered},
            variables={"c_Kernel": weights.numpy()},
        )


def _numbers(count: int) -> Tensor:
    return torch.arange(count, dtype=torch.int32)
