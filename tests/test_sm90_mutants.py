"""The emulator of sm_90 finds what is wrong in a mutant of the wgmma kernel.

Each mutant is the kernel that ships with one thing changed: a wait dropped, a parity flipped, a
fence removed. tests/cpu_emulator/sm90.cpp runs it with three seeds, and with everything that is
asynchronous as late and as early as possible.
"""

import functools

import mutants
import pytest
from mutants import DEADLOCK, FENCE, IN_USE, TOO_EARLY, WRONG, Mutant

KERNEL, PIPELINE = "gemm/sm90/kernel.h", "gemm/sm90/pipeline.h"
STATE = "gemm/pipeline_state.h"
PRODUCER, WGMMA = "gemm/sm90/producer.h", "device/wgmma.h"
SCHEDULER, ROWS = "gemm/dynamic_scheduler.h", "gemm/sm90/shifted_rows.h"
COLUMNS = "gemm/sm90/stored_columns.h"
STORE, TF32, STORE_TF32 = (
    f"gemm/sm90/{name}.h" for name in ("epilogue_tma", "mainloop_tf32_rs", "epilogue_tf32")
)
MUTANTS = {
    # The pipeline's barriers.
    "consumer does not wait for full": Mutant(
        KERNEL, "shared.full[stage].wait(parity);", "", TOO_EARLY
    ),
    "producer does not wait for empty": Mutant(
        KERNEL, "shared.empty[state.stage].wait(state.parity ^ 1);", "", "mbarrier"
    ),
    "producer's parity flipped": Mutant(
        KERNEL, ".wait(state.parity ^ 1)", ".wait(state.parity)", DEADLOCK
    ),
    "consumer's parity flipped": Mutant(
        KERNEL, "full[stage].wait(parity)", "full[stage].wait(parity ^ 1)", TOO_EARLY
    ),
    "parity not flipped after a round": Mutant(STATE, "parity ^= 1;", "", "mbarrier"),
    "a stage too many": Mutant(
        STATE, "++stage == STAGES", "++stage == STAGES + 1", "out of bounds"
    ),
    "expects a row less": Mutant(
        KERNEL,
        "(a.bytes() + b.bytes())",
        "(a.bytes() + b.bytes()) - ROW_BYTES",
        "0 of 1 arrivals and -128 bytes missing",
    ),
    "expects a row more": Mutant(
        KERNEL,
        "(a.bytes() + b.bytes())",
        "(a.bytes() + b.bytes()) + ROW_BYTES",
        "0 of 1 arrivals and 128 bytes missing",
    ),
    "expects no bytes": Mutant(
        KERNEL, "full.arrive_and_expect_tx(bytes);", "full.arrive();", TOO_EARLY
    ),
    "full waits for two arrivals": Mutant(PIPELINE, "full[i].init(1)", "full[i].init(2)", DEADLOCK),
    "empty waits for one warp": Mutant(
        PIPELINE, "TILE.cluster_m * TILE.consumer_warpgroups() * 4", "1", IN_USE
    ),
    "empty waits for its own block": Mutant(
        PIPELINE,
        "TILE.cluster_m * TILE.consumer_warpgroups()",
        "TILE.consumer_warpgroups()",
        "",
    ),
    "released in one block of the cluster": Mutant(
        PIPELINE, "lane < TILE.cluster_m", "lane < 1", DEADLOCK
    ),
    "releases the stage in use": Mutant(
        KERNEL, "release_stage(shared, previous);", "release_stage(shared, state.stage);", DEADLOCK
    ),
    "last stage not released": Mutant(
        KERNEL, "release_stage(shared, previous);", "", DEADLOCK, nth=1
    ),
    "released before the wait": Mutant(
        KERNEL,
        "warpgroup_wait<1>();\n          release_stage(shared, previous);",
        "release_stage(shared, previous);\n          warpgroup_wait<1>();",
        IN_USE,
    ),
    # The barriers' initialization, and the cluster.
    "barrier init not fenced": Mutant(PIPELINE, "  fence_barrier_init();", "", FENCE),
    "cluster does not wait for barrier init": Mutant(
        PIPELINE, "    cluster_sync();", "", "mbarrier"
    ),
    "consumers do not wait for barrier init": Mutant(
        PIPELINE, "named_barrier_sync<THREADS>();", "", "mbarrier"
    ),
    "producer does not arrive at barrier init": Mutant(
        PIPELINE, "named_barrier_arrive<THREADS>();", "", DEADLOCK
    ),
    "block ends before its cluster": Mutant(
        KERNEL, "    __syncwarp();\n    cluster_sync();", "", "ended"
    ),
    "multicast to one block": Mutant(PRODUCER, "(1 << MULTICAST) - 1", "1", DEADLOCK),
    "multicast to a block too many": Mutant(
        PRODUCER, "(1 << MULTICAST) - 1", "(2 << MULTICAST) - 1", "out of bounds"
    ),
    "both blocks load the same panel": Mutant(
        PRODUCER, "if (panel % MULTICAST != rank) return;", "if (panel != 0) return;", DEADLOCK
    ),
    # The dynamic scheduler.
    "work tile not waited for": Mutant(SCHEDULER, "slot.full.wait(state_.parity);", "", TOO_EARLY),
    "two slots": Mutant("gemm/tile_scheduler.h", "return stages + 1;", "return 2;", DEADLOCK),
    "work tile sent to one block": Mutant(SCHEDULER, "block < CLUSTER_SIZE", "block < 1", DEADLOCK),
    "no bytes of the work tile expected": Mutant(
        SCHEDULER,
        "slot.full.arrive_and_expect_tx(sizeof slot.work_tile);",
        "slot.full.arrive();",
        DEADLOCK,
    ),
    "st.async without a cluster": Mutant(
        SCHEDULER,
        "if constexpr (CLUSTER_SIZE == 1)",
        "if constexpr (CLUSTER_SIZE == 0)",
        "out of bounds: st.async in a launch without clusters",
    ),
    "counter not reset": Mutant(SCHEDULER, "*scheduler_.counter = 0;", "", "counter not reset"),
    # The boxes.
    "loads from another matrix": Mutant(
        PRODUCER, "{k, row + first, batch}", "{k, row + first, batch + 1}", "out of bounds"
    ),
    "loads to half a row too far": Mutant(
        PRODUCER,
        "tile + first * ROW_BYTES, {k",
        "tile + first * ROW_BYTES + ROW_BYTES / 2, {k",
        "misaligned",
    ),
    "stores to another matrix": Mutant(
        STORE, "coord.row, coord.batch}", "coord.row, coord.batch + 1}", "out of bounds"
    ),
    "stores boxes beyond the last column": Mutant(
        STORE, "coord.col + col, coord.row", "coord.end_col + col, coord.row", "out of bounds"
    ),
    # wgmma.
    "descriptors of the next row": Mutant(
        KERNEL, "b_desc = b_desc0 + offset", "b_desc = b_desc0 + offset + 8", "misaligned"
    ),
    "no wgmma fence": Mutant(KERNEL, "    warpgroup_arrive();", "", FENCE),
    "no commit": Mutant(KERNEL, "    warpgroup_commit_batch();", "", IN_USE),
    "waits for one group less": Mutant(
        KERNEL, "warpgroup_wait<1>();", "warpgroup_wait<2>();", IN_USE
    ),
    "does not wait in the mainloop": Mutant(KERNEL, "warpgroup_wait<1>();", "", IN_USE),
    "last group not waited for": Mutant(
        KERNEL, "warpgroup_wait<0>();", "warpgroup_wait<1>();", IN_USE
    ),
    "accumulates from the start": Mutant(KERNEL, "!first || i + k > 0", "true", WRONG),
    "overwrites the accumulators": Mutant(KERNEL, "!first || i + k > 0", "i + k > 0", WRONG),
    "reads the first stage only": Mutant(
        KERNEL, "warp_uniform(stage * descriptor_units(TILE.stage_bytes()))", "0u", IN_USE
    ),
    "one k-tile of a stage loaded twice": Mutant(
        KERNEL, "first_k_tile + k_tile + i)", "first_k_tile + k_tile)", WRONG
    ),
    "stages not aligned": Mutant(
        PIPELINE, "(-shared_address(begin) & (SWIZZLE_ATOM - 1))", "0", "misaligned"
    ),
    "descriptor of another swizzle": Mutant(WGMMA, "? 1u : 2u", "? 2u : 2u", ""),
    "descriptor without a swizzle": Mutant(WGMMA, "? 1u : 2u", "? 0u : 2u", ""),
    "descriptor of the widest swizzle for short rows": Mutant(
        WGMMA, "? 1u : 2u", "? 1u : 1u", WRONG
    ),
    "descriptor's stride doubled": Mutant(
        WGMMA,
        "descriptor_units(ATOM_ROWS * ROW_BYTES)",
        "descriptor_units(2 * ATOM_ROWS * ROW_BYTES)",
        "",
    ),
    "descriptor's panels too close": Mutant(
        WGMMA, "descriptor_units(PANEL_BYTES) <<", "descriptor_units(PANEL_BYTES / 2) <<", WRONG
    ),
    "half a step along K": Mutant(WGMMA, "? 32 : 16 * ROW_BYTES", "? 16 : 8 * ROW_BYTES", WRONG),
    # The stores.
    "stores not fenced": Mutant(STORE, "    fence_view_async_shared();", "", FENCE),
    "stores before all lanes have written": Mutant(
        STORE,
        "    fence_view_async_shared();\n    __syncwarp();",
        "    fence_view_async_shared();",
        FENCE,
    ),
    "stores not committed": Mutant(STORE, "      tma_store_commit();", "", IN_USE),
    "staging overwritten while TMA reads it": Mutant(
        STORE, "if (threadIdx.x % WARP == 0) tma_store_wait_read<1>();", "", IN_USE
    ),
    # Rows of out that begin anywhere.
    "rows staged from a vector on": Mutant(ROWS, "row * PITCH + shift)", "row * PITCH)", WRONG),
    "rest of a subtile not kept": Mutant(
        ROWS, "load_vector<VEC>(first + COLS)", "Vector<T, VEC>{}", WRONG
    ),
    "rest of a subtile kept too late": Mutant(
        ROWS, "(first + COLS));\n    __syncwarp();", "(first + COLS));", ""
    ),
    "rows read before they are staged": Mutant(
        ROWS, "int subtile) const {\n    __syncwarp();\n", "int subtile) const {\n", WRONG
    ),
    "vectors from before the row": Mutant(
        COLUMNS, "? round_up_to<SECTOR>(shift) : shift;", "? round_up_to<SECTOR>(shift) : 0;", WRONG
    ),
    "a row's first elements not stored": Mutant(
        ROWS, "store_elements<true>(rows, from, part);", "{}", WRONG
    ),
    "a row's last elements not stored": Mutant(
        ROWS, "store_elements<false>(rows, from, part);", "", WRONG
    ),
    "the last sector stored whole": Mutant(
        COLUMNS, ": shift + cols;", ": round_up_to<SECTOR>(shift + cols);", WRONG
    ),
    "neither tile stores a sector that both have": Mutant(
        COLUMNS, "? round_up_to<SECTOR>(shift + cols) :", "? shift + cols :", WRONG
    ),
    "the last of overlapping tiles ends early": Mutant(
        COLUMNS, "cols = shares_last || !overlaps ?", "cols = true ?", WRONG
    ),
    "what the last subtile left not stored": Mutant(
        ROWS, "if (part == 0) store_vectors(rows, from, VECS);", "", WRONG
    ),
    "one staging buffer": Mutant(STORE, "    buffer ^= 1;", "", IN_USE),
    "ends before TMA has read": Mutant(KERNEL, "    tma_store_wait_read<0>();", "", "missing wait"),
    "staged with half a swizzle": Mutant(STORE, "? row % 8 * 16 : 0", "? row % 4 * 16 : 0", WRONG),
    # tf32, with A in registers.
    "tf32: fragments before full": Mutant(
        TF32, "shared.full[state.stage].wait(state.parity);", "", TOO_EARLY
    ),
    "tf32: fragments overwritten": Mutant(
        TF32, "process_stage(fragments[1], false);", "process_stage(fragments[0], false);", WRONG
    ),
    "tf32: no wgmma fence": Mutant(TF32, "    warpgroup_arrive();", "", FENCE),
    "tf32: does not wait in the mainloop": Mutant(TF32, "warpgroup_wait<1>();", "", IN_USE),
    "tf32: half of K twice": Mutant(TF32, "^ 64)", "^ 0)", WRONG),
}

# The others differ in what is changed; each is compiled.
BY_DEFAULT = ("consumer does not wait for full",)


found_in = functools.partial(
    mutants.found_in,
    "sm90",
    ("sm90_kernels.cpp",),
    (
        *("gemm/sm90/heuristics.cpp", "gemm/sm90/cost_model.cpp"),
        *("gemm/operand_desc.cpp", "gemm/accum_interval.cpp", "gemm/gpu_rates.cpp"),
    ),
)


@pytest.mark.sweep  # test_sm90_emulated.py runs it at every timing
def test_nothing_is_found_in_the_kernel_that_ships() -> None:
    assert found_in() == ""


@pytest.mark.parametrize(
    "name",
    [pytest.param(x, marks=[] if x in BY_DEFAULT else [pytest.mark.sweep]) for x in MUTANTS],
)
def test_mutant_is_found(name: str) -> None:
    found = found_in(name, MUTANTS[name])
    assert found
    assert MUTANTS[name].found in found
