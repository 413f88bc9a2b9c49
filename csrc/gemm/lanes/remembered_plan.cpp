// Plans of the problems that a thread has met: one takes up to 5 us to make, and each call asks for
// it twice, for its workspace and for its launch.
#include <array>
#include <cstdint>

#include "gemm/lanes/plan.h"

namespace smem::gemm::lanes {
namespace {

/// All that a plan depends on.
struct Key {
  std::array<int64_t, 14 + 3 * MAX_RANK> numbers{};

  Key() = default;
  Key(const Problem& p, const Device& device) {
    int count = 0;
    const auto push = [&](int64_t number) { numbers[count++] = number; };
    for (const int64_t number :
         {p.M, p.N, p.K, int64_t{p.variant}, static_cast<int64_t>(p.dtype),
          int64_t{device.multiprocessors}, static_cast<int64_t>(device.shared_bytes)}) {
      push(number);
    }
    for (const Operand* operand : {&p.a, &p.b}) {
      push(operand->row_stride);
      push(operand->col_stride);
      push(static_cast<int64_t>(reinterpret_cast<uintptr_t>(operand->data) % 16));
    }
    push(p.c.data != nullptr);
    for (int d = 0; d < p.batch.rank; ++d) {
      push(p.batch.size[d]);
      push(p.batch.stride[Tensor::A][d]);
      push(p.batch.stride[Tensor::B][d]);
    }
  }

  bool operator==(const Key& other) const = default;

  uint64_t hash() const {
    uint64_t hash = 0;
    for (const int64_t number : numbers) {
      hash = (hash ^ static_cast<uint64_t>(number)) * 0x9e3779b97f4a7c15;
      hash ^= hash >> 29;
    }
    return hash;
  }
};

struct Entry {
  Key key;  ///< at first that of no problem: a GPU has multiprocessors
  Plan plan;
};

}  // namespace

Plan remembered_plan(const Problem& problem, const Device& device) {
  constexpr size_t PLACES = 256;  // a new problem takes the place of the one with its hash
  thread_local std::array<Entry, PLACES> entries;
  const Key key(problem, device);
  Entry& entry = entries[key.hash() % PLACES];
  if (entry.key != key) entry = {key, plan(problem, device)};
  return entry.plan;
}

}  // namespace smem::gemm::lanes
