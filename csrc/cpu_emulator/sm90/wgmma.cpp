#include "cpu_emulator/sm90/wgmma.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "cpu_emulator/cluster.h"
#include "cpu_emulator/fault.h"
#include "cpu_emulator/sm90/block_state.h"
#include "cpu_emulator/sm90/fragment.h"
#include "cpu_emulator/sm90/matrix_descriptor.h"

namespace smem::cpu_emulator::sm90 {

namespace {

constexpr int WGMMA_M = 64;
constexpr uint32_t POISON = 0xffc0bad0;

uint32_t element_at(const SharedWindow& window, uint32_t offset, int bytes) {
  uint32_t bits = 0;
  std::memcpy(&bits, window.at(offset), static_cast<size_t>(bytes));
  return bits;
}

}  // namespace

Warpgroup& Warpgroups::current() {
  return warpgroups_.try_emplace(current_thread->linear / Warpgroup::THREADS, block_).first->second;
}

void Warpgroup::begin_reads(Instruction& instruction, bool a_in_registers) {
  const WgmmaShape& shape = instruction.shape;
  const int bytes = element_bytes(shape.format), depth = mma_k(shape.format);
  SharedWindow& window = block_.sm90().window;
  const auto begin = [&](uint64_t bits, bool is_mn_major, int size) {
    const MatrixDescriptor tile(bits, is_mn_major, bytes);
    if (const char* const error = tile.error()) {
      fail(block_, "misaligned", error, instruction.site);
    }
    const ByteRange range = tile.range(size, depth);
    instruction.reads.emplace_back(window.begin_read(range, "a wgmma", instruction.site), range);
    if (Observer* const observer = block_.observer()) {
      observer->wgmma_read_begins(range.begin, range.end);
    }
  };
  if (!a_in_registers) begin(instruction.a, shape.a_is_mn_major, WGMMA_M);
  begin(instruction.b, shape.b_is_mn_major, shape.n);
}

/// Its reads of shared memory, the operands' bytes, are spread over the threads. It reads matrices
/// of 8 rows of 16 bytes, whose rows every layout of a descriptor puts into different banks: each
/// is one pass. (A chain of wgmmas on an H200 takes max(n / 2, these passes) cycles:
/// bench/NOTES.md.)
void Warpgroup::observe(const Instruction& instruction, bool a_in_registers) {
  Observer* const observer = block_.observer();
  if (!observer) return;
  constexpr int ROW_BYTES = 32;  // of K in one instruction
  constexpr unsigned PASS_BYTES = 128;
  const WgmmaShape& shape = instruction.shape;
  const int k = mma_k(shape.format);
  const int bytes = ((a_in_registers ? 0 : WGMMA_M) + shape.n) * ROW_BYTES;
  const MatrixDescriptor b(instruction.b, shape.b_is_mn_major, element_bytes(shape.format));
  observer->bulk_access({.action = Action::wgmma,
                         .address = block_.sm90().window.at(b.start),
                         .lanes = THREADS,
                         .bytes_a_lane = static_cast<unsigned>(bytes) / THREADS,
                         .bytes = static_cast<uint64_t>(bytes),
                         .wavefronts = static_cast<unsigned>(bytes) / PASS_BYTES,
                         .tensor_flop = flop_of(WGMMA_M, shape.n, k),
                         .tensor_cycles = full_rate_cycles(shape.format, WGMMA_M, shape.n, k)},
                        instruction.site);
}

Warpgroup::Shadow& Warpgroup::shadow(ThreadState& thread, float* registers,
                                     const Instruction& instruction) {
  const auto found = std::find_if(thread.shadows.begin(), thread.shadows.end(),
                                  [&](const Shadow& each) { return each.registers == registers; });
  if (found != thread.shadows.end()) return *found;
  if (!thread.fenced) {
    fail(block_, "missing fence",
         "wgmma uses accumulators that the thread may access, without wgmma.fence between them",
         instruction.site);
  }
  const int count = instruction.shape.accumulators();
  thread.shadows.push_back({registers, {registers, registers + count}, 0});
  std::fill_n(registers, count, std::bit_cast<float>(POISON));
  return thread.shadows.back();
}

void Warpgroup::issue(const WgmmaShape& shape, float* accum, const uint32_t* a_registers,
                      uint64_t a, uint64_t b, bool accumulate, Site site) {
  ThreadState& self = thread();
  const uint64_t index = self.issued++;
  if (index == first_ + instructions_.size()) {
    instructions_.push_back({shape, a, b, accumulate, site});
    begin_reads(instructions_.back(), a_registers != nullptr);
    observe(instructions_.back(), a_registers != nullptr);
  }
  Instruction& own = instruction(index);
  if (own.shape != shape || own.a != a || own.b != b || own.accumulate != accumulate) {
    fail(block_, "wgmma", "the threads of a warpgroup give different arguments", site);
  }
  if (a_registers && !self.fenced) {
    fail(block_, "missing fence",
         "wgmma reads registers that the thread has written, without wgmma.fence between them",
         site);
  }
  self.reads_a_registers |= a_registers != nullptr;
  const unsigned number = current_thread->linear % THREADS;
  own.accum[number] = accum;
  own.a_registers[number] = a_registers;
  shadow(self, accum, own).last_instruction = index;
  current_thread->operations.fma +=
      static_cast<uint64_t>(shape.accumulators()) * static_cast<uint64_t>(mma_k(shape.format));
}

void Warpgroup::commit(Site site) {
  ThreadState& self = thread();
  const uint64_t index = self.committed_groups++;
  // The next group has other registers of A.
  self.fenced = self.fenced && !self.reads_a_registers;
  self.reads_a_registers = false;
  if (index == groups_.size()) groups_.push_back({self.issued});
  Group& group = groups_[index];
  if (group.end != self.issued) {
    fail(block_, "wgmma", "the threads of a warpgroup commit different groups", site);
  }
  if (++group.threads < THREADS) return;
  ++block_.ring().progress;
  for (unsigned warp = 0; warp < WARPS; ++warp) {
    block_.cluster().async().issue([this, warp, end = group.end] { execute(warp, end); });
  }
}

void Warpgroup::wait(size_t groups_left, Site site) {
  const uint64_t committed = thread().committed_groups;
  if (committed <= groups_left) return;
  const uint64_t last = committed - groups_left - 1;
  // The instruction is one of the whole warp (.sync.aligned): lanes meet here.
  const unsigned warp = current_thread->linear % THREADS / WARP_SIZE;
  const uint64_t lanes = ++thread().waits * WARP_SIZE;
  ++waits_[warp];
  ++block_.ring().progress;
  block_.wait_until([&] { return waits_[warp] >= lanes && groups_[last].threads == THREADS; },
                    "wgmma.wait_group", site);
  execute(warp, groups_[last].end);
  finish(warp, groups_[last].end);
  give_back_registers(groups_[last].end, site);
}

void Warpgroup::execute(unsigned warp, uint64_t end) {
  for (uint64_t& next = executed_[warp]; next < end; ++next) execute(warp, instruction(next));
}

void Warpgroup::execute(unsigned warp, const Instruction& own) {
  const WgmmaShape& shape = own.shape;
  const int bytes = element_bytes(shape.format), depth = mma_k(shape.format);
  const unsigned first_lane = warp * WARP_SIZE;
  const SharedWindow& window = block_.sm90().window;
  static thread_local uint32_t a[FRAGMENT_ROWS * MOST_K], b[MOST_K * MOST_COLS];
  static thread_local float accum[FRAGMENT_ROWS * MOST_COLS];
  const MatrixDescriptor a_tile(own.a, shape.a_is_mn_major, bytes);
  const MatrixDescriptor b_tile(own.b, shape.b_is_mn_major, bytes);
  for (int k = 0; k < depth; ++k) {
    for (int n = 0; n < shape.n; ++n) {
      b[k * MOST_COLS + n] = element_at(window, b_tile.address(n, k), bytes);
    }
    for (int row = 0; row < FRAGMENT_ROWS && !own.a_registers[first_lane]; ++row) {
      const int m = static_cast<int>(warp) * FRAGMENT_ROWS + row;
      a[row * depth + k] = element_at(window, a_tile.address(m, k), bytes);
    }
  }
  Shadow* shadows[WARP_SIZE];
  for (unsigned lane = 0; lane < WARP_SIZE; ++lane) {
    const unsigned number = first_lane + lane;
    if (own.a_registers[number]) gather_a(shape.format, lane, own.a_registers[number], a);
    shadows[lane] = &shadow(threads_[number], own.accum[number], own);
    for (int i = 0; i < shape.accumulators(); ++i) {
      const Position at = position_of_accumulator(lane, i);
      accum[at.row * MOST_COLS + at.col] = shadows[lane]->values[i];
    }
  }
  multiply_add(shape.format, FRAGMENT_ROWS, shape.n, a, b, accum, own.accumulate);
  for (unsigned lane = 0; lane < WARP_SIZE; ++lane) {
    for (int i = 0; i < shape.accumulators(); ++i) {
      const Position at = position_of_accumulator(lane, i);
      shadows[lane]->values[i] = accum[at.row * MOST_COLS + at.col];
    }
  }
}

/// The warp has waited: as far as it is concerned, the operands are not read any more.
void Warpgroup::finish(unsigned warp, uint64_t end) {
  for (uint64_t& next = finished_[warp]; next < end; ++next) {
    Instruction& own = instruction(next);
    if (++own.warps_finished < WARPS) continue;
    for (const auto& [read, range] : own.reads) {
      block_.sm90().window.end(read);
      if (Observer* const observer = block_.observer()) {
        observer->wgmma_read_ends(range.begin, range.end);
      }
    }
  }
  while (!instructions_.empty() && instructions_.front().warps_finished == WARPS) {
    instructions_.pop_front();
    ++first_;
  }
}

void Warpgroup::give_back_registers(uint64_t end, Site site) {
  ThreadState& self = thread();
  for (const Shadow& each : self.shadows) {
    if (each.last_instruction >= end) continue;
    const bool is_untouched =
        std::all_of(each.registers, each.registers + each.values.size(),
                    [](const float& one) { return std::bit_cast<uint32_t>(one) == POISON; });
    if (!is_untouched) {
      fail(block_, "overwrites what is in use", "a thread writes accumulators before the wait",
           site);
    }
    std::copy(each.values.begin(), each.values.end(), each.registers);
    self.fenced = false;
  }
  std::erase_if(self.shadows, [&](const Shadow& each) { return each.last_instruction < end; });
}

}  // namespace smem::cpu_emulator::sm90
