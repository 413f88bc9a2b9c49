"""The tracer's counts of transpose and sum, against figures derived by hand.

A warp has 32 threads, a sector 32 bytes, a wavefront is one pass through the 32 banks of 4 bytes.
"""

import pytest
import torch
from helpers import SUMS, TRANSPOSES, normal, short
from trace_lines import lines, ways

import torch_smem_gemm as smem
from torch_smem_gemm.trace_report import LOADS, STORES, Trace


def transpose(kernel: str, m: int, n: int, dtype: torch.dtype = torch.float32) -> Trace:
    return smem.trace("transpose", torch.ones(m, n, dtype=dtype), kernel=kernel)


def row_sums(kernel: str, m: int, n: int) -> Trace:
    return smem.trace("sum", normal(m, n), 1, kernel=kernel)


# ------------------------------------------------------------------------------------- transpose


@pytest.mark.parametrize("kernel", TRANSPOSES)
def test_transpose_reads_and_writes_every_element_once(kernel: str) -> None:
    for m, n in ((64, 64), (33, 45), (1, 100)):
        trace = transpose(kernel, m, n)
        assert trace.global_bytes_stored == 4 * m * n
        if kernel == "unaligned" and (m, n) != (1, 100):
            # Whole vectors, each once; at the ends of a tile's rows also by its neighbours.
            assert 4 * m * n <= trace.global_bytes_loaded < 1.25 * 4 * m * n
        else:
            assert trace.global_bytes_loaded == 4 * m * n


def test_transpose_naive_writes_a_sector_an_element() -> None:
    """64 x 64 are 128 rows of 32 floats, a request each: 4 sectors to read, 32 to write."""
    trace = transpose("naive", 64, 64)
    (load,), (store,) = lines(trace, LOADS, "x"), lines(trace, STORES, "out")
    assert (load.requests, load.sectors) == (128, 512)
    assert (store.requests, store.sectors) == (128, 4096)
    assert trace.count("wavefronts") == trace.barriers == 0


@pytest.mark.parametrize("kernel", ["tiled", "padded", "swizzled", "vectorized"])
def test_transpose_in_shared_memory_writes_whole_sectors(kernel: str) -> None:
    trace = transpose(kernel, 64, 64)
    assert [line.sectors for line in lines(trace, LOADS, "x")] == [512]
    assert sum(line.sectors for line in lines(trace, STORES, "out")) == 512
    assert trace.barriers == 1


def test_transpose_tiled_reads_columns_in_one_bank() -> None:
    """At pitch 32 the 32 words of a column lie in one bank: 32 passes, 31 of them conflicts."""
    trace = transpose("tiled", 64, 64)
    (load,), (store,) = lines(trace, LOADS, "shared"), lines(trace, STORES, "shared")
    assert (load.requests, load.wavefronts, load.conflicts) == (128, 128 * 32, 128 * 31)
    assert (load.wavefronts, load.conflicts) == (4096, 3968)
    assert (ways(load), load.worst) == (32, 32)
    assert (store.wavefronts, store.conflicts, ways(store)) == (128, 0, 1)


def test_transpose_padded_has_no_conflict() -> None:
    trace = transpose("padded", 64, 64)
    (load,) = lines(trace, LOADS, "shared")
    assert (load.wavefronts, load.conflicts, ways(load)) == (128, 0, 1)
    assert trace.conflicts == 0
    assert trace.launches[0].shared_bytes == 4 * 32 * 33


@pytest.mark.parametrize(
    ("dtype", "words_a_bank", "passes"),
    [
        # A column at pitch 32: bytes 32 apart lie in banks 0, 8, 16, 24: 8 words in each.
        (torch.uint8, 8, 8),
        (torch.float16, 16, 16),  # 64 bytes apart: banks 0 and 16
        (torch.float32, 32, 32),  # 128 bytes apart: bank 0
        # A half of the warp at a time, 256 bytes apart: 16 words in banks 0 and 1.
        (torch.float64, 16, 2 * 16),
        (torch.complex128, 8, 4 * 8),  # a quarter at a time, 512 bytes apart: banks 0 to 3
    ],
    ids=short,
)
def test_transpose_padding_helps_every_width(
    dtype: torch.dtype, words_a_bank: int, passes: int
) -> None:
    (column,) = lines(transpose("tiled", 32, 32, dtype), LOADS, "shared")
    assert ways(column) == words_a_bank
    assert column.wavefronts_a_request == passes
    (column,) = lines(transpose("padded", 32, 32, dtype), LOADS, "shared")
    if dtype.itemsize >= 4:
        assert (column.conflicts, ways(column)) == (0, 1)
        assert column.wavefronts_a_request == dtype.itemsize // 4
    else:
        # One element moves a row by a part of a word: some columns still meet a word twice.
        assert ways(column) <= 2


EACH_SIZE = (torch.uint8, torch.bfloat16, torch.float32, torch.float64, torch.complex128)


@pytest.mark.parametrize("dtype", EACH_SIZE, ids=short)
@pytest.mark.parametrize("kernel", ["padded", "swizzled", "vectorized"])
def test_transpose_without_conflicts_at_every_width(kernel: str, dtype: torch.dtype) -> None:
    trace = transpose(kernel, 256, 128, dtype)
    assert trace.conflicts == 0
    bytes_ = 256 * 128 * dtype.itemsize
    assert sum(line.sectors for line in lines(trace, LOADS, "x")) == bytes_ // 32
    assert sum(line.sectors for line in lines(trace, STORES, "out")) == bytes_ // 32


def test_step_swizzled_quarters_the_requests_of_padded() -> None:
    """16 bytes a lane to and from global memory; the tile is read element by element as before."""
    padded, swizzled = transpose("padded", 64, 64), transpose("swizzled", 64, 64)
    assert [line.requests for line in lines(padded, LOADS + STORES, "x")] == [128]
    assert [line.requests for line in lines(swizzled, LOADS + STORES, "x")] == [32]
    assert [line.requests for line in lines(swizzled, STORES, "shared")] == [32]
    assert [line.requests for line in lines(swizzled, LOADS, "shared")] == [128]
    assert swizzled.launches[0].shared_bytes == 4 * 32 * 32


@pytest.mark.parametrize("dtype", EACH_SIZE, ids=short)
def test_step_vectorized_moves_16_bytes_everywhere(dtype: torch.dtype) -> None:
    """Each byte passes the banks once each way, 128 bytes a pass: no kernel can do with less.

    But copies to shared memory take two passes for 128 bytes.
    """
    for m, n in ((256, 256), (1024, 16), (16, 1024)):
        trace = transpose("vectorized", m, n, dtype)
        vectors = m * n * dtype.itemsize // 16
        copies = 0
        for line in trace.launches[0].lines:
            if line.action != "barrier":
                assert (line.bytes_a_lane, line.lanes) == (16, vectors)
                copies += line.action == "copy_to"
        assert trace.wavefronts == (2 + copies) * vectors // 8
        assert trace.conflicts == 0


@pytest.mark.parametrize("dtype", EACH_SIZE[:4], ids=short)
def test_register_transpose_needs_no_shared_memory(dtype: torch.dtype) -> None:
    x = torch.ones(2048, 2048 // dtype.itemsize + 256, dtype=dtype)
    trace = smem.trace("transpose", x)
    assert trace.kernel == "vectorized"
    assert trace.barriers == trace.wavefronts == 0
    for line in trace.launches[0].lines:
        assert (line.bytes_a_lane, line.lanes) == (16, x.numel() * dtype.itemsize // 16)
        assert line.sectors == 2 * line.lanes / 4


@pytest.mark.parametrize("dtype", EACH_SIZE[:4], ids=short)
def test_unaligned_moves_16_bytes_outside_wherever_rows_begin(dtype: torch.dtype) -> None:
    """Single elements only at the ends of columns and of the tensor; no conflict there either."""
    m, n, width = 1031, 517, 16 // dtype.itemsize
    trace = transpose("unaligned", m, n, dtype)
    assert trace.conflicts == 0
    assert not trace.faults
    stores = lines(trace, STORES, "out")
    whole = sum(line.lanes for line in stores if line.bytes_a_lane == 16)
    alone = sum(line.lanes * line.bytes_a_lane for line in stores if line.bytes_a_lane < 16)
    alone //= dtype.itemsize
    assert whole * width + alone == m * n
    assert alone <= 2 * (width - 1) * n
    assert sum(line.sectors for line in stores if line.bytes_a_lane == 16) < 1.02 * whole / 2


def test_unaligned_reads_sectors_once() -> None:
    """But for those at the ends of a tile's rows: cp.async would read twice what it must halve."""
    for line in transpose("unaligned", 1031, 517, torch.float32).launches[0].lines:
        if line.action == "copy_from" and line.requests > 1000:
            assert line.sectors < 1.1 * line.lanes / 2
            break
    else:
        raise AssertionError("no such line")


@pytest.mark.parametrize(
    ("m", "n", "batch", "ways_"),
    [
        (8, 5000, 1, 1),  # lanes side by side in one row
        (5000, 8, 1, 3),  # rows 16 apart lie 128 bytes apart: lanes take them in turn
        (1003, 17, 1, 2),
        (63, 65, 300, 2),
    ],
)
def test_unaligned_takes_flat_segments_almost_without_conflicts(
    m: int, n: int, batch: int, ways_: int
) -> None:
    x = torch.ones(batch, m, n, dtype=torch.uint8)
    trace = smem.trace("transpose", x, kernel="unaligned")
    (load,) = [line for line in lines(trace, LOADS, "shared") if "elements" in line.text]
    assert load.wavefronts <= ways_ * load.requests
    assert not trace.faults


def test_strided_copy_needs_no_shared_memory() -> None:
    x = torch.ones(2, 16, 6, 64)
    trace = smem.trace("transpose", x, 1, 2)
    assert trace.kernel == "strided_copy"
    assert trace.barriers == trace.wavefronts == 0
    (load,), (store,) = lines(trace, LOADS, "x"), lines(trace, STORES, "out")
    assert load.bytes_a_lane == store.bytes_a_lane == 16
    assert load.sectors == store.sectors == x.numel() * 4 // 32


# ------------------------------------------------------------------------------------------ sum


@pytest.mark.parametrize("kernel", SUMS)
def test_sum_reads_every_element_once(kernel: str) -> None:
    for m, n in ((8, 8192), (3, 1000), (5, 7)):
        trace = row_sums(kernel, m, n)
        assert trace.count("bytes", actions=LOADS, memory="x") == 4 * m * n
        assert trace.count("bytes", actions=STORES, memory="out") == 4 * m
        assert trace.conflicts == 0


def test_sum_reads_rows_by_whole_sectors_and_columns_by_single_elements() -> None:
    x = normal(256, 256)
    (along,) = lines(smem.trace("sum", x, 1, kernel="tree"), LOADS, "x")
    (down,) = lines(smem.trace("sum", x, 0, kernel="tree"), LOADS, "x")
    assert (along.sectors_a_request, down.sectors_a_request) == (4, 32)


@pytest.mark.parametrize(
    ("kernel", "barriers", "words", "flop"),
    [
        # 256 sums stored; 128, 64 ... 1 threads store again: 255 words. 8192 elements are added to
        # the threads' zeros, then 255 pairs.
        ("tree", 8, 256 + 255, 8192 + 255),
        # 8 words, one a warp. 5 rounds in each of 256 threads, 5 in the first warp.
        ("shuffle", 1, 8, 8192 + 5 * 256 + 5 * 32),
    ],
)
def test_step_shuffle_saves_barriers_and_shared_memory(
    kernel: str, barriers: int, words: int, flop: int
) -> None:
    trace = row_sums(kernel, 6, 8192)
    assert trace.launches[0].block == (256, 1, 1)
    assert trace.barriers == barriers
    assert trace.shared_bytes_stored == 6 * 4 * words
    assert trace.flop == 6 * flop


def test_tree_halves_its_warps() -> None:
    """Rounds of 128, 64, 32 threads and less: 4 + 2 + 1 + 5 warps read their own and their
    neighbours' sums, by one line."""
    (rounds,) = lines(row_sums("tree", 1, 8192), ("load",), "shared", "stride")
    assert (rounds.requests, rounds.lanes) == (2 * 12, 2 * 255)


def test_a_shuffle_is_a_request_of_its_own() -> None:
    """5 rounds in each of 8 warps and in the first again."""
    trace = row_sums("shuffle", 1, 8192)
    assert trace.count("requests", actions=["shuffle"]) == 5 * 8 + 5
