// out = A B for two split operands in memory, by mma.sync: what gemm.cu computes by wgmma, with the
// same bits, for every GPU since sm_80. gemm.cu describes the scheme and promotion.h the order of
// the additions.
//
// All warps of a persistent block have the same role. A tile of out has 128 x TILE_N elements, of
// which a warp computes ROW_TILES times 16 rows and 32 columns:
//
//   global memory --cp.async--> 3 stages of swizzled shared memory    1 to 2 k blocks ahead
//                 --ldmatrix--> fragments in registers                16 mma ahead
//                 --mma.sync--> k_block_accum, cross_accum            tensor cores
//                 --add-------> accum --promote--> totals             CUDA cores, shared memory
//
// A stage is a k block (32 of K) of A and of B, hi and lo in rows of 128 bytes. Per k block, each
// row tile of a warp takes six groups of four mma, one for each 8 columns:
//
//   group       mma                        then read, each into registers that are free again
//     1         cross   += Ahi Blo (k 0)   [Blo (k 0)]
//     2         k_block  = Ahi Bhi (k 0)   Ahi (k 0)
//     3         cross   += Alo Bhi (k 0)   Alo (k 0), [Bhi (k 0)]
//     4         k_block += Ahi Bhi (k 16)  part of the copies of the k block after the next
//     5         cross   += Ahi Blo (k 16)  Ahi (k 16), [Blo (k 16)]
//     6         cross   += Alo Bhi (k 16)  Alo (k 16), [Bhi (k 16)]
//               accum   += k_block
//
// A's reads are those of the next row tile. The last row tile reads the next k block's first, and
// also B, in brackets; before that the warp releases this stage and waits for the next one. So no
// fragment is in registers twice: accumulators 128 (at ROW_TILES = 4), fragments 48, k_block_accum
// 16 of 255. Between dependent mma there are at least four.
//
// Two barriers per stage, full and empty, let the warps be up to a k block apart: one warp of a
// scheduler multiplies while the other promotes. With a barrier of the block in every k block, all
// promoted at the same time, and 4096^3 took 6% longer on an H200.
//
// The next tile's first k blocks are copied, and its first fragments read, before the epilogue. The
// epilogue goes through the totals' shared memory into a loop over row tiles.
//
// Per k block of a 128 x 128 tile an SM has 768 mma: 1536 cycles on an A100, at least 1229 on an
// H200, where 1825 were measured (bench/NOTES.md). Shared memory takes 768 cycles for ldmatrix, 512
// for cp.async (two for 128 bytes) and 64 for promotion: 1344. With 32 x 32 elements per warp the
// reads per mma are 4/3 as many, with 16 x 32 twice as many. 64 x 64, or two sets of fragments, do
// not fit in registers.
//
//   Reads:  hi and lo of A N / TILE_N times, of B M / 128 times, mostly from L2.
//   Writes: out once, or the partials.
//
// What may be changed: STAGES, the tile widths and WORK, the order of the six groups as far as
// each accumulator keeps its order. That order decides the bits.
#include <algorithm>
#include <array>

#include "device/mbarrier.h"
#include "device/pdl.h"
#include "device/target.h"
#include "gemm/fp16x3/gemm_sm80.h"
#include "gemm/fp16x3/gemm_sm80_params.h"
#include "gemm/fp16x3/split_k.h"
#include "gemm/gpu_rates.h"

namespace smem::gemm::fp16x3::mma::inline SMEM_BUILD {
namespace {

template <typename Tile>
class MmaProduct {
  static constexpr int ROW_TILES = Tile::ROW_TILES;
  static constexpr int LO = TILE_K;  ///< where a row's lo begins, in elements
  static constexpr int MMA_K = 16;
  using FragmentA = unsigned[4];
  using FragmentB = unsigned[WARP_N / 16][4];

 public:
  __device__ __forceinline__ MmaProduct(const MmaProductParams& params, unsigned char* shared)
      : params_(params),
        shared_(shared),
        stages_(shared_address(shared)),
        totals_(reinterpret_cast<float*>(shared + STAGES * Tile::STAGE_BYTES) +
                threadIdx.x / WARP * (ROW_TILES * ACCUMS * WARP)),
        loader_(params, shared),
        warp_m_(static_cast<int>(threadIdx.x) / WARP / Tile::WARPS_N * Tile::WARP_M),
        warp_n_(static_cast<int>(threadIdx.x) / WARP % Tile::WARPS_N * WARP_N),
        reader_a_(warp_m_),
        reader_b_(warp_n_) {}

  /// Computes the block's tiles. Returns whether the thread found rows or columns that are
  /// FALLBACK.
  __device__ __forceinline__ bool run() {
#pragma unroll 1
    for (int stage = 0; stage < STAGES - 1; ++stage) {
#pragma unroll
      for (int part = 0; part < ROW_TILES; ++part) loader_.copy_part(part);
    }
    await_stage();
#pragma unroll
    for (int step = 0; step < 2; ++step) {
      read_a(a_hi_[step], 0, step * MMA_K);
      read_a(a_lo_[step], 0, LO + step * MMA_K);
      read_b(b_hi_[step], step * MMA_K);
      read_b(b_lo_[step], LO + step * MMA_K);
    }

    bool has_fallback = false;
    for_each_work_tile(params_, [&](const WorkTileInfo& tile) {
      float accum[ROW_TILES][ACCUMS] = {}, cross_accum[ROW_TILES][ACCUMS] = {};
#pragma unroll 1
      for (int k_block = 0; k_block < tile.k_tiles; ++k_block) {
#pragma unroll
        for (int i = 0; i < ROW_TILES; ++i) multiply_row_tile(i, accum[i], cross_accum[i]);
        if ((k_block + 1) % PROMOTION_INTERVAL == 0 || k_block + 1 == tile.k_tiles) {
          promote(accum, k_block / PROMOTION_INTERVAL);
        }
      }
      store(accum, cross_accum, tile, has_fallback);
    });
    cp_async_wait_all();  // the last copies, of zeros
    return has_fallback;
  }

 private:
  /// Afterwards the current stage's k block has landed.
  __device__ __forceinline__ void await_stage() const {
    StageBarriers<Tile>(shared_).full[pipeline_.stage].wait(pipeline_.parity);
  }
  /// The warp has read its last fragments of the current stage.
  __device__ __forceinline__ void release_stage() const {
    __syncwarp();
    if (threadIdx.x % WARP == 0) StageBarriers<Tile>(shared_).empty[pipeline_.stage].arrive();
  }

  /// Of row tile i of the current stage, from k on.
  __device__ __forceinline__ void read_a(FragmentA& fragment, int i, int k) const {
    reader_a_.read(fragment, stages_ + pipeline_.stage * Tile::STAGE_BYTES, 16 * i, k);
  }
  __device__ __forceinline__ void read_b(FragmentB& fragment, int k) const {
#pragma unroll
    for (int j = 0; j < WARP_N / 16; ++j) {
      reader_b_.read(fragment[j], stages_ + pipeline_.stage * Tile::STAGE_BYTES + Tile::A_BYTES,
                     16 * j, k);
    }
  }

  __device__ __forceinline__ static void multiply(float (&accum)[ACCUMS], const FragmentA& a,
                                                  const FragmentB& b) {
#pragma unroll
    for (int j = 0; j < WARP_N / 8; ++j) {
      float tile[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) tile[i] = accum[4 * j + i];
      mma_sync<half>(tile, a, b[j / 2][j % 2 * 2], b[j / 2][j % 2 * 2 + 1]);
#pragma unroll
      for (int i = 0; i < 4; ++i) accum[4 * j + i] = tile[i];
    }
  }

  /// Row tile i of a k block, in the order that is drawn above.
  __device__ __forceinline__ void multiply_row_tile(int i, float (&accum)[ACCUMS],
                                                    float (&cross_accum)[ACCUMS]) {
    const bool is_last = i == ROW_TILES - 1;
    const int next = is_last ? 0 : i + 1;
    if (is_last) {
      release_stage();
      pipeline_.next();
      await_stage();
    }
    float k_block_accum[ACCUMS] = {};
    multiply(cross_accum, a_hi_[0], b_lo_[0]);
    if (is_last) read_b(b_lo_[0], LO);
    multiply(k_block_accum, a_hi_[0], b_hi_[0]);
    read_a(a_hi_[0], next, 0);
    multiply(cross_accum, a_lo_[0], b_hi_[0]);
    read_a(a_lo_[0], next, LO);
    if (is_last) read_b(b_hi_[0], 0);
    multiply(k_block_accum, a_hi_[1], b_hi_[1]);
    loader_.copy_part(i);
    multiply(cross_accum, a_hi_[1], b_lo_[1]);
    read_a(a_hi_[1], next, MMA_K);
    if (is_last) read_b(b_lo_[1], LO + MMA_K);
    multiply(cross_accum, a_lo_[1], b_hi_[1]);
    read_a(a_lo_[1], next, LO + MMA_K);
    if (is_last) read_b(b_hi_[1], MMA_K);
#pragma unroll
    for (int e = 0; e < ACCUMS; ++e) accum[e] += k_block_accum[e];
  }

  /// The totals of row tile i of the thread.
  __device__ __forceinline__ float* totals_of(int i) const {
    return totals_ + i * ACCUMS * WARP + threadIdx.x % WARP;
  }

  /// After the interval of that number. The group is found by branches: the code of the products
  /// once for each group would be some 50 KB.
  __device__ __forceinline__ void promote(float (&accum)[ROW_TILES][ACCUMS], int interval) {
#pragma unroll
    for (int group = 0; group < PROMOTION_GROUPS; ++group) {
      if (interval % PROMOTION_GROUPS != group) continue;
#pragma unroll
      for (int i = 0; i < ROW_TILES; ++i) {
        promote_group(accum[i], totals_of(i), group, interval >= PROMOTION_GROUPS);
      }
    }
  }

  __device__ __forceinline__ void store(const float (&accum)[ROW_TILES][ACCUMS],
                                        const float (&cross_accum)[ROW_TILES][ACCUMS],
                                        const WorkTileInfo& tile, bool& has_fallback) {
#pragma unroll
    for (int i = 0; i < ROW_TILES; ++i) {
#pragma unroll
      for (int e = 0; e < ACCUMS; ++e) {
        totals_of(i)[e * WARP] =
            combine_accum(e, totals_of(i), accum[i][e], cross_accum[i][e], tile.k_tiles);
      }
    }
#pragma unroll 1
    for (int i = 0; i < ROW_TILES; ++i) {
      const auto epilogue = split_epilogue<WARP_N, /*CALLS_ACTIVATIONS=*/false>(
          params_, tile, tile.row * TILE_M + warp_m_ + 16 * i, tile.col * Tile::TILE_N + warp_n_);
      float values[ACCUMS];
#pragma unroll
      for (int e = 0; e < ACCUMS; ++e) values[e] = totals_of(i)[e * WARP];
      has_fallback |= epilogue.write(values, totals_ + i * ACCUMS * WARP);
    }
  }

  const MmaProductParams& params_;
  unsigned char* shared_;
  unsigned stages_;  ///< address in shared memory
  float* totals_;    ///< of the warp, see promote_group
  StageLoader<Tile> loader_;
  int warp_m_, warp_n_;
  FragmentReader<typename Tile::LayoutA, MmaOperand::a> reader_a_;
  FragmentReader<typename Tile::LayoutB, MmaOperand::b> reader_b_;
  Pipeline pipeline_;  ///< the stage that fragments are read from
  FragmentA a_hi_[2], a_lo_[2];
  FragmentB b_hi_[2], b_lo_[2];
};

template <int TILE_N>
__global__ void __launch_bounds__(launch_bound(TARGET_HAS_SM80, THREADS))
    fp16x3_mma_kernel(const __grid_constant__ MmaProductParams params) {
#if !defined(__CUDACC__) || __CUDA_ARCH__ >= 800
  auto* const shared = dynamic_shared<unsigned char>();
  if (threadIdx.x == 0) StageBarriers<MmaTile<TILE_N>>(shared).init();
  __syncthreads();
  wait_on_dependent_grids();
  const bool has_fallback = MmaProduct<MmaTile<TILE_N>>(params, shared).run();
  if (__syncthreads_or(has_fallback)) compute_fallback(params, TILE_N, shared);
#endif
}

template <int TILE_N>
void launch_tile_n(const Problem& problem, const SplitOperand& a, const SplitOperand& b,
                   float* partials, const Device& device) {
  using Tile = MmaTile<TILE_N>;
  const MmaProductParams params{
      .problem = problem,
      .a_rows = HiLoRows(a),
      .b_rows = HiLoRows(b),
      .scheduler = make_scheduler(problem, a, TILE_M, TILE_N),
      .epilogue = epilogue_of<float>(problem),
      .strides = batch_strides(problem),
      .a = SplitMetadata(a),
      .b = SplitMetadata(b),
      .k_slice_length = a.k_slice_length,
      .partials = a.k_slices > 1 ? partials : nullptr,
  };
  const int64_t blocks = std::min<int64_t>(params.scheduler.work_tiles, device.sm_count);
  launch("fp16x3 mma", fp16x3_mma_kernel<TILE_N>, {blocks, {THREADS}, Tile::SMEM_BYTES, true},
         device, params);
}

/// What a k block of a tile takes.
struct TileWork {
  int tile_n, mma;
  int smem_cycles;  ///< of an SM: ldmatrix, cp.async and promotion, computed
  size_t smem_bytes;
};
constexpr TileWork WORK[] = {
    {.tile_n = 128, .mma = 768, .smem_cycles = 1344, .smem_bytes = MmaTile<128>::SMEM_BYTES},
    {.tile_n = 64, .mma = 384, .smem_cycles = 928, .smem_bytes = MmaTile<64>::SMEM_BYTES},
    {.tile_n = 32, .mma = 192, .smem_cycles = 720, .smem_bytes = MmaTile<32>::SMEM_BYTES},
};

/// Of mma.sync and shared memory the slower one counts. On an H200 that chooses the fastest width
/// for all of 8 problems that were timed with each.
std::array<TileCost, std::size(WORK)> costs_on(const Device& device) {
  const double cycles_per_mma = rates_of(device).cycles_per_mma / SUB_PARTITIONS;
  std::array<TileCost, std::size(WORK)> costs;
  std::transform(std::begin(WORK), std::end(WORK), costs.begin(), [&](const TileWork& work) {
    const int mma_cycles = static_cast<int>(work.mma * cycles_per_mma);
    return TileCost{work.tile_n, std::max(mma_cycles, work.smem_cycles), work.smem_bytes};
  });
  return costs;
}

}  // namespace

TileChoice choose_tile(const Problem& problem, int64_t k_slices, const Device& device) {
  return fp16x3::choose_tile(costs_on(device), problem, k_slices, device);
}

double expected_ns(const Problem& problem, const SplitOperand& a, const SplitOperand& b,
                   const Device& device) {
  constexpr double WAIT_FACTOR = 1.4;   // 1.34 to 1.49 for the three widths on an H200
  constexpr double BYTES_OF_SPLIT = 8;  // per element, read and written
  constexpr double NS_LAUNCH = 3750, NS_NEXT_LAUNCH = 3000;  // fitted on an H200, as mma's were
  const GpuRates& rates = rates_of(device);
  const auto elements = [](const SplitOperand& operand) {
    return static_cast<double>(operand.batch_count * operand.mn * operand.k);
  };
  const auto partials =
      static_cast<double>(SplitKConfig(problem.N, problem.K).partials_bytes(problem));
  const double bytes = BYTES_OF_SPLIT * (elements(a) + elements(b)) + 2 * partials;
  const int next_launches = a.k_slices > 1 ? 3 : 2;
  const auto k_blocks = static_cast<double>(ceil_div(problem.K, TILE_K * a.k_slices));
  const auto cycles = static_cast<double>(choose_tile(problem, a.k_slices, device).cycles);
  return NS_LAUNCH + next_launches * NS_NEXT_LAUNCH + bytes / rates.dram_bytes_per_ns +
         WAIT_FACTOR * cycles * k_blocks / rates.clock;
}

void launch_gemm(const Problem& problem, const split::SplitOperand& a, const split::SplitOperand& b,
                 float* partials, const Device& device) {
  switch (choose_tile(problem, a.k_slices, device).tile_n) {
    case 128:
      return launch_tile_n<128>(problem, a, b, partials, device);
    case 64:
      return launch_tile_n<64>(problem, a, b, partials, device);
    default:
      return launch_tile_n<32>(problem, a, b, partials, device);
  }
}

const void* gemm_function() { return reinterpret_cast<const void*>(fp16x3_mma_kernel<128>); }

}  // namespace smem::gemm::fp16x3::mma::inline SMEM_BUILD
