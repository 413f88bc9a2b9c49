// The instructions in which a warp's lanes hold a matrix together: ldmatrix, stmatrix, mma.sync.
#include <cstring>

#include "cpu_emulator/sm90/api.h"
#include "cpu_emulator/sm90/call.h"
#include "cpu_emulator/sm90/fault.h"
#include "cpu_emulator/sm90/fragment.h"

using namespace smem::cpu_emulator;  // NOLINT(google-build-using-namespace)
using sm90::Call;
using sm90::Format;

namespace {

constexpr uint32_t ROW_BYTES = 16;
constexpr unsigned LANES_PER_ROW = 4, MATRICES = 4, MATRIX_ROWS = 8;

/// The rows of the four 8 x 8 matrices that ldmatrix and stmatrix access; each lane names one.
struct MatrixRows {
  MatrixRows(const Call& call, const char* instruction, uint32_t row, Action action) {
    const uint32_t own = row & sm90::SharedWindow::OFFSET_MASK;
    if (own % ROW_BYTES != 0) {
      sm90::fail(call.block, "misaligned",
                 std::string(instruction) + " needs rows at multiples of 16 bytes", call.site);
    }
    call.state.window.check_inside({own, own + ROW_BYTES}, instruction, call.site);
    call.block.meet(call.state.window.at(own), rows, call.site);
    if (action == Action::store) {
      call.store(call.state.window.at(own), ROW_BYTES);
    } else {
      // Of rows beyond the operand, which nobody has stored, no product is used.
      call.speculative_load(call.state.window.at(own), ROW_BYTES);
    }
  }

  unsigned char* at(unsigned matrix, unsigned row) const {
    return static_cast<unsigned char*>(rows[matrix * MATRIX_ROWS + row]);
  }

  void* rows[WARP_SIZE];
};

/// What a lane gives to an mma.sync.
struct MmaRegisters {
  float* accum;
  const uint32_t *a, *b;
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
  const MatrixRows rows(call, "ldmatrix", row, Action::load);
  for (unsigned i = 0; i < MATRICES; ++i) {
    const unsigned first = lane() / LANES_PER_ROW, second = lane() % LANES_PER_ROW;
    auto* const to = reinterpret_cast<unsigned char*>(&fragment[i]);
    if (transpose) {
      std::memcpy(to, rows.at(i, 2 * second) + 2 * first, 2);
      std::memcpy(to + 2, rows.at(i, 2 * second + 1) + 2 * first, 2);
    } else {
      std::memcpy(to, rows.at(i, first) + 4 * second, 4);
    }
  }
}

void smem_stmatrix_x4(uint32_t row, const uint32_t* matrices) {
  CALL;
  const MatrixRows rows(call, "stmatrix", row, Action::store);
  for (unsigned i = 0; i < MATRICES; ++i) {
    std::memcpy(rows.at(i, lane() / LANES_PER_ROW) + lane() % LANES_PER_ROW * 4, &matrices[i], 4);
  }
}

void smem_mma_sync(Format format, float* accum, const uint32_t* a, const uint32_t* b) {
  CALL;
  MmaRegisters own{accum, a, b, false};
  void* lanes[WARP_SIZE];
  call.block.meet(&own, lanes, call.site);
  // The first lane that goes on computes for all: the others still wait in this call.
  if (!own.is_done) {
    multiply(format, lanes);
    if (Observer* const observer = call.block.observer()) {
      observer->bulk_access(
          {.action = Action::mma,
           .address = nullptr,
           .lanes = WARP_SIZE,
           .tensor_flop = sm90::flop_of(format, sm90::FRAGMENT_ROWS, MMA_N),
           .tensor_cycles = sm90::full_rate_cycles(format, sm90::FRAGMENT_ROWS, MMA_N)},
          call.site);
    }
  }
  current_thread->operations.fma += sm90::FRAGMENT_ROWS * MMA_N * sm90::mma_k(format) / WARP_SIZE;
}
