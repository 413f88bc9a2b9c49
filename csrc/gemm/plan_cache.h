// What a thread has made for the problems that it has met, as models call the same few again and
// again: a plan takes some microseconds to make.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

namespace smem::gemm {

/// All that a plan depends on, as numbers: MOST of them or fewer.
template <size_t MOST>
class Key {
 public:
  void push(int64_t number) { numbers_[count_++] = number; }
  /// How a pointer lies beside multiples of 16 bytes.
  void push_alignment(const void* data) {
    push(static_cast<int64_t>(reinterpret_cast<uintptr_t>(data) % 16));
  }

  bool operator==(const Key& other) const = default;

  uint64_t hash() const {
    uint64_t hash = 0;
    for (size_t i = 0; i < count_; ++i) {
      hash = (hash ^ static_cast<uint64_t>(numbers_[i])) * 0x9e3779b97f4a7c15;
      hash ^= hash >> 29;
    }
    return hash;
  }

 private:
  std::array<int64_t, MOST> numbers_{};
  size_t count_ = 0;
};

/// make() of the first call with this key by this thread, for as long as no other key of the same
/// hash comes.
template <typename Key, typename Make>
const auto& remembered(const Key& key, const Make& make) {
  struct Entry {
    Key key;
    decltype(make()) made;
  };
  constexpr size_t PLACES = 256;
  thread_local std::array<std::optional<Entry>, PLACES> entries;
  std::optional<Entry>& entry = entries[key.hash() % PLACES];
  if (!entry || entry->key != key) entry.emplace(Entry{key, make()});
  return entry->made;
}

}  // namespace smem::gemm
