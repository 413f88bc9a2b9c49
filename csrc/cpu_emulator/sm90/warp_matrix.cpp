// The instructions in which a warp's lanes hold a matrix together: ldmatrix, stmatrix, movmatrix,
// mma.sync.
#include <cstring>

#include "cpu_emulator/fault.h"
#include "cpu_emulator/sm90/api.h"
#include "cpu_emulator/sm90/call.h"
#include "cpu_emulator/sm90/fragment.h"

using namespace smem::cpu_emulator;  // NOLINT(google-build-using-namespace)
using sm90::Call;
using sm90::Format;

namespace {

constexpr uint32_t ROW_BYTES = 16;
constexpr unsigned LANES_PER_ROW = 4, MATRICES = 4, MATRIX_ROWS = 8;

/// All lanes of the warp give each other a pointer.
void meet(const Call& call, const char* instruction, void* own, void* (&all)[WARP_SIZE]) {
  if (call.block.meet(own, all, call.site) == ~0u) return;
  fail(call.block, "absent lanes",
       std::string(instruction) + " needs all 32 lanes, and some have ended or never were",
       call.site);
}

/// The rows of the 8 x 8 matrices that ldmatrix and stmatrix access; each lane names one.
struct MatrixRows {
  MatrixRows(const Call& call, const char* instruction, void* own) {
    if (reinterpret_cast<uintptr_t>(own) % ROW_BYTES != 0) {
      fail(call.block, "misaligned",
           std::string(instruction) + " needs rows at multiples of 16 bytes", call.site);
    }
    meet(call, instruction, own, rows);
  }

  unsigned char* at(unsigned matrix, unsigned row) const {
    return static_cast<unsigned char*>(rows[matrix * MATRIX_ROWS + row]);
  }
  void load(unsigned matrices, bool transpose, uint32_t* fragment) const {
    const unsigned first = lane() / LANES_PER_ROW, second = lane() % LANES_PER_ROW;
    for (unsigned i = 0; i < matrices; ++i) {
      auto* const to = reinterpret_cast<unsigned char*>(&fragment[i]);
      if (transpose) {
        std::memcpy(to, at(i, 2 * second) + 2 * first, 2);
        std::memcpy(to + 2, at(i, 2 * second + 1) + 2 * first, 2);
      } else {
        std::memcpy(to, at(i, first) + 4 * second, 4);
      }
    }
  }

  void* rows[WARP_SIZE];
};

/// The lane's row by its address in the shared window.
void* row_at(const Call& call, const char* instruction, uint32_t row) {
  const uint32_t own = row & sm90::SharedWindow::OFFSET_MASK;
  call.state.window.check_inside({own, own + ROW_BYTES}, instruction, call.site);
  return call.state.window.at(own);
}

/// What a lane gives to an mma.sync.
struct MmaRegisters {
  float* accum;
  uint32_t a[4], b[2];  ///< those of the second half of K are 0 if the instruction has none
  bool is_done;
};

constexpr int MMA_N = 8, ACCUMULATORS = 4;  ///< ACCUMULATORS: of a lane

/// The product of a warp, for all of its lanes.
void multiply(Format format, void* const (&lanes)[WARP_SIZE]) {
  uint32_t a[sm90::FRAGMENT_ROWS * sm90::MOST_K], b[sm90::MOST_K * sm90::MOST_COLS];
  float accum[sm90::FRAGMENT_ROWS * sm90::MOST_COLS];
  for (unsigned lane = 0; lane < WARP_SIZE; ++lane) {
    const MmaRegisters& own = *static_cast<MmaRegisters*>(lanes[lane]);
    sm90::gather_a(format, lane, own.a, a);
    sm90::gather_b(format, lane, own.b, b);
    for (int i = 0; i < ACCUMULATORS; ++i) {
      const sm90::Position at = sm90::position_of_accumulator(lane, i);
      accum[at.row * sm90::MOST_COLS + at.col] = own.accum[i];
    }
  }
  sm90::multiply_add(format, sm90::FRAGMENT_ROWS, MMA_N, a, b, accum, true);
  for (unsigned lane = 0; lane < WARP_SIZE; ++lane) {
    MmaRegisters& own = *static_cast<MmaRegisters*>(lanes[lane]);
    for (int i = 0; i < ACCUMULATORS; ++i) {
      const sm90::Position at = sm90::position_of_accumulator(lane, i);
      own.accum[i] = accum[at.row * sm90::MOST_COLS + at.col];
    }
    own.is_done = true;
  }
}

}  // namespace

void smem_ldmatrix_x4(uint32_t row, bool transpose, uint32_t* fragment) {
  CALL;
  void* const own = row_at(call, "ldmatrix", row);
  const MatrixRows rows(call, "ldmatrix", own);
  // Of rows beyond the operand, which nobody has stored, no product is used.
  call.speculative_load(own, ROW_BYTES);
  rows.load(MATRICES, transpose, fragment);
}

void smem_ldmatrix(const void* row, int matrices, bool transpose, uint32_t* fragment) {
  CALL;
  const auto count = static_cast<unsigned>(matrices);
  // A lane whose row does not exist ends here, before others read it.
  if (lane() < count * MATRIX_ROWS) call.load(row, ROW_BYTES);
  const MatrixRows rows(call, "ldmatrix", const_cast<void*>(row));
  rows.load(count, transpose, fragment);
}

void smem_stmatrix_x4(uint32_t row, const uint32_t* matrices) {
  CALL;
  void* const own = row_at(call, "stmatrix", row);
  const MatrixRows rows(call, "stmatrix", own);
  call.store(own, ROW_BYTES);
  for (unsigned i = 0; i < MATRICES; ++i) {
    std::memcpy(rows.at(i, lane() / LANES_PER_ROW) + lane() % LANES_PER_ROW * 4, &matrices[i], 4);
  }
}

uint32_t smem_movmatrix(uint32_t elements) {
  CALL;
  void* lanes[WARP_SIZE];
  meet(call, "movmatrix", reinterpret_cast<void*>(uintptr_t{elements}), lanes);
  // Element (row, col) is in lane 4 row + col / 2.
  const auto element = [&](unsigned row, unsigned col) {
    const auto pair = reinterpret_cast<uintptr_t>(lanes[row * LANES_PER_ROW + col / 2]);
    return static_cast<uint32_t>(pair >> (16 * (col % 2)) & 0xffff);
  };
  const unsigned row = lane() / LANES_PER_ROW, col = lane() % LANES_PER_ROW * 2;
  return element(col, row) | element(col + 1, row) << 16;
}

bool smem_is_shared(const void* address) {
  const InEmulator guard;
  Observer* const observer = current_thread->block->observer();
  return observer && observer->in_shared_memory(address);
}

void smem_mma_sync(Format format, int k, float* accum, const uint32_t* a, const uint32_t* b) {
  CALL;
  const bool is_half = k < sm90::mma_k(format);
  MmaRegisters own{accum, {a[0], a[1]}, {b[0]}, false};
  if (!is_half) {
    own.a[2] = a[2];
    own.a[3] = a[3];
    own.b[1] = b[1];
  }
  void* lanes[WARP_SIZE];
  meet(call, "mma.sync", &own, lanes);
  // The first lane that goes on computes for all: the others still wait in this call.
  if (!own.is_done) {
    multiply(format, lanes);
    if (Observer* const observer = call.block.observer()) {
      observer->bulk_access(
          {.action = Action::mma,
           .address = nullptr,
           .lanes = WARP_SIZE,
           .tensor_flop = sm90::flop_of(sm90::FRAGMENT_ROWS, MMA_N, k),
           .tensor_cycles = sm90::full_rate_cycles(format, sm90::FRAGMENT_ROWS, MMA_N, k)},
          call.site);
    }
  }
  current_thread->operations.fma +=
      static_cast<uint64_t>(sm90::FRAGMENT_ROWS * MMA_N * k) / WARP_SIZE;
}
