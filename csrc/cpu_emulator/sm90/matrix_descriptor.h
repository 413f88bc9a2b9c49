// The shared memory matrix descriptor of wgmma. PTX ISA, "Shared Memory Matrix Layout" and "Matrix
// Descriptor Format" of wgmma.
#pragma once

#include <cstdint>

#include "cpu_emulator/sm90/shared_window.h"
#include "cpu_emulator/sm90/tma.h"

namespace smem::cpu_emulator::sm90 {

/// A tile with 128-byte swizzle. K-major: a row has 128 bytes of k of one m or n. MN-major: it has
/// 64 elements (of 2 bytes) along m or n, of one k, and `leading` bytes lie between such panels.
/// `stride` bytes lie between groups of eight rows.
struct MatrixDescriptor {
  static constexpr uint32_t ROW = 128, ROWS = 8, ATOM = ROW * ROWS;
  static constexpr int SWIZZLE_LOG2 = 3;

  uint32_t start, leading, stride;
  unsigned layout, base_offset;
  bool is_mn_major;
  int element_bytes;

  MatrixDescriptor(uint64_t bits, bool is_mn_major, int element_bytes)
      : start(field(bits, 0) * 16),
        leading(field(bits, 16) * 16),
        stride(field(bits, 32) * 16),
        layout(static_cast<unsigned>(bits >> 62)),
        base_offset(static_cast<unsigned>(bits >> 49 & 7)),
        is_mn_major(is_mn_major),
        element_bytes(element_bytes) {}

  /// What is wrong with it, or null.
  const char* error() const {
    if (layout != 1) return "a matrix descriptor without 128-byte swizzle";
    if (base_offset != 0) return "a matrix descriptor with a base offset";
    // A K-major tile may begin within a row; otherwise tiles begin with an atom of the swizzle.
    if (start % ATOM >= (is_mn_major ? 16 : ROW)) {
      return "a matrix descriptor whose address is not that of a swizzle atom";
    }
    if (is_mn_major && element_bytes != 2) return "an MN-major matrix of 4-byte elements";
    return nullptr;
  }

  uint32_t address(int mn, int k) const {
    const auto row = static_cast<uint32_t>(is_mn_major ? k : mn);
    const auto byte = static_cast<uint32_t>((is_mn_major ? mn : k) * element_bytes);
    const uint32_t linear =
        start + byte / ROW * leading + byte % ROW + row / ROWS * stride + row % ROWS * ROW;
    return swizzled(linear, SWIZZLE_LOG2);
  }

  /// The rows of a tile of `size` along m or n and `depth` along k.
  ByteRange range(int size, int depth) const {
    const auto rows = static_cast<uint32_t>(is_mn_major ? depth : size);
    const auto panels =
        is_mn_major ? (static_cast<uint32_t>(size * element_bytes) + ROW - 1) / ROW : 1;
    const uint32_t begin = start / ROW * ROW;
    return {begin, begin + (panels - 1) * leading + (rows - 1) / ROWS * stride +
                       ((rows - 1) % ROWS + 1) * ROW};
  }

 private:
  static uint32_t field(uint64_t bits, int first) {
    return static_cast<uint32_t>(bits >> first & 0x3fff);
  }
};

}  // namespace smem::cpu_emulator::sm90
