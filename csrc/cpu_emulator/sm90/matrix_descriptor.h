// The shared memory matrix descriptor of wgmma. PTX ISA, "Shared Memory Matrix Layout" and "Matrix
// Descriptor Format" of wgmma.
#pragma once

#include <cstdint>
#include <utility>

#include "cpu_emulator/sm90/shared_window.h"
#include "cpu_emulator/sm90/tma.h"

namespace smem::cpu_emulator::sm90 {

/// A tile of rows of `width` bytes, 32, 64 or 128, within which 16-byte vectors are swizzled; or of
/// 16 bytes, without a swizzle. K-major: a row has consecutive k of one m or n. MN-major: it has
/// consecutive m or n of one k. Eight rows lie together. `along` bytes lie between such eights that
/// continue the rows, `across` bytes between those of the rows that follow. (The canonical layouts
/// of CUTLASS's cute/arch/mma_sm90_desc.hpp.)
struct MatrixDescriptor {
  static constexpr uint32_t ROWS = 8;

  uint32_t start, width, along, across;
  int swizzle_log2;
  unsigned base_offset;
  bool is_mn_major;
  int element_bytes;

  MatrixDescriptor(uint64_t bits, bool is_mn_major, int element_bytes)
      : start(field(bits, 0) * 16),
        along(field(bits, 16) * 16),
        across(field(bits, 32) * 16),
        base_offset(static_cast<unsigned>(bits >> 49 & 7)),
        is_mn_major(is_mn_major),
        element_bytes(element_bytes) {
    const auto layout = static_cast<int>(bits >> 62);
    swizzle_log2 = layout == 0 ? 0 : 4 - layout;
    width = 16u << swizzle_log2;
    // Without a swizzle, the fields' names are those of the dimensions of the K-major tile.
    if (layout == 0 && is_mn_major) std::swap(along, across);
  }

  /// What is wrong with it, or null.
  const char* error() const {
    if (base_offset != 0) return "a matrix descriptor with a base offset";
    // A K-major tile may begin within a row; otherwise tiles begin with an atom of the swizzle.
    if (swizzle_log2 > 0 && start % (width * ROWS) >= (is_mn_major ? 16 : width)) {
      return "a matrix descriptor whose address is not that of a swizzle atom";
    }
    if (is_mn_major && element_bytes != 2) return "an MN-major matrix of 4-byte elements";
    return nullptr;
  }

  uint32_t address(int mn, int k) const {
    const auto row = static_cast<uint32_t>(is_mn_major ? k : mn);
    const auto byte = static_cast<uint32_t>((is_mn_major ? mn : k) * element_bytes);
    const uint32_t linear =
        start + byte / width * along + byte % width + row / ROWS * across + row % ROWS * width;
    return swizzled(linear, swizzle_log2);
  }

  /// The rows of a tile of `size` along m or n and `depth` along k.
  ByteRange range(int size, int depth) const {
    const auto rows = static_cast<uint32_t>(is_mn_major ? depth : size);
    const auto row_bytes = static_cast<uint32_t>((is_mn_major ? size : depth) * element_bytes);
    const uint32_t begin = start / width * width;
    return {begin, begin + (row_bytes - 1) / width * along + (rows - 1) / ROWS * across +
                       ((rows - 1) % ROWS + 1) * width};
  }

 private:
  static uint32_t field(uint64_t bits, int first) {
    return static_cast<uint32_t>(bits >> first & 0x3fff);
  }
};

}  // namespace smem::cpu_emulator::sm90
