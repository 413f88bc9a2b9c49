// One block, one tile of out, all of K or a part of it.
//
// A thread holds TM x TN sums and reads TM + TN values a step along K; on Hopper an FFMA takes the
// whole issue slot of its quarter of an SM, so what counts is how few other instructions
// there are. cp.async fills stages ahead, fragments are read a step ahead, one barrier a stage. The
// sums of chunks, which K's order needs every 64 or 128 of K (block.h), lie in shared memory: in
// registers they would halve the tile, in local memory each chunk would go through L2.
#pragma once

#include "gemm/block.h"
#include "gemm/simt/load_pipelined.h"
#include "gemm/simt/load_multistage.h"
#include "gemm/simt/epilogue.h"

namespace smem::gemm::simt {
inline namespace SMEM_BUILD {

/// What a block keeps in shared memory.
template <typename T, int TILE, int TOLD_AS>
struct Shared {
  using On = Threads<T, TILE>;
  static constexpr int DEPTH = depth_of(TILE, TOLD_AS);
  static constexpr bool FETCHES = TOLD_AS == BY_ELEMENTS;
  using LoadA = std::conditional_t<
      FETCHES, Fetcher<T, On::ROWS, DEPTH, On::THREADS>,
      Loader<T, On::ROWS, DEPTH, On::THREADS, On::GROUP_M, On::LANES_M, TOLD[TOLD_AS].a>>;
  using LoadB = std::conditional_t<
      FETCHES, Fetcher<T, On::COLS, DEPTH, On::THREADS>,
      Loader<T, On::COLS, DEPTH, On::THREADS, On::GROUP_N, On::LANES_N, TOLD[TOLD_AS].b>>;

  struct Stage {
    typename LoadA::Stage a;
    typename LoadB::Stage b;
  };

  /// A group of sums a thread and slot: neighbouring threads lie next to one another.
  Tile<T, On::SLOTS * On::THREADS, On::GROUP_N> sums;
  Stage stages[stages_of(TILE, TOLD_AS, sizeof(T))];
};

/// A thread's values of an operand, those of one or two steps: its groups of GROUP lie LANES groups
/// apart. Where the stage has rows along k, a load takes VECTOR_WIDTH steps of one value at once.
template <typename T, int COUNT, int GROUP, int LANES, typename Load>
class Fragments {
  using Acc = Accumulator<T>;
  static constexpr bool ALONG_K = Load::ALONG_K;
  static constexpr int STEPS = ALONG_K ? VECTOR_WIDTH<T> : 1;

 public:
  /// Loads step k; `first` is the thread's first place along e, `rest` of what no group holds.
  template <typename Stage>
  __device__ __forceinline__ void load(const Stage& stage, int first, int rest, int k) {
    if constexpr (ALONG_K) {
      if (k % STEPS != 0) return;
#pragma unroll
      for (int i = 0; i < COUNT; ++i) {
        const int e = i / GROUP * GROUP * LANES + i % GROUP;
        const auto steps = load_vector<STEPS>(stage.at(e, 0) + Load::place(first, k));
#pragma unroll
        for (int j = 0; j < STEPS; ++j) {
          values_[k / STEPS % 2][j][i] = to_accumulator(steps.lane[j]);
        }
      }
    } else {
      constexpr int GROUPED = COUNT / GROUP * GROUP;
#pragma unroll
      for (int i = 0; i < GROUPED; i += GROUP) {
        const auto group = load_vector<GROUP>(stage.at(k, first + i * LANES));
#pragma unroll
        for (int j = 0; j < GROUP; ++j) values_[k % 2][0][i + j] = to_accumulator(group.lane[j]);
      }
#pragma unroll
      for (int i = GROUPED; i < COUNT; ++i) {
        const T value = stage(k, rest + (i - GROUPED) * LANES);
        values_[k % 2][0][i] = to_accumulator(value);
      }
    }
  }

  __device__ __forceinline__ Acc operator()(int k, int i) const {
    return values_[k / STEPS % 2][k % STEPS][i];
  }

 private:
  Acc values_[2][STEPS][COUNT];
};

/// The sums that a thread has ended: chunks' in shared memory, or with few in registers,
/// superchunks' in local memory, which is touched every 1024 or 2048 of K. Those in registers are
/// apart, as local memory would take them along.
template <typename T, int TILE, bool IN_REGISTERS>
class EndedSums {
  using On = Threads<T, TILE>;
  using Acc = Accumulator<T>;
  using Slots = Tile<T, On::SLOTS * On::THREADS, On::GROUP_N>;
  static constexpr int W = On::GROUP_N;

 public:
  using Running = Acc[On::TM][On::TN];

  __device__ __forceinline__ explicit EndedSums(Slots& slots) : slots_(slots) {}

  /// chunks += sum; sum = 0. The first chunk finds nothing in shared memory. `held`: chunks, where
  /// they are in registers.
  __device__ __forceinline__ void end_chunk(Running& sum, Running& held) {
    if constexpr (IN_REGISTERS) {
#pragma unroll
      for (int i = 0; i < On::TM; ++i) {
#pragma unroll
        for (int j = 0; j < On::TN; ++j) {
          held[i][j] += sum[i][j];
          sum[i][j] = 0;
        }
      }
      return;
    }
    if (chunks_) {
      move<true>(sum);
    } else {
      move<false>(sum);
    }
    chunks_ = true;
  }

  /// superchunks += chunks; chunks = 0
  __device__ __forceinline__ void end_superchunk(Running& held) {
    put_chunks(held);
#pragma unroll 4
    for (int slot = 0; slot < On::SLOTS; ++slot) {
      const auto chunks = at(slot);
#pragma unroll
      for (int i = 0; i < W; ++i) {
        const Acc before = superchunks_ ? superchunk_sums_[slot * W + i] : Acc(0);
        superchunk_sums_[slot * W + i] = before + to_accumulator(chunks.lane[i]);
      }
    }
    superchunks_ = true;
    chunks_ = false;
  }

  /// Leaves superchunks + (chunks + sum) where the chunks' sums were.
  __device__ __forceinline__ void finish(Running& sum, Running& held) {
    end_chunk(sum, held);
    if (!superchunks_) return put_chunks(held);
    end_superchunk(held);
#pragma unroll 1
    for (int slot = 0; slot < On::SLOTS; ++slot) {
      Vector<T, W> values{};
#pragma unroll
      for (int i = 0; i < W; ++i) {
        values.lane[i] = from_accumulator<T>(superchunk_sums_[slot * W + i]);
      }
      store_vector<W>(place(slot), values);
    }
  }

  /// Puts chunks where those in shared memory are.
  __device__ __forceinline__ void put_chunks(Running& held) {
    if constexpr (IN_REGISTERS) move<false>(held);
  }

  /// Forgets what the slots hold.
  __device__ __forceinline__ void drop_chunks() { chunks_ = false; }

 private:
  __device__ __forceinline__ T* place(int slot) const {
    return slots_.at(slot * On::THREADS + static_cast<int>(threadIdx.x), 0);
  }
  __device__ __forceinline__ Vector<T, W> at(int slot) const { return load_vector<W>(place(slot)); }

  template <bool ADD>
  __device__ __forceinline__ void move(Running& sum) {
#pragma unroll
    for (int i = 0; i < On::TM; ++i) {
#pragma unroll
      for (int group = 0; group < On::GROUPS_N; ++group) {
        Vector<T, W> values{};
        if constexpr (ADD) values = at(i * On::GROUPS_N + group);
#pragma unroll
        for (int j = 0; j < W; ++j) {
          Acc& s = sum[i][group * W + j];
          values.lane[j] = from_accumulator<T>(to_accumulator(values.lane[j]) + s);
          s = 0;
        }
        store_vector<W>(place(i * On::GROUPS_N + group), values);
      }
    }
  }

  Slots& slots_;
  bool chunks_ = false, superchunks_ = false;
  Acc superchunk_sums_[On::TM * On::TN];
};

/// Blocks count down the tile rows of a strip first, then along N: those that run at the same time
/// share rows of A and columns of B in L2.
__device__ __forceinline__ unsigned in_strips(unsigned index, unsigned tiles_m, unsigned tiles_n,
                                              unsigned strip) {
  const unsigned tiles = tiles_m * tiles_n, member = index / tiles, tile = index % tiles;
  const unsigned first = tile / (strip * tiles_n) * strip, in_strip = tile % (strip * tiles_n);
  const unsigned rows = lesser(strip, tiles_m - first);
  return member * tiles + (first + in_strip % rows) * tiles_n + in_strip / rows;
}

/// A tile whose sums go to the workspace, or to out.
template <typename T, int TILE, int TOLD_AS>
__global__ void __launch_bounds__(Threads<T, TILE>::THREADS, blocks_of(TILE, TOLD_AS))
    simt_kernel(const __grid_constant__ Arguments arguments) {
  using On = Threads<T, TILE>;
  using Memory = Shared<T, TILE, TOLD_AS>;
  constexpr int DEPTH = Memory::DEPTH, STAGES = stages_of(TILE, TOLD_AS, sizeof(T));
  constexpr int W = On::GROUP_N, AHEAD = STAGES - 1;
  static_assert(SHORTEST_CHUNK % DEPTH == 0, "chunks end where a stage ends");
  static_assert(STAGES >= 3, "one is read, the next has landed, one is written");

  const Problem& problem = arguments.problem;
  const Cut& cut = arguments.cut;
  const auto part = static_cast<int64_t>(blockIdx.x % cut.parts);
  const unsigned index = blockIdx.x / cut.parts;
  const Block<T> block(problem, On::ROWS, On::COLS,
                       in_strips(index, arguments.tiles_m, arguments.tiles_n, arguments.strip));
  const int64_t chunk = chunk_length(problem.K);
  const int64_t k_begin = part * cut.part_length;
  const int64_t length = lesser(problem.K - k_begin, cut.part_length);
  const auto steps = static_cast<int>((length + DEPTH - 1) / DEPTH);

  Memory& memory = *dynamic_shared<Memory>();
  using Ended = EndedSums<T, TILE, chunks_in_registers(TILE, TOLD_AS)>;
  Ended ended(memory.sums);
  typename Ended::Running sum = {}, chunk_sums = {};
  Matrix<const T> A = block.A, B = block.B.transposed();
  if constexpr (Memory::FETCHES) A.cols = B.cols = k_begin + length;
  if (arguments.padded_a) A.rows = block.row0 + On::ROWS;
  if (arguments.padded_b) B.rows = block.col0 + On::COLS;
  typename Memory::LoadA load_a(A, block.row0, k_begin);
  typename Memory::LoadB load_b(B, block.col0, k_begin);
  if constexpr (Memory::FETCHES) load_b.fetch();

  const auto rows_inside = static_cast<int>(lesser(problem.M - block.row0, int64_t{On::ROWS}));
  const auto write_partial = [&](int64_t unit) {
    const int64_t matrix =
        unit * arguments.members + index / (arguments.tiles_m * arguments.tiles_n);
    const Matrix<T> partial{static_cast<T*>(problem.workspace) + matrix * problem.M * problem.N,
                            problem.M, problem.N, problem.N, 1};
    const bool wide = rows_are_vectors<W>(partial);
    for_each_group<T, TILE>(
        memory.sums, rows_inside, On::COLS, [&](int row, int col, const auto& group) {
          store_row_run(partial, block.row0 + row, block.col0 + col, group, wide);
        });
    ended.drop_chunks();
    __syncthreads();
  };

  // Copies of whole pieces stand among the products, without a test in each; edges apart.
  const bool rows_are_inside = load_a.rows_inside() && load_b.rows_inside();
  const auto steps_inside = Memory::FETCHES   ? steps
                            : rows_are_inside ? static_cast<int>(length / DEPTH)
                                              : 0;
  const auto start_at_edge = [&](int step) {
    const auto depth = static_cast<int>(lesser(length - int64_t{step} * DEPTH, int64_t{DEPTH}));
    auto& stage = memory.stages[step % STAGES];
    if constexpr (Memory::FETCHES) {
      load_a.fetch();
      load_a.put(stage.a);
      load_b.put(stage.b);
      load_b.fetch();
    } else {
      load_a.next(stage.a, depth);
      load_b.next(stage.b, depth);
    }
  };
  for (int step = 0; step < AHEAD; ++step) {
    if (step < steps) start_at_edge(step);
    cp_async_commit();
  }
  int row = On::first_row(), col = On::first_col(), rest_col = 0;
  if constexpr (On::REST_N > 0) rest_col = On::rest_col();
  opaque(row);
  opaque(col);
  if constexpr (On::REST_N > 0) opaque(rest_col);
  Fragments<T, On::TM, On::GROUP_M, On::LANES_M, typename Memory::LoadA> a;
  Fragments<T, On::TN, On::WIDE_N, On::LANES_N, typename Memory::LoadB> b;
  const auto load_fragments = [&](const typename Memory::Stage& stage, int k) {
    a.load(stage.a, row, row, k);
    b.load(stage.b, col, rest_col, k);
  };

  if (steps > 0) {
    cp_async_wait<AHEAD - 1>();
    __syncthreads();
    load_fragments(memory.stages[0], 0);
  }
  const auto chunk_steps = static_cast<int>(chunk / DEPTH);
  constexpr int EARLY = 1;  // with the order of products, what nvcc schedules best
  int step = 0, reads = 0, writes = AHEAD;
  for (; step < steps;) {
    const int chunk_end = lesser(step + chunk_steps, steps);
    for (; step < chunk_end; ++step) {
      const bool inside = step + AHEAD < steps_inside;
      const int following = reads + 1 == STAGES ? 0 : reads + 1;
      const int next = step + 1 < steps ? following : reads;
#pragma unroll
      for (int k = 0; k < DEPTH; ++k) {
        load_fragments(memory.stages[k + 1 < DEPTH ? reads : next], (k + 1) % DEPTH);
        // The barrier stands within the step, so that warps may be apart where chunks end: it says
        // that the next stage has landed, and that the one before this is no longer read.
        if (k == EARLY) {
          cp_async_wait<AHEAD - 2>();
          __syncthreads();
          if (!inside && step + AHEAD < steps) start_at_edge(step + AHEAD);
        } else if (k == EARLY + 1) {
          if constexpr (Memory::FETCHES) {  // half a step each, in the same registers
            if (inside) {
              load_b.put(memory.stages[writes].b);
              load_a.fetch();
            }
          } else {
            if (inside) load_a.next_inside(memory.stages[writes].a);
          }
        } else if (k == EARLY + 2) {
          if constexpr (!Memory::FETCHES) {
            if (inside) load_b.next_inside(memory.stages[writes].b);
            cp_async_commit();
          }
        } else if (Memory::FETCHES && k == EARLY + 1 + DEPTH / 2) {
          if constexpr (Memory::FETCHES) {
            if (inside) {
              load_a.put(memory.stages[writes].a);
              load_b.fetch();
            }
          }
        }
        // Back and forth, so that each product finds one factor in the operand cache.
#pragma unroll
        for (int first = 0; first < On::TM; first += On::GROUP_M) {
#pragma unroll
          for (int j = 0; j < On::TN; ++j) {
#pragma unroll
            for (int i = 0; i < On::GROUP_M; ++i) {
              const int s = first + (j % 2 ? On::GROUP_M - 1 - i : i);
              const int t = first / On::GROUP_M % 2 ? On::TN - 1 - j : j;
              sum[s][t] = fma(a(k, s), b(k, t), sum[s][t]);
            }
          }
        }
      }
      writes = reads;
      reads = next;
    }
    if (step == steps) break;
    ended.end_chunk(sum, chunk_sums);
    const int64_t chunks = k_begin / chunk + step / chunk_steps;
    if (cut.by == Unit::chunk) {
      ended.put_chunks(chunk_sums);
      write_partial(chunks - 1);
    } else if (chunks % CHUNKS_A_SUPERCHUNK == 0) {
      if (cut.by == Unit::superchunk) {
        ended.put_chunks(chunk_sums);
        write_partial(chunks / CHUNKS_A_SUPERCHUNK - 1);
      } else {
        ended.end_superchunk(chunk_sums);
      }
    }
  }
  ended.finish(sum, chunk_sums);

  if (cut.by != Unit::none) {
    const int64_t unit = cut.by == Unit::chunk ? chunk : chunk * CHUNKS_A_SUPERCHUNK;
    write_partial((k_begin + length - 1) / unit);
  } else {
    constexpr bool FOR_WARPS = On::COLS >= 32;  // a row
    if constexpr (FOR_WARPS && (TILE != TILE_128X128 || Memory::FETCHES)) {
      store_ragged_tile<T, TILE>(block, memory.sums, rows_inside);
    } else {
      store_tile<T, TILE>(block, memory.sums, rows_inside);
    }
  }
}

}  // namespace SMEM_BUILD
}  // namespace smem::gemm::simt
