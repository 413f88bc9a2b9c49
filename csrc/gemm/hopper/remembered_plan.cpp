// Plans of the problems that a thread has met, as models call the same few again and again.
#include <array>
#include <cstdint>
#include <optional>

#include "gemm/hopper/plan.h"

namespace smem::gemm::hopper {
namespace {

/// All that a plan depends on.
class Key {
 public:
  Key(const Problem& p, const Device& device) {
    for (const int64_t number : {p.M, p.N, p.K, int64_t{p.variant}, int64_t{device.multiprocessors},
                                 int64_t{device.capability}}) {
      push(number);
    }
    for (const Operand* operand : {&p.a, &p.b, &p.out}) {
      push(operand->row_stride);
      push(operand->col_stride);
      push(address(operand->data));
    }
    const bool adds = p.c.data;
    push(static_cast<int64_t>(p.out_dtype == p.dtype) | adds << 1 |
         static_cast<int64_t>(p.activation) << 2);
    push(p.pre ? 16 + address(p.pre) : 0);
    for (int d = 0; d < p.batch.rank; ++d) {
      push(p.batch.size[d]);
      for (const Tensor tensor : {A, B, OUT}) push(p.batch.stride[tensor][d]);
    }
  }

  bool operator==(const Key& other) const = default;

  uint64_t hash() const {
    uint64_t hash = 0;
    for (int i = 0; i < count_; ++i) {
      hash = (hash ^ static_cast<uint64_t>(numbers_[i])) * 0x9e3779b97f4a7c15;
      hash ^= hash >> 29;
    }
    return hash;
  }

 private:
  std::array<int64_t, 17 + 4 * MAX_RANK> numbers_{};
  int count_ = 0;

  void push(int64_t number) { numbers_[count_++] = number; }
  static int64_t address(const void* data) { return reinterpret_cast<uintptr_t>(data) % 16; }
};

struct Entry {
  Key key;
  Plan plan;
};

}  // namespace

const Plan& remembered_plan(const Problem& problem, const Device& device) {
  constexpr size_t PLACES = 256;  // a new problem takes the place of the one with its hash
  thread_local std::array<std::optional<Entry>, PLACES> entries;
  const Key key(problem, device);
  std::optional<Entry>& entry = entries[key.hash() % PLACES];
  if (!entry || entry->key != key) entry.emplace(Entry{key, plan(problem, device)});
  return entry->plan;
}

}  // namespace smem::gemm::hopper
