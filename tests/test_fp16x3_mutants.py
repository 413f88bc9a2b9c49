"""The emulator of sm_90 finds what is wrong in a mutant of the fp16x3 kernels.

As test_sm90_mutants.py; tests/cpu_emulator/fp16x3.cpp runs them, and those of the kernel for
older GPUs fp16x3_mma.cpp.
"""

import mutants
import pytest
from mutants import DEADLOCK, FENCE, TOO_EARLY, WRONG, Mutant

(
    GEMM,
    PARAMS,
    EPILOGUE,
    METADATA,
    SPLIT,
    SKINNY,
    MMA,
    PRODUCER,
    SCALE,
    TILES,
    SM80,
    LOADER,
    HI_LO,
    RING,
    SHORT_K,
    ROWS,
    RS,
    RS_PARAMS,
    FRAGMENTS,
    LANE_OUTPUT,
) = (
    f"gemm/fp16x3/{name}"
    for name in (
        *("gemm.cu", "gemm_params.h", "epilogue.h", "split_metadata.h", "split_k_major.cu"),
        *("skinny_m_kernel.h", "skinny_m_mma.h", "split_producer.h", "running_scale.h"),
        *("gemm_tiles.h", "gemm_sm80.cu", "gemm_sm80_params.h", "hi_lo_producer.h"),
        *("raw_ring.h", "short_k.cu", "register_split.h"),
        *("skinny_m_rs.cu", "skinny_m_rs_params.h", "fragment_split.h", "lane_output.h"),
    )
)
SCHEDULER = "gemm/dynamic_scheduler.h"

MUTANTS = {
    # gemm.cu: the pipeline.
    "producer does not wait for empty": Mutant(
        GEMM, "smem.empty[pipeline.stage].wait(pipeline.parity ^ 1);", "", "mbarrier"
    ),
    "producer's parity flipped": Mutant(
        GEMM, ".wait(pipeline.parity ^ 1)", ".wait(pipeline.parity)", DEADLOCK
    ),
    "consumers do not wait for full": Mutant(
        GEMM, "smem.full[pipeline.stage].wait(pipeline.parity);", "", TOO_EARLY
    ),
    "expects the bytes of B alone": Mutant(GEMM, "(rows + cols)", "cols", ""),
    "the last rows in a whole box": Mutant(GEMM, "if (rows == TILE_M)", "if (true)", ""),
    "the last columns in a whole box": Mutant(GEMM, "if (cols == TILE_N)", "if (true)", ""),
    "empty waits for one warpgroup": Mutant(
        GEMM, "init(CLUSTER * CONSUMERS * 4)", "init(CLUSTER * 4)", ""
    ),
    "empty waits for one block's warps": Mutant(
        GEMM, "init(CLUSTER * CONSUMERS * 4)", "init(CONSUMERS * 4)", ""
    ),
    "stage released in one block": Mutant(
        GEMM, "smem.empty[stage].arrive_in(lane)", "smem.empty[stage].arrive_in(0)", ""
    ),
    "barriers used before the other block's init": Mutant(GEMM, "    cluster_sync();\n", "", ""),
    "ends while the other block arrives": Mutant(
        GEMM, "if constexpr (CLUSTER > 1) cluster_sync();", "", ""
    ),
    "both blocks load the same half of B": Mutant(
        GEMM, "static_cast<int>(rank) * COLS", "0 * COLS", ""
    ),
    "both blocks compute the upper tile": Mutant(
        GEMM, "tile.row * CLUSTER + static_cast<int>(rank)", "tile.row * CLUSTER", WRONG
    ),
    "barrier init not fenced": Mutant(GEMM, "    fence_barrier_init();", "", FENCE),
    "barriers used before their init": Mutant(GEMM, "  __syncthreads();", "", "mbarrier"),
    "releases the stage in use": Mutant(
        GEMM, "release(previous_stage);", "release(pipeline.stage);", ""
    ),
    "last stage not released": Mutant(GEMM, "release(previous_stage);", "", DEADLOCK, nth=1),
    "a stage less than the ring has": Mutant(PARAMS, "full + STAGES;", "full + 1;", ""),
    "stages not aligned": Mutant(
        PARAMS, "(-shared_address(begin) & (sm90::SWIZZLE_ATOM - 1))", "0", "misaligned"
    ),
    "counter not reset": Mutant(SCHEDULER, "*scheduler_.counter = 0;", "", "counter not reset"),
    "FALLBACK tile not kept": Mutant(
        GEMM,
        "atomicOr(&smem.fallback_tiles[work_tile / 32], 1u << work_tile % 32);",
        "",
        WRONG,
    ),
    # gemm.cu: the products.
    "no wgmma fence": Mutant(GEMM, "            warpgroup_arrive();", "", FENCE),
    "hi hi has no group of its own": Mutant(GEMM, "warpgroup_commit_batch();", "", WRONG),
    "one more group stays in flight": Mutant(
        GEMM, "warpgroup_wait<1>();", "warpgroup_wait<2>();", WRONG
    ),
    "last group not waited for": Mutant(GEMM, "warpgroup_wait<0>();", "", ""),
    "hi hi of all k blocks in one chain, added each time": Mutant(
        GEMM, "mma(k_block_accum, a, b, false);", "mma(k_block_accum, a, b, k_block > 0);", WRONG
    ),
    "cross products of the tile before": Mutant(GEMM, "b + LO, k_block > 0", "b + LO, true", WRONG),
    "hi hi instead of hi lo": Mutant(
        GEMM, "mma(cross_accum, a, b + LO,", "mma(cross_accum, a, b,", WRONG
    ),
    "a cross product less": Mutant(
        GEMM, "mma(cross_accum, a + K16 + LO, b + K16, true);", "", WRONG
    ),
    "accumulators not promoted": Mutant(TILES, "    totals[i * WARP] = total;", "", WRONG),
    "totals of the tile before": Mutant(GEMM, "group, first > 0)", "group, true)", WRONG),
    "totals of another thread": Mutant(
        GEMM,
        "float* const totals = warp_totals + threadIdx.x % WARP;",
        "float* const totals = warp_totals + threadIdx.x % 16;",
        WRONG,
    ),
    # Epilogue, outliers and fallback.
    "one exponent for all rows": Mutant(
        EPILOGUE, "__shfl_sync(~0u, row_exponent_, first + row)", "row_exponent_", WRONG
    ),
    "outliers left out": Mutant(EPILOGUE, "if (has_outliers && (", "if (false && (", WRONG),
    "rows of the tile swizzled by columns": Mutant(
        EPILOGUE, "(col ^ row % 4 * 8)", "(col ^ col % 4 * 8)", WRONG
    ),
    "a single scale for large exponents": Mutant(
        EPILOGUE, " || !__all_sync(~0u, are_small)", "", WRONG
    ),
    "the last column not stored": Mutant(
        EPILOGUE, "is_col[i] = col_of(i) <", "is_col[i] = col_of(i) + 1 <", WRONG
    ),
    "fallback left out": Mutant(GEMM, "gemm.compute_fallbacks();", "{}", WRONG),
    "fallback without a barrier": Mutant(
        GEMM, "if (__syncthreads_or(has_fallback))", "if (has_fallback)", ""
    ),
    "fallback after C is overwritten": Mutant(
        EPILOGUE, " || row_status == FALLBACK) continue;", ") continue;", WRONG
    ),
    # The split of A and B.
    "scale of a part of the row": Mutant(
        SPLIT,
        "minmax.warp_reduce(row_threads < 32 ? row_threads : 32)",
        "minmax.warp_reduce(2)",
        WRONG,
    ),
    "hi and lo exchanged": Mutant(
        SPLIT,
        "store_global_vector<VEC_SIZE>(next, result.hi);",
        "store_global_vector<VEC_SIZE>(next, result.lo);",
        WRONG,
    ),
    "last k block not padded": Mutant(
        SPLIT, "if (k >= params.padded_k) break;", "if (k >= length) break;", WRONG
    ),
    # A small M.
    "skinny: split warps do not wait for empty": Mutant(
        PRODUCER, "    empty.wait(parity);", "", ""
    ),
    "skinny: mma warps do not wait for full": Mutant(
        MMA, "smem.full[pipeline.stage].wait(pipeline.parity);", "", ""
    ),
    "skinny: stages not released": Mutant(
        MMA, "smem.empty[pipeline.stage].arrive();", "", DEADLOCK
    ),
    "skinny: full does not wait for the split": Mutant(
        SKINNY, "init(Config::Producer::ARRIVALS + Config::LOAD_THREADS)", "init(1)", ""
    ),
    "skinny: TMA overwrites rows in use": Mutant(
        SKINNY,
        "      smem.empty[pipeline.stage].wait(pipeline.parity ^ 1);\n      full",
        "      full",
        "",
    ),
    "skinny: fragments without the swizzle": Mutant(
        MMA, "((lane / 8) ^ (lane % 8)) * 16", "(lane / 8) * 16", WRONG
    ),
    "skinny: every power of two taken for a normal number": Mutant(
        MMA, "are_small && is_small_exponent(scale.scale_exponent)", "are_small", WRONG
    ),
    "skinny: one power of two for two rows": Mutant(
        MMA, "row_exponents[t * 2 + i % 2] + col", "row_exponents[t * 2] + col", WRONG
    ),
    "skinny: FALLBACK rows stored": Mutant(
        MMA, "a.status[element_row] == FALLBACK || b.status[col] == FALLBACK", "false", WRONG
    ),
    "skinny: a lane's columns exchanged": Mutant(
        LANE_OUTPUT, "values.lane[i + 2 * j]", "values.lane[i + 2 - 2 * j]", WRONG
    ),
    "skinny: a copy not waited for": Mutant(
        PRODUCER, "cp_async_wait<LOAD_STAGES - 1>();", "cp_async_wait<LOAD_STAGES>();", WRONG
    ),
    "skinny: accumulators not rescaled": Mutant(
        MMA, "      rescale(factors[0], factors[8]);", "", WRONG
    ),
    "skinny: wrong columns not split again": Mutant(
        SKINNY,
        "recompute = __syncthreads_or(is_flagged) && !recompute;",
        "recompute = false; __syncthreads();",
        WRONG,
    ),
    "skinny: outlier stays in the column": Mutant(PRODUCER, "          element = 0;", "", WRONG),
    # A small M, and rows of B that begin anywhere.
    "rows: read before all copies have ended": Mutant(
        RING, "    sync();  // the copies of all threads have ended\n", "", WRONG
    ),
    "rows: begin where the first one does": Mutant(
        RING, "misalignment(first + i * b_.k_stride)", "misalignment(first)", WRONG
    ),
    # A small M, and a split of B that is kept.
    "kept: full does not wait for B": Mutant(HI_LO, "ARRIVALS = 1;", "ARRIVALS = 0;", ""),
    "kept: k blocks overlap": Mutant(
        HI_LO, "K_BLOCK_PITCH = TILE_N * K_BLOCK_BYTES", "K_BLOCK_PITCH = K_BLOCK_BYTES", ""
    ),
    "kept: columns without the swizzle": Mutant(
        MMA, "(Producer::SPLITS ? 0 : lane % 8)", "0", WRONG
    ),
    "kept: lo without the swizzle": Mutant(
        MMA, "address ^ (vec * 16);", "address + vec * 16;", WRONG
    ),
    "kept: every tile is the first": Mutant(
        SKINNY, "static_cast<int>(tile - slice.index * params.tiles) * Config::TILE_N", "0", WRONG
    ),
    "kept: every k slice is the first": Mutant(
        SKINNY, "has_batch ? slice.index : slice.k_slice", "has_batch ? slice.index : 0", WRONG
    ),
    "kept: the same k blocks in every stage": Mutant(
        SKINNY, "2 * (stage * STAGE_K + i * split::K_BLOCK)", "2 * i * split::K_BLOCK", WRONG
    ),
    "kept: a box less expected": Mutant(
        SKINNY, "STAGE_K_BLOCKS * box_rows", "(STAGE_K_BLOCKS - 1) * box_rows", ""
    ),
    "kept: one scale for both columns": Mutant(SKINNY, "WARP / 4 + 8 * i;", "WARP / 4;", WRONG),
    # A small M and many columns.
    "columns: warpgroups do not wait for full": Mutant(
        RS, "smem.full[pipeline.stage].wait(pipeline.parity);\n      const", "const", TOO_EARLY
    ),
    "columns: stage not released": Mutant(
        RS,
        "if (is_first_lane && k_stage >= 0) smem.empty[previous_stage].arrive();",
        "",
        DEADLOCK,
    ),
    "columns: TMA overwrites a stage in use": Mutant(
        RS, "smem.empty[pipeline.stage].wait(pipeline.parity ^ 1);", "", ""
    ),
    "columns: A is not expected": Mutant(RS, "Config::B_BYTES + RS_K_BLOCKS *", "0 *", ""),
    "columns: wgmmas not waited for": Mutant(RS, "warpgroup_wait<0>();", "", ""),
    "columns: no wgmma fence": Mutant(RS, "    warpgroup_arrive();", "", FENCE),
    "columns: the first step not waited for": Mutant(
        RS, "        mma.finish(fragments[0]);\n", "", ""
    ),
    "columns: both steps by the same rows": Mutant(
        RS, "a_desc + descriptor_units(Config::A_K_BLOCK_BYTES)", "a_desc", WRONG
    ),
    "columns: the first k block twice": Mutant(
        RS,
        "split.split(elements, 1, fragments[1]);",
        "split.split(elements, 0, fragments[1]);",
        WRONG,
    ),
    "columns: hi times lo left out": Mutant(
        RS, "wgmma_rs<half, Config::TILE_M>(cross_accum, b.hi[i], a_lo, 1);", "", WRONG
    ),
    "columns: k blocks in one chain": Mutant(RS, "a_hi, i % K16 > 0);", "a_hi, 1);", WRONG),
    "columns: accumulators not rescaled": Mutant(
        RS, "if (rescales) mma.rescale(factors);", "", WRONG
    ),
    "columns: not computed again": Mutant(
        RS_PARAMS, "return __any_sync(~0u, any != 0);", "return false;", WRONG
    ),
    "columns: K-major without the swizzle": Mutant(
        RS_PARAMS, "((t / 2) ^ row) * 16", "(t / 2) * 16", WRONG
    ),
    "columns: MN-major without the swizzle": Mutant(
        RS_PARAMS, "(vec ^ row) * 16", "vec * 16", WRONG
    ),
    "columns: the same half of 16 k": Mutant(
        FRAGMENTS, "element / 2 % 2 * 8", "element / 2 % 2 * 0", WRONG
    ),
    "columns: the columns of a lane exchanged": Mutant(
        FRAGMENTS, "hi[i / 2][c + i % 2 * 2]", "hi[i / 2][1 - c + i % 2 * 2]", WRONG
    ),
    "columns: outlier stays in the column": Mutant(
        FRAGMENTS, "is_outlier ? 0.0f : element * shift", "element * shift", WRONG
    ),
    "columns: scales without the other lanes": Mutant(
        FRAGMENTS, "scale.amax = max(scale.amax, __shfl_xor_sync(~0u, scale.amax, 2));", "", ""
    ),
    # A small M and a short K.
    "short K: hi times lo alone": Mutant(
        SHORT_K,
        "mma_sync<half>(cross_accum[t], cols.lo(chunk), row.lane[0], row.lane[1]);",
        "",
        WRONG,
    ),
    "short K: every warp has the first columns": Mutant(
        SHORT_K, "work / params.row_parts} * SPLIT_ROWS", "0} * SPLIT_ROWS", WRONG
    ),
    "short K: columns' powers of two swapped": Mutant(
        SHORT_K, "results.exponent[col + i / 2]", "results.exponent[col + i % 2]", WRONG
    ),
    "short K: outlier stays in the column": Mutant(
        ROWS, "split::prescale(vec, scale_exponent, scale.status);", "", WRONG
    ),
    "short K: outliers not added": Mutant(
        SHORT_K, "add_outlier_products(a, r, b, c, elements[i])", "elements[i]", WRONG
    ),
    "short K: the same rows in every tile": Mutant(
        SHORT_K, "t * MMA_ROWS * PITCH + chunk", "chunk", WRONG
    ),
}


# gemm_sm80.cu, whose copies land in the emulator when a stage's barrier completes.
MMA_MUTANTS = {
    "stage read before it has landed": Mutant(
        SM80, "      await_stage();\n    }\n    float k_block", "    }\n    float k_block", WRONG
    ),
    "parity of full flipped": Mutant(
        SM80, ".wait(pipeline_.parity);", ".wait(pipeline_.parity ^ 1);", ""
    ),
    "parity of empty flipped": Mutant(
        LOADER, ".wait(pipeline_.parity ^ 1);", ".wait(pipeline_.parity);", DEADLOCK
    ),
    "stage not released": Mutant(SM80, "      release_stage();\n", "", DEADLOCK),
    "stage read again": Mutant(SM80, "      pipeline_.next();\n", "", ""),
    "stage overwritten while it is read": Mutant(
        LOADER,
        "shared_ + pipeline_.stage *",
        "shared_ + (pipeline_.stage + STAGES - 1) % STAGES *",
        WRONG,
    ),
    "copies of a row tile left out": Mutant(
        SM80, "loader_.copy_part(i);", "if (i != 1) loader_.copy_part(i);", WRONG
    ),
    "warps that release a stage miscounted": Mutant(
        LOADER, "empty[i].init(WARPS);", "empty[i].init(WARPS + 1);", DEADLOCK
    ),
    "first tile copied again": Mutant(LOADER, "    tile_ += gridDim.x;\n", "", WRONG),
    "next tile not begun": Mutant(LOADER, "    --k_blocks_left_;\n", "", WRONG),
    "rows of A copied for B": Mutant(
        LOADER, "row_at(params_.b_rows, params_.b,", "row_at(params_.a_rows, params_.a,", WRONG
    ),
    "every k slice is the first": Mutant(
        LOADER, " + tile.k_slice * metadata.slice_rows", "", WRONG
    ),
    "last copies not waited for": Mutant(
        SM80, "    cp_async_wait_all();  // the last copies, of zeros\n", "", WRONG
    ),
    "B of the k block before": Mutant(
        SM80, "    if (is_last) read_b(b_hi_[1], MMA_K);\n", "", WRONG
    ),
    "B of the next k block too early": Mutant(
        SM80, "if (is_last) read_b(b_lo_[0], LO);", "if (is_last) read_b(b_hi_[0], 0);", WRONG
    ),
    "A of the same row tile": Mutant(SM80, "read_a(a_lo_[1], next,", "read_a(a_lo_[1], i,", WRONG),
    "hi hi instead of hi lo": Mutant(
        SM80, "(cross_accum, a_hi_[0], b_lo_[0])", "(cross_accum, a_hi_[0], b_hi_[0])", WRONG
    ),
    "a cross product less": Mutant(
        SM80, "    multiply(cross_accum, a_lo_[1], b_hi_[1]);\n", "", WRONG
    ),
    "hi hi not added": Mutant(SM80, "+= k_block_accum[e];", "+= 0;", WRONG),
    "last interval not promoted": Mutant(SM80, " || k_block + 1 == tile.k_tiles) {", ") {", WRONG),
    "totals of the tile before": Mutant(SM80, "interval >= PROMOTION_GROUPS", "true", WRONG),
    "totals of another row tile": Mutant(
        SM80, "return totals_ + i * ACCUMS * WARP +", "return totals_ +", WRONG
    ),
    "one row tile stored for all": Mutant(SM80, "warp_m_ + 16 * i", "warp_m_", WRONG),
    "fallback left out": Mutant(SM80, "compute_fallback(params, TILE_N, shared);", "{}", WRONG),
    "fallback without a barrier": Mutant(
        SM80, "if (__syncthreads_or(has_fallback))", "if (has_fallback)", ""
    ),
    # A small M, by cp.async.
    "skinny: rows in use are overwritten": Mutant(
        SKINNY,
        "smem.empty[pipeline.stage].wait(pipeline.parity ^ 1);\n      unsigned char* const to",
        "unsigned char* const to",
        "",
    ),
    "skinny: A not waited for": Mutant(
        SKINNY,
        "init(Config::Producer::ARRIVALS + Config::LOAD_THREADS)",
        "init(Config::Producer::ARRIVALS)",
        "",
    ),
    "skinny: a load warp does not arrive": Mutant(
        SKINNY,
        "smem.full[pipeline.stage].arrive_after_copies();",
        "if (thread >= WARP) smem.full[pipeline.stage].arrive_after_copies();",
        DEADLOCK,
    ),
    "skinny: rows without the swizzle": Mutant(
        SKINNY, "(vec ^ first_row % VECS_PER_ROW) * 16", "vec * 16", WRONG
    ),
    "skinny: the same k blocks in every stage": Mutant(
        SKINNY, "      from += STAGE_K_BLOCKS * 2 * split::K_BLOCK;\n", "", WRONG
    ),
    "skinny: only the first rows": Mutant(
        SKINNY, "pass < Config::TILE_M / ROWS_PER_PASS", "pass < 1", WRONG
    ),
}

FAMILIES = {"fp16x3": MUTANTS, "fp16x3_mma": MMA_MUTANTS}
KERNELS = {
    "fp16x3": (
        *("fp16x3_kernels_gemm.cpp", "fp16x3_kernels_split.cpp"),
        *("fp16x3_kernels_skinny_m.cpp", "fp16x3_kernels_skinny_m_hi_lo.cpp"),
        *("fp16x3_kernels_skinny_m_rs.cpp", "fp16x3_kernels_short_k.cpp"),
    ),
    "fp16x3_mma": (
        *("fp16x3_mma_kernels_gemm.cpp", "fp16x3_kernels_split.cpp"),
        "fp16x3_mma_kernels_skinny_m.cpp",
    ),
}
SOURCES = (
    "gemm/fp16x3/split_dispatch.cpp",
    "gemm/fp16x3/split_problem.cpp",
    "gemm/gpu_rates.cpp",
)


def found_in(program: str, name: str = "shipped", mutant: Mutant | None = None) -> str:
    """What the emulator finds in the program's kernels, or in the mutant of that name."""
    return mutants.found_in(program, KERNELS[program], SOURCES, name, mutant)


@pytest.mark.sweep
@pytest.mark.parametrize("program", FAMILIES)
def test_nothing_is_found_in_the_kernels_that_ship(program: str) -> None:
    assert found_in(program) == ""


@pytest.mark.sweep
@pytest.mark.parametrize(
    ("program", "name"), [(program, name) for program in FAMILIES for name in FAMILIES[program]]
)
def test_mutant_is_found(program: str, name: str) -> None:
    mutant = FAMILIES[program][name]
    found = found_in(program, name, mutant)
    assert found
    assert mutant.found in found
