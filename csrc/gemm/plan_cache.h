// A per-thread cache of plans. Models call the same few problems repeatedly, and making a plan
// takes a few microseconds.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <optional>

#include "gemm/gemm.h"

namespace smem::gemm {

/// Everything that a plan depends on, as at most CAPACITY numbers.
template <size_t CAPACITY>
class PlanKey {
 public:
  void push(int64_t number) { numbers_[count_++] = number; }
  /// The pointer's offset from a multiple of 16 bytes.
  void push_alignment(const void* data) {
    push(static_cast<int64_t>(reinterpret_cast<uintptr_t>(data) % 16));
  }
  /// The strides of an operand, and its alignment.
  void push(const Operand& operand) {
    push(operand.row_stride);
    push(operand.col_stride);
    push_alignment(operand.data);
  }
  /// The sizes of the batch, and the strides of these tensors along it.
  void push(const OffsetCalculator<TENSORS>& batch, std::initializer_list<Tensor> tensors) {
    for (int d = 0; d < batch.rank; ++d) {
      push(batch.size[d]);
      for (const Tensor tensor : tensors) push(batch.stride[tensor][d]);
    }
  }

  bool operator==(const PlanKey& other) const = default;

  uint64_t hash() const {
    uint64_t hash = 0;
    for (size_t i = 0; i < count_; ++i) {
      hash = (hash ^ static_cast<uint64_t>(numbers_[i])) * 0x9e3779b97f4a7c15;
      hash ^= hash >> 29;
    }
    return hash;
  }

 private:
  std::array<int64_t, CAPACITY> numbers_{};
  size_t count_ = 0;
};

/// The result of make() for this key. The calling thread keeps it until another key maps to the
/// same cache entry.
template <typename Key, typename Make>
const auto& cached(const Key& key, const Make& make) {
  struct Entry {
    Key key;
    decltype(make()) value;
  };
  constexpr size_t ENTRIES = 256;
  thread_local std::array<std::optional<Entry>, ENTRIES> entries;
  std::optional<Entry>& entry = entries[key.hash() % ENTRIES];
  if (!entry || entry->key != key) entry.emplace(Entry{key, make()});
  return entry->value;
}

}  // namespace smem::gemm
