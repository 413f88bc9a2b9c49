"""The tracer's counts of the GEMM ladder, against figures derived by hand: what each step is for.

A warp has 32 threads, a sector 32 bytes, a wavefront is one pass through the 32 banks of 4 bytes.
"""

import math

import pytest
import torch
from helpers import GEMMS, normal, short
from trace_lines import lines, ways

import torch_smem_gemm as smem
from torch_smem_gemm.analysis import gemm_reads
from torch_smem_gemm.trace_report import LOADS, STORES, Line, Trace

F64, F32, F16 = torch.float64, torch.float32, torch.float16


def gemm(kernel: str, m: int, n: int, k: int, dtype: torch.dtype = F32) -> Trace:
    return smem.trace("gemm", normal(m, k, dtype=dtype), normal(k, n, dtype=dtype), kernel=kernel)


def inner_loads(trace: Trace) -> tuple[Line, Line]:
    """Where the products of tiled read As and Bs."""
    of_a, of_b = lines(trace, LOADS, "shared", "= fma(")
    return of_a, of_b


def reads(trace: Trace) -> float:
    """Elements of A and B that threads read."""
    return sum(
        trace.count("bytes", actions=LOADS, memory=name) / getattr(torch, trace.dtype).itemsize
        for name in ("a", "b")
    )


def fma(trace: Trace) -> int:
    return sum(launch.fma for launch in trace.launches)


# ------------------------------------------------------------------------- gemm: global memory

# The tile of C that a block computes: what it reads serves so many rows, so many columns.
TILES = {
    "naive": 1,
    "panel": 16,
    "tiled16": 16,
    "tiled32": 32,
    "tiled32_padded": 32,
    "vectorized": 32,
    "register_tiled": 128,
    "double_buffered": 128,
}


@pytest.mark.parametrize("kernel", TILES)
def test_every_gemm_reads_what_its_tile_says(kernel: str) -> None:
    """A ceil(N / tile) times and B ceil(M / tile) times, whatever is cut off at the edges."""
    tile = TILES[kernel]
    for m, n, k in ((64, 64, 64), (30, 50, 70), (129, 40, 33), (1, 200, 5)):
        trace = gemm(kernel, m, n, k)
        assert reads(trace) == gemm_reads(m, n, k, tile)
        assert trace.times_read("a") == math.ceil(n / tile)
        assert trace.times_read("b") == math.ceil(m / tile)
        assert trace.global_bytes_stored == 4 * m * n


def test_naive_reads_two_elements_a_product() -> None:
    """2 M N K elements, 2 FLOP for 8 bytes; in a batch as in one."""
    assert reads(gemm("naive", 30, 50, 70)) == 2 * 30 * 50 * 70
    batch = smem.trace("gemm", normal(3, 20, 9), normal(3, 9, 33), kernel="naive")
    assert reads(batch) == 3 * 2 * 20 * 33 * 9
    # At K = 256, what else is added and stored weighs little.
    assert gemm("naive", 32, 32, 256).intensity == pytest.approx(0.25, rel=0.02)


def test_naive_warps_share_the_elements_of_a() -> None:
    """The 32 threads of a warp lie along a row of C: one sector of A, 4 sectors of B a request."""
    trace = gemm("naive", 64, 64, 64)
    (of_a,), (of_b,) = lines(trace, LOADS, "a"), lines(trace, LOADS, "b")
    requests = 64 * 64 // 32 * 64
    assert (of_a.requests, of_a.sectors) == (requests, requests)
    assert (of_b.requests, of_b.sectors) == (requests, 4 * requests)


def test_naive_reads_a_transposed_b_sector_by_sector() -> None:
    """Neighbours along N then lie K apart: every lane has a sector of its own."""
    trace = smem.trace("gemm", normal(32, 64), normal(32, 64).t(), kernel="naive")
    (of_b,) = lines(trace, LOADS, "b")
    assert of_b.sectors_a_request == 32


def test_panel_reads_each_panel_again_for_every_block() -> None:
    """M K ceil(N/16) + K N ceil(M/16), not M K + K N as the texts have it."""
    for m, n, k in ((64, 64, 64), (50, 33, 40), (16, 16, 100)):
        trace = gemm("panel", m, n, k)
        assert reads(trace) == m * k * math.ceil(n / 16) + k * n * math.ceil(m / 16)
        assert trace.barriers == 1
        assert trace.launches[0].dynamic_shared_bytes == 2 * 16 * k * 4


def test_tiled32_moves_whole_sectors() -> None:
    """4 blocks x 2 steps x 32 warps x 4 sectors each of A and of B; out is 64 x 64 x 4 bytes."""
    trace = gemm("tiled32", 64, 64, 64)
    (of_a,), (of_b,), (out,) = (
        lines(trace, LOADS, "a"),
        lines(trace, LOADS, "b"),
        lines(trace, STORES, "out"),
    )
    assert of_a.sectors == of_b.sectors == 4 * 2 * 32 * 4 == 1024
    assert out.sectors == 64 * 64 * 4 // 32


def test_vectors_need_aligned_rows() -> None:
    """A row of 66 floats is no row of 16-byte runs: read by elements, at the same bytes."""
    aligned, ragged = gemm("vectorized", 32, 32, 64), gemm("vectorized", 32, 32, 66)
    assert {line.bytes_a_lane for line in lines(aligned, LOADS, "a")} == {16}
    assert {line.bytes_a_lane for line in lines(ragged, LOADS, "a")} == {4}
    assert reads(ragged) == gemm_reads(32, 32, 66, 32)


# ------------------------------------------------------------------------- gemm: shared memory


def test_tiled32_has_no_bank_conflict() -> None:
    """4 blocks x 32 warps x 64 values of k: a broadcast of As, 32 neighbours of Bs, a pass each."""
    trace = gemm("tiled32", 64, 64, 64)
    of_a, of_b = inner_loads(trace)
    for line in (of_a, of_b):
        assert line.requests == line.wavefronts == 4 * 32 * 64 == 8192
        assert (line.conflicts, ways(line)) == (0, 1)
    assert len({at for at in of_a.example if at is not None}) == 1
    assert trace.conflicts == 0


@pytest.mark.parametrize(("kernel", "tile"), [("tiled16", 16), ("tiled32", 32)])
def test_tiled_waits_twice_a_step(kernel: str, tile: int) -> None:
    for k in (64, 50):
        trace = gemm(kernel, 64, 64, k)
        steps = math.ceil(k / tile)
        assert trace.barriers == 2 * steps
        warps = (64 // tile) ** 2 * tile * tile // 32
        assert trace.count("requests", actions=["barrier"]) == 2 * steps * warps


def test_padding_a_gemm_removes_no_conflict() -> None:
    """Line by line the same passes. But at an odd pitch no 16-byte load can be made of four."""
    plain, padded = gemm("tiled32", 64, 64, 64), gemm("tiled32_padded", 64, 64, 64)

    def shared(trace: Trace) -> list[tuple]:
        return [
            (line.text, line.action, line.requests, line.wavefronts, line.conflicts)
            for line in trace.launches[0].lines
            if line.memory == "shared"
        ]

    assert shared(plain) == shared(padded)
    assert plain.conflicts == padded.conflicts == 0
    # 4 loads of 4 bytes that all lanes share become one of 16, of which a pass serves 16 lanes.
    of_a, _ = inner_loads(plain)
    assert of_a.merged_requests == of_a.requests / 4
    assert of_a.merged_wavefronts == 2 * of_a.merged_requests == of_a.wavefronts / 2
    for line in inner_loads(padded):
        assert (line.merged_requests, line.merged_wavefronts) == (line.requests, line.wavefronts)


@pytest.mark.parametrize(("k", "conflict"), [(64, 2), (32, 2), (33, 1), (47, 1), (48, 1)])
def test_panel_conflicts_where_k_is_a_multiple_of_32(k: int, conflict: int) -> None:
    """A warp reads As in two rows, K words apart: one bank if 32 divides K, two otherwise."""
    # As and Bs are in one piece of dynamic shared memory: one line reads both, as often.
    (both,) = lines(gemm("panel", 32, 32, k), LOADS, "shared", "= fma(")
    of_each = both.requests // 2
    assert ways(both) == conflict
    assert both.wavefronts == conflict * of_each + of_each
    assert both.conflicts == (conflict - 1) * of_each


@pytest.mark.parametrize(("k", "conflict"), [(64, 2), (33, 2), (48, 1), (16, 1)])
def test_panel_stores_want_another_pitch_than_its_loads(k: int, conflict: int) -> None:
    """A warp stores two rows of 16 words, K apart: they share banks unless K mod 32 is 16."""
    trace = gemm("panel", 32, 32, k)
    (store,) = lines(trace, STORES, "shared", "As[")
    assert ways(store) == conflict


@pytest.mark.parametrize("kernel", [name for name in GEMMS if name not in ("naive", "panel")])
@pytest.mark.parametrize("dtype", [F64, F32, F16], ids=short)
def test_tiles_are_read_without_conflict_in_any_dtype(kernel: str, dtype: torch.dtype) -> None:
    trace = gemm(kernel, 128, 128, 32, dtype)
    conflicting = [
        line
        for line in lines(trace, ("load",), "shared")
        if line.conflicts and "slots" not in line.text  # simt's sums on their way out, once a tile
    ]
    if (kernel, dtype) == ("tiled16", F64):
        # A warp reads As in two rows of 16 doubles, which are 32 words apart: as panel does.
        (of_a,) = conflicting
        assert of_a == inner_loads(trace)[0]
        assert (ways(of_a), of_a.wavefronts_a_request) == (2, 2)
    else:
        assert conflicting == []


@pytest.mark.parametrize("kernel", ["tiled16", "tiled32", "vectorized", "register_tiled"])
def test_float32_tiles_are_stored_without_conflict(kernel: str) -> None:
    trace = gemm(kernel, 128, 128, 32)
    assert trace.count("conflicts", actions=["store"]) == 0


# ------------------------------------------------------------------------------ gemm: arithmetic


@pytest.mark.parametrize("kernel", GEMMS)
def test_gemm_flop(kernel: str) -> None:
    """M N K multiply-adds. For each element besides: alpha's multiplication, an addition for each
    of the K / 64 chunks, and two more that add up the sum, the chunks' and the superchunks' sum.
    simt adds no superchunks' sum where there is none, nor what is left beyond whole chunks."""
    m = n = 128
    more = 0 if kernel == "simt" else 2
    for k in (64, 128):
        trace = gemm(kernel, m, n, k)
        (launch,) = trace.launches
        assert launch.fma == m * n * k
        assert launch.multiply == m * n
        assert launch.add == m * n * (k // 64 + more)
        assert trace.flop == 2 * m * n * k + m * n * (k // 64 + 1 + more)


def test_epilogue_adds_its_own() -> None:
    """beta * c is a multiply-add, the bias an addition, relu neither."""
    a, b, c, bias = normal(32, 8), normal(8, 32), normal(32, 32), normal(32)
    plain = smem.trace("gemm", a, b, kernel="tiled16")
    full = smem.trace("gemm", a, b, c=c, beta=2.0, bias=bias, activation="relu", kernel="tiled16")
    assert fma(full) - fma(plain) == 32 * 32
    assert full.launches[0].add - plain.launches[0].add == 32 * 32
    assert full.times_read("c") == 1
    assert full.times_read("bias") == 32


def test_edges_are_computed_on_zeros() -> None:
    """One element of C is a whole tile's work but for naive, whose idle threads leave."""
    assert fma(gemm("naive", 1, 1, 64)) == 64
    assert fma(gemm("tiled16", 1, 1, 64)) == 16 * 16 * 64
    assert fma(gemm("register_tiled", 1, 1, 64)) == 128 * 128 * 64


# ------------------------------------------------------ gemm: each step improves what it claims to


def test_step_panel_cuts_global_reads_by_16() -> None:
    assert reads(gemm("naive", 64, 64, 64)) == 16 * reads(gemm("panel", 64, 64, 64))


def test_step_tiled16_needs_shared_memory_of_one_size_for_every_k() -> None:
    panels = [gemm("panel", 16, 16, k).launches[0].shared_bytes for k in (64, 512)]
    tiles = [gemm("tiled16", 16, 16, k).launches[0].shared_bytes for k in (64, 512)]
    assert panels == [2 * 16 * 64 * 4, 2 * 16 * 512 * 4]
    assert tiles == [2 * 16 * 16 * 4] * 2
    assert reads(gemm("tiled16", 64, 64, 64)) == reads(gemm("panel", 64, 64, 64))


def test_step_tiled32_halves_global_reads() -> None:
    naive = reads(gemm("naive", 64, 64, 64))
    assert naive == 16 * reads(gemm("tiled16", 64, 64, 64))
    assert naive == 32 * reads(gemm("tiled32", 64, 64, 64))


def test_step_vectorized_needs_a_quarter_of_the_load_requests() -> None:
    plain, vectors = gemm("tiled32", 64, 64, 64), gemm("vectorized", 64, 64, 64)
    for name in ("a", "b"):
        (before,), (after,) = lines(plain, LOADS, name), lines(vectors, LOADS, name)
        assert before.requests == 4 * after.requests
        assert before.bytes == after.bytes
        assert before.sectors == after.sectors
    # And for a product 1/4 + 1/4 loads from shared memory instead of 2.
    for trace, loads_a_product in ((plain, 2), (vectors, 1 / 2)):
        loads = trace.count("lanes", actions=LOADS, memory="shared")
        assert loads / fma(trace) == loads_a_product
    assert vectors.wavefronts < plain.wavefronts
    half = gemm("vectorized", 64, 64, 64, F16)  # 8 elements a vector
    (before,), (after,) = (
        lines(gemm("tiled32", 64, 64, 64, F16), LOADS, "a"),
        lines(half, LOADS, "a"),
    )
    assert before.requests == 8 * after.requests


def test_step_register_tiled_reads_shared_memory_less_for_a_product() -> None:
    """A warp of vectorized makes 128 products of a broadcast (1 pass) and 16 bytes a lane (4). Here
    it makes 2048 of two fragments of A (2 passes: 4 neighbours share each) and two of B (4)."""
    vectors, registers = gemm("vectorized", 128, 128, 64), gemm("register_tiled", 128, 128, 64)
    inner = {
        "vectorized": lines(vectors, LOADS, "shared"),
        "register_tiled": lines(registers, LOADS, "shared", "vec * vec_stride"),
    }
    passes = {name: sum(line.wavefronts for line in found) for name, found in inner.items()}
    assert passes["vectorized"] / fma(vectors) == 5 / 128
    assert passes["register_tiled"] / fma(registers) == 12 / 2048
    assert registers.wavefronts < vectors.wavefronts / 5  # the stores too
    loads = registers.count("bytes", actions=LOADS, memory="shared") / 4
    assert loads / fma(registers) == 16 / 64
    assert reads(vectors) == 4 * reads(registers)


def test_step_double_buffered_waits_half_as_often() -> None:
    """16 values of k a step; one barrier a step instead of two."""
    for k in (64, 50):
        before, after = gemm("register_tiled", 128, 128, k), gemm("double_buffered", 128, 128, k)
        assert before.barriers == 2 * math.ceil(k / 16)
        assert after.barriers == math.ceil(k / 16)
    # The same traffic, all of it by cp.async.
    for count in ("global_bytes_loaded", "shared_bytes_loaded", "shared_bytes_stored", "flop"):
        assert getattr(before, count) == getattr(after, count)
    assert after.launches[0].shared_bytes == 2 * before.launches[0].shared_bytes
    for name in ("a", "b"):
        assert after.count("bytes", actions=["load"], memory=name) == 0
        assert after.times_read(name) == 1
