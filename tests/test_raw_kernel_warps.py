"""Warps, atomics, cooperative groups and pipelines of CUDA C++ run on the CPU.

The counts of requests are derived by hand: of 64 threads, a line is executed by two warps.
"""

import pytest
import torch
from coverage_kernels import FOLDER, counts, ints, marked, trace

import torch_smem_gemm as smem

LANES = list(range(32))


# --------------------------------------------------------------------------------------- warps


@pytest.mark.parametrize("width", [2, 8, 32])
def test_shuffles_of_all_kinds_and_widths(width: int) -> None:
    out = ints(4, 64)
    traced = trace("warps.cu", f"shuffles<{width}>", 1, 64, out)
    rows = [[], [], [], []]
    for i in range(64):
        first = i // width * width
        last = first + width - 1
        rows[0].append(first + 3 % width)
        rows[1].append(i - 2 if i - 2 >= first else i)
        rows[2].append(i + 2 if i + 2 <= last else i)
        rows[3].append(i ^ 1)
    assert out.tolist() == rows
    shuffled = {key: n for key, n in counts("warps.cu", traced).items() if key[1] == "shuffle"}
    assert shuffled == {(mark, "shuffle", 4): 2 for mark in ("shfl", "up", "down", "xor")}


def test_shuffles_by_more_than_a_warp() -> None:
    """Of a distance or a mask of lanes the last five bits count: PTX ISA, "shfl.sync"."""
    code = """__global__ void k(int* x) {
        const int lane = threadIdx.x;
        x[lane] = __shfl_xor_sync(~0u, lane, -1);
        x[32 + lane] = __shfl_down_sync(~0u, lane, (unsigned)-1);
        x[64 + lane] = __shfl_up_sync(~0u, lane, 33u);
        x[96 + lane] = __shfl_sync(~0u, lane, 35);
    }"""
    x = torch.zeros(4, 32, dtype=torch.int32)
    smem.RawKernel(code, "k")(1, 32, (x,))
    assert x[0].tolist() == [31 - lane for lane in range(32)]
    assert x[1].tolist() == [31, *range(1, 32)]
    assert x[2].tolist() == [0, *range(31)]
    assert x[3].tolist() == [3] * 32


def test_shuffles_of_all_types() -> None:
    pairs = torch.arange(64).view(32, 2).half()
    out = torch.zeros(64, dtype=torch.float64)
    trace("warps.cu", "shuffle_types", 1, 32, pairs, out)
    low = [float(2 * min(i + 1, 31)) + 100 * 2 * (i ^ 1) for i in LANES]
    assert out[:32].tolist() == low
    assert out[32:].tolist() == [(i + 1) % 32 + 0.5 + 8 + 31 - i + 0.25 + 2 for i in LANES]


def test_a_part_of_a_warp() -> None:
    out = ints(2, 32)
    traced = trace("warps.cu", "part_of_a_warp", 1, 32, out)
    assert out[0, :8].tolist() == [(i + 1) % 8 for i in range(8)]
    assert out[1, :9].tolist() == [8] * 8 + [0]
    (line,) = [line for line in marked("warps.cu", traced)["part"] if line.action == "shuffle"]
    assert (line.requests, line.lanes) == (1, 8)


def test_votes_and_match() -> None:
    x, out = torch.arange(32, dtype=torch.int32) % 3, ints(4, 32)
    traced = trace("warps.cu", "votes", 1, 32, x, out)
    same = [sum(1 << j for j in LANES if j % 3 == i) for i in range(3)]
    unsigned = (out.long() & 0xFFFFFFFF).tolist()
    assert unsigned[0] == [same[2]] * 32
    assert unsigned[1] == [3] * 32
    assert unsigned[2] == [same[i % 3] for i in LANES]
    assert unsigned[3] == [0] * 32  # all lanes, and 1
    found = counts("warps.cu", traced)
    assert found["ballot", "shuffle", 4] == found["match", "shuffle", 4] == 1


def test_reductions_of_a_warp() -> None:
    x, out = torch.arange(7, 39, dtype=torch.int32), ints(6, 32)
    traced = trace("warps.cu", "reductions", 1, 32, x, out)
    conjunction, disjunction, parity = -1, 0, 0
    for number in x.tolist():
        conjunction, disjunction, parity = (
            conjunction & number,
            disjunction | number,
            parity ^ number,
        )
    expected = [int(x.sum()), 7, 38, conjunction, disjunction, parity]
    assert out.tolist() == [[number] * 32 for number in expected]
    assert counts("warps.cu", traced)["reduce", "shuffle", 4] == 1


# ------------------------------------------------------------------------------------- atomics

TYPES = {
    "int": torch.int32,
    "unsigned": torch.uint32,
    "unsigned long long": torch.uint64,
    "float": torch.float32,
    "double": torch.float64,
}


@pytest.mark.parametrize("name", TYPES)
def test_atomics_on_global_and_shared_memory(name: str) -> None:
    values, old = torch.zeros(3, dtype=TYPES[name]), torch.zeros(64, dtype=TYPES[name])
    traced = trace("warps.cu", f"atomics<{name}>", 1, 64, values, old)
    assert values.tolist() == [63 * 32, 7, 63 * 32]
    # Each thread found another sum, and the last addition made the whole.
    assert len(set(old.tolist())) >= 63
    size = values.element_size()
    found = counts("warps.cu", traced)
    assert found["shared", "atomic", size] == found["global", "atomic", size] == 2


@pytest.mark.parametrize("name", ["int", "unsigned long long"])
def test_atomics_on_integers(name: str) -> None:
    start = [0, 5, 5, -1, 0, 0]
    values = torch.tensor(start, dtype=torch.int64 if "long" in name else torch.int32)
    trace("warps.cu", f"integer_atomics<{name}>", 1, 31, values)
    bits = 2**31 - 1  # of 31 threads
    assert values.tolist() == [-15 * 31, 0, 30, -1 - bits, bits, 31]
    wrapped = torch.tensor([0, 0], dtype=torch.uint32)
    trace("warps.cu", "wrapping_atomics", 1, 32, wrapped)
    assert wrapped.tolist() == [32 % 7, 3]


def test_compare_and_swap_loops() -> None:
    x, out = torch.randn(256), torch.full((1,), -9.0)
    trace("warps.cu", "compare_and_swap", 4, 64, x, out)
    assert out.item() == x.max()


def test_atomics_on_half_precision() -> None:
    one, two = torch.zeros(1).half(), torch.zeros(2).half()
    trace("warps.cu", "half_atomics", 2, 32, one, two)
    assert (one.item(), two.tolist()) == (32, [64, 128])


def test_a_spin_lock() -> None:
    lock, count = ints(1), ints(1)
    trace("warps.cu", "spin_lock", 2, 64, lock, count)
    assert (lock.item(), count.item()) == (0, 128)


# ------------------------------------------------------------------------- cooperative groups


def test_groups_of_the_block_and_the_grid() -> None:
    out = ints(2 * 64 + 2)
    traced = trace("groups.cu", "blocks_and_grids", 2, (16, 4), out)
    expected = [64 + 200 + 1000 * (i // 64) + 10000 * (i % 64 // 16) + 400000 for i in range(128)]
    assert out.tolist() == [*expected, 63 * 32, 63 * 32]
    # Six halvings of two warps in two blocks.
    assert counts("groups.cu", traced)["group_sync", "barrier", 0] == 24


def test_grid_sync_needs_one_block() -> None:
    out = ints(2, 64)
    trace("groups.cu", "grid_sync", 1, 64, out)
    assert torch.equal(out[1], out[0].flip(0))
    raw = smem.RawKernel(FOLDER / "groups.cu", "grid_sync")
    (fault,) = raw.trace(2, 64, (ints(2, 128),)).faults
    assert fault.kind == "grid barrier"
    assert fault.detail == "grid.sync() needs all blocks at once: launch one block"
    assert "HERE: grid_sync" in (FOLDER / "groups.cu").read_text().splitlines()[fault.line - 1]


def test_tiled_partitions() -> None:
    x, out = torch.arange(64, dtype=torch.int32) % 8, ints(5, 64)
    traced = trace("groups.cu", "tiles", 1, 64, x, out)
    for i in range(64):
        rank, first = i % 8, i // 8 * 8
        assert out[:, i].tolist() == [
            i // 32 + 20 + 100 * (i % 32 // 8) + 4000 + 10000 * rank,
            first + 3 + 100 * (i - 1 if rank else i),
            (i + 1 if rank < 7 else i) + 100 * (i ^ 2),
            0b11111000 + 1000 + 2000,
            0b10101010 if i % 2 else 0b01010101,
        ]
    assert counts("groups.cu", traced)["warp_sync", "warp_barrier", 0] == 2


def test_coalesced_and_labeled_groups() -> None:
    out = ints(4, 32)
    trace("groups.cu", "coalesced", 1, 32, out)
    for i in LANES:
        if i % 3 == 0:
            assert out[:2, i].tolist() == [i // 3 + 1100 + 60000, 165 + 16]
        assert out[2:, i].tolist() == [16 + 100 * (2 + i % 2), i % 8]


def test_group_reductions_and_scans() -> None:
    x, numbers = torch.arange(64.0), torch.arange(64, dtype=torch.int32) * 37 % 101
    sums, out = torch.empty(64), ints(6, 64)
    traced = trace("groups.cu", "group_reductions", 1, 64, x, numbers, sums, out)
    warps, tiles = numbers.view(2, 32), numbers.view(8, 8)
    parity = torch.tensor([0, 0], dtype=torch.int32)
    for number in warps.T:
        parity ^= number
    expected = [
        warps.sum(1).repeat_interleave(32),
        tiles.amax(1).repeat_interleave(8),
        tiles.amin(1).repeat_interleave(8),
        parity.repeat_interleave(32),
        warps.cumsum(1).view(64),
        (tiles.cumsum(1) - tiles).view(64),
    ]
    assert torch.equal(sums, x.view(2, 32).sum(1).repeat_interleave(32))
    assert torch.equal(out, torch.stack(expected).int())
    found = counts("groups.cu", traced)
    # Floats are reduced in five steps, integers by one instruction; a scan takes five.
    assert found["reduce_floats", "shuffle", 4] == 10
    assert found["reduce_integers", "shuffle", 4] == 2
    assert found["scan", "shuffle", 4] == 10


# ---------------------------------------------------------------------------- asynchronous copies


def test_pipeline_primitives() -> None:
    x, out = torch.randn(5, 64), torch.empty(64)
    traced = trace("groups.cu", "pipeline_primitives", 1, 64, 5, x, out)
    torch.testing.assert_close(out, x.sum(0).flip(0))
    # Two warps copy four tiles more.
    found = counts("groups.cu", traced)
    assert found["cp", "copy_from", 4] == found["cp", "copy_to", 4] == 8
    y, filled = torch.randn(32, 4), torch.empty(32, 4)
    trace("groups.cu", "zero_filled", 1, 32, y, filled)
    y[:8, 1:] = 0
    assert torch.equal(filled, y)


@pytest.mark.parametrize("scope", ["thread", "block"])
def test_cuda_pipelines(scope: str) -> None:
    x, out = torch.randn(5, 64), torch.empty(64)
    trace("groups.cu", f"pipelines<cuda::thread_scope_{scope}>", 1, 64, 5, x, out)
    torch.testing.assert_close(out, x.sum(0).flip(0))


def test_copies_of_a_group_and_cuda_barriers() -> None:
    x, out = torch.randn(128), torch.empty(128)
    traced = trace("groups.cu", "group_copies", 1, 128, x, out)
    assert torch.equal(out, x.flip(0))
    # 256 bytes are 16 lanes of 16 bytes: one warp.
    (line,) = [x for x in marked("groups.cu", traced)["by_group"] if x.action == "copy_to"]
    assert (line.requests, line.lanes, line.bytes_a_lane) == (1, 16, 16)


def test_atomics_of_libcu() -> None:
    count, total, order = ints(1), torch.zeros(1), ints(32)
    traced = trace("groups.cu", "library_atomics", 1, 32, count, total, order)
    assert (count.item(), total.item()) == (2000, 16)
    assert sorted(order.tolist()) == LANES
    assert counts("groups.cu", traced)["fetch_add", "atomic", 4] == 1
