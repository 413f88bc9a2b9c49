// wgmma: a warpgroup multiplies two tiles in shared memory and adds the product to accumulators in
// registers. PTX ISA, "Asynchronous Warpgroup Level Matrix Instructions". sm_90a.
//
// The tiles have the layout that TMA writes with 128-byte swizzle: rows of 128 bytes, whose
// vector v (16 bytes) is stored at position v ^ (row % 8). Eight rows are a swizzle atom of 1 KiB:
//
//   position     0    1    2    3    4    5    6    7     (16 bytes each)
//   row 0        0    1    2    3    4    5    6    7
//   row 1        1    0    3    2    5    4    7    6
//   row 2        2    3    0    1    6    7    4    5
//    ...
//   row 7        7    6    5    4    3    2    1    0
//
// Rows of an MN-major tile may also have 64 bytes, for 32 m or n. By 64-byte swizzle vector v of
// row r is at position v ^ (r / 2 % 4), and an atom has 512 bytes.
#pragma once

#include "device/major.h"
#include "device/mbarrier.h"
#include "device/numeric_types.h"

namespace smem::inline SMEM_BUILD {

/// The shared memory matrix descriptor of wgmma has two 32-bit words. The low word holds the tile's
/// address in units of 16 bytes; adding to it moves the tile. K-major (2-byte elements): a row of
/// 128 bytes is 64 consecutive k of one m or n. MN-major: it is 64 consecutive m or n of one k, and
/// the panels of 64 follow each other without gaps.
constexpr uint32_t ATOM_ROWS = 8, PANEL_BYTES = 64 * 128;

constexpr uint32_t descriptor_units(uint32_t bytes) { return bytes >> 4; }

__device__ __forceinline__ uint32_t descriptor_at(uint32_t shared_address) {
  constexpr uint32_t BLOCK_MASK = (1 << 18) - 1;  // the bits above: the block's rank in its cluster
  return descriptor_units(PANEL_BYTES) << 16 | descriptor_units(shared_address & BLOCK_MASK);
}
/// Both words; `low` is that of descriptor_at, possibly advanced.
template <int ROW_BYTES = 128>
__device__ __forceinline__ uint64_t tile_descriptor(uint32_t low) {
  static_assert(ROW_BYTES == 128 || ROW_BYTES == 64, "a row is as wide as a swizzle");
  constexpr uint32_t SWIZZLE = (ROW_BYTES == 128 ? 1u : 2u) << 30;
  constexpr uint32_t HIGH = SWIZZLE | descriptor_units(ATOM_ROWS * ROW_BYTES);
  return uint64_t{HIGH} << 32 | low;
}

/// Added to the low word, it advances the tile by 16 along K (by 8 for floats).
template <Major MAJOR, int ROW_BYTES = 128>
constexpr uint32_t K16_STEP = descriptor_units(MAJOR == Major::K ? 32 : 16 * ROW_BYTES);

}  // namespace smem::inline SMEM_BUILD

#ifndef __CUDACC__
#include "cpu_emulator/device/wgmma.h"
#else

namespace smem::inline SMEM_BUILD {

/// PTX redux.sync.or, for a value that all lanes have: the result is in a uniform register, from
/// which wgmma takes descriptors. Otherwise the compiler moves four words to uniform registers for
/// every wgmma, and narrow tiles ran at a third of their speed.
__device__ __forceinline__ uint32_t warp_uniform(uint32_t value) {
  uint32_t result;
  asm("redux.sync.or.b32 %0, %1, 0xffffffff;" : "=r"(result) : "r"(value));
  return result;
}

/// PTX wgmma.fence; cute::warpgroup_arrive. Orders the warpgroup's earlier accesses to the
/// accumulators before the wgmmas that follow.
__device__ __forceinline__ void warpgroup_arrive() {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
/// PTX wgmma.commit_group; cute::warpgroup_commit_batch.
__device__ __forceinline__ void warpgroup_commit_batch() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
/// PTX wgmma.wait_group; cute::warpgroup_wait. Waits until at most the MAX_PENDING newest groups of
/// wgmmas are pending.
template <int MAX_PENDING>
__device__ __forceinline__ void warpgroup_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(MAX_PENDING) : "memory");
}

/// cute::warpgroup_fence_operand; no instruction. The compiler does not know that wgmma writes
/// registers asynchronously: it must not move reads of `registers` before this call, nor writes
/// behind it.
template <typename Register, int COUNT>
__device__ __forceinline__ void warpgroup_fence_operand(Register (&registers)[COUNT]) {
#pragma unroll
  for (Register& one : registers) {
    if constexpr (std::is_same_v<Register, float>) {
      asm volatile("" : "+f"(one)::"memory");
    } else {
      asm volatile("" : "+r"(one)::"memory");
    }
  }
}

// The instruction's register lists: each accumulator is an operand of its own.
// clang-format off
#define SMEM_REGISTERS_0 "%0,%1,%2,%3,%4,%5,%6,%7"
#define SMEM_REGISTERS_1 "%8,%9,%10,%11,%12,%13,%14,%15"
#define SMEM_REGISTERS_2 "%16,%17,%18,%19,%20,%21,%22,%23"
#define SMEM_REGISTERS_3 "%24,%25,%26,%27,%28,%29,%30,%31"
#define SMEM_REGISTERS_4 "%32,%33,%34,%35,%36,%37,%38,%39"
#define SMEM_REGISTERS_5 "%40,%41,%42,%43,%44,%45,%46,%47"
#define SMEM_REGISTERS_6 "%48,%49,%50,%51,%52,%53,%54,%55"
#define SMEM_REGISTERS_7 "%56,%57,%58,%59,%60,%61,%62,%63"
#define SMEM_REGISTERS_8 "%64,%65,%66,%67,%68,%69,%70,%71"
#define SMEM_REGISTERS_9 "%72,%73,%74,%75,%76,%77,%78,%79"
#define SMEM_REGISTERS_10 "%80,%81,%82,%83,%84,%85,%86,%87"
#define SMEM_REGISTERS_11 "%88,%89,%90,%91,%92,%93,%94,%95"
#define SMEM_REGISTERS_12 "%96,%97,%98,%99,%100,%101,%102,%103"
#define SMEM_REGISTERS_13 "%104,%105,%106,%107,%108,%109,%110,%111"
#define SMEM_REGISTERS_14 "%112,%113,%114,%115,%116,%117,%118,%119"
#define SMEM_REGISTERS_15 "%120,%121,%122,%123,%124,%125,%126,%127"
#define SMEM_OPERANDS(d, i) \
  "+f"(d[i]), "+f"(d[i+1]), "+f"(d[i+2]), "+f"(d[i+3]), "+f"(d[i+4]), "+f"(d[i+5]), "+f"(d[i+6]), "+f"(d[i+7])
#define SMEM_REGISTERS_N16 SMEM_REGISTERS_0
#define SMEM_REGISTERS_N32 SMEM_REGISTERS_N16 "," SMEM_REGISTERS_1
#define SMEM_REGISTERS_N48 SMEM_REGISTERS_N32 "," SMEM_REGISTERS_2
#define SMEM_REGISTERS_N64 SMEM_REGISTERS_N48 "," SMEM_REGISTERS_3
#define SMEM_REGISTERS_N80 SMEM_REGISTERS_N64 "," SMEM_REGISTERS_4
#define SMEM_REGISTERS_N96 SMEM_REGISTERS_N80 "," SMEM_REGISTERS_5
#define SMEM_REGISTERS_N112 SMEM_REGISTERS_N96 "," SMEM_REGISTERS_6
#define SMEM_REGISTERS_N128 SMEM_REGISTERS_N112 "," SMEM_REGISTERS_7
#define SMEM_REGISTERS_N144 SMEM_REGISTERS_N128 "," SMEM_REGISTERS_8
#define SMEM_REGISTERS_N160 SMEM_REGISTERS_N144 "," SMEM_REGISTERS_9
#define SMEM_REGISTERS_N176 SMEM_REGISTERS_N160 "," SMEM_REGISTERS_10
#define SMEM_REGISTERS_N192 SMEM_REGISTERS_N176 "," SMEM_REGISTERS_11
#define SMEM_REGISTERS_N208 SMEM_REGISTERS_N192 "," SMEM_REGISTERS_12
#define SMEM_REGISTERS_N224 SMEM_REGISTERS_N208 "," SMEM_REGISTERS_13
#define SMEM_REGISTERS_N240 SMEM_REGISTERS_N224 "," SMEM_REGISTERS_14
#define SMEM_REGISTERS_N256 SMEM_REGISTERS_N240 "," SMEM_REGISTERS_15
#define SMEM_OPERANDS_N16(d) SMEM_OPERANDS(d, 0)
#define SMEM_OPERANDS_N32(d) SMEM_OPERANDS_N16(d), SMEM_OPERANDS(d, 8)
#define SMEM_OPERANDS_N48(d) SMEM_OPERANDS_N32(d), SMEM_OPERANDS(d, 16)
#define SMEM_OPERANDS_N64(d) SMEM_OPERANDS_N48(d), SMEM_OPERANDS(d, 24)
#define SMEM_OPERANDS_N80(d) SMEM_OPERANDS_N64(d), SMEM_OPERANDS(d, 32)
#define SMEM_OPERANDS_N96(d) SMEM_OPERANDS_N80(d), SMEM_OPERANDS(d, 40)
#define SMEM_OPERANDS_N112(d) SMEM_OPERANDS_N96(d), SMEM_OPERANDS(d, 48)
#define SMEM_OPERANDS_N128(d) SMEM_OPERANDS_N112(d), SMEM_OPERANDS(d, 56)
#define SMEM_OPERANDS_N144(d) SMEM_OPERANDS_N128(d), SMEM_OPERANDS(d, 64)
#define SMEM_OPERANDS_N160(d) SMEM_OPERANDS_N144(d), SMEM_OPERANDS(d, 72)
#define SMEM_OPERANDS_N176(d) SMEM_OPERANDS_N160(d), SMEM_OPERANDS(d, 80)
#define SMEM_OPERANDS_N192(d) SMEM_OPERANDS_N176(d), SMEM_OPERANDS(d, 88)
#define SMEM_OPERANDS_N208(d) SMEM_OPERANDS_N192(d), SMEM_OPERANDS(d, 96)
#define SMEM_OPERANDS_N224(d) SMEM_OPERANDS_N208(d), SMEM_OPERANDS(d, 104)
#define SMEM_OPERANDS_N240(d) SMEM_OPERANDS_N224(d), SMEM_OPERANDS(d, 112)
#define SMEM_OPERANDS_N256(d) SMEM_OPERANDS_N240(d), SMEM_OPERANDS(d, 120)
// clang-format on

#define SMEM_WGMMA(N, KIND, A, B, ACCUMULATE, TRANSPOSES, ...)             \
  asm volatile(                                                            \
      "{\n"                                                                \
      ".reg .pred accumulate;\n"                                           \
      "setp.ne.b32 accumulate, " ACCUMULATE                                \
      ", 0;\n"                                                             \
      "wgmma.mma_async.sync.aligned.m64n" #N KIND " {" SMEM_REGISTERS_N##N \
      "}, " A ", " B ", accumulate, 1, 1" TRANSPOSES                       \
      ";\n"                                                                \
      "}"                                                                  \
      : SMEM_OPERANDS_N##N(d)                                              \
      : __VA_ARGS__)

/// PTX wgmma.mma_async, both operands in shared memory: d += A (64 x 16) @ B (16 x N), or d = A @ B
/// if `accumulate` is 0. K is 8 for floats, which are multiplied as tf32. Lane l of warp w has, in
/// d[4j] and d[4j + 1], row 16w + l / 4 and columns 8j + 2 (l % 4) and the next; in d[4j + 2] and
/// d[4j + 3], the same columns of the row eight below. The first N / 2 elements of d are used.
template <typename T, Major A_MAJOR_, Major B_MAJOR_, int N, int COUNT>
__device__ __forceinline__ void wgmma(float (&d)[COUNT], uint64_t a, uint64_t b, int accumulate) {
  static_assert(N % 16 == 0 && N <= 256 && N / 2 <= COUNT, "a value of N listed here");
  constexpr int A_MAJOR = A_MAJOR_ == Major::MN, B_MAJOR = B_MAJOR_ == Major::MN;
  static_assert(!std::is_same_v<T, float> || (!A_MAJOR && !B_MAJOR),
                "tf32 operands must be K-major");
#define SMEM_WGMMA_OF_WIDTH(WIDTH, A, B, ACCUMULATE, TRANSPOSE_A, TRANSPOSE_B)                    \
  if constexpr (N == WIDTH && std::is_same_v<T, half>) {                                          \
    SMEM_WGMMA(WIDTH, "k16.f32.f16.f16", A, B, ACCUMULATE, ", " TRANSPOSE_A ", " TRANSPOSE_B,     \
               "l"(a), "l"(b), "r"(accumulate), "n"(A_MAJOR), "n"(B_MAJOR));                      \
  } else if constexpr (N == WIDTH && std::is_same_v<T, bfloat16>) {                               \
    SMEM_WGMMA(WIDTH, "k16.f32.bf16.bf16", A, B, ACCUMULATE, ", " TRANSPOSE_A ", " TRANSPOSE_B,   \
               "l"(a), "l"(b), "r"(accumulate), "n"(A_MAJOR), "n"(B_MAJOR));                      \
  } else if constexpr (N == WIDTH && std::is_same_v<T, float>) {                                  \
    SMEM_WGMMA(WIDTH, "k8.f32.tf32.tf32", A, B, ACCUMULATE, "", "l"(a), "l"(b), "r"(accumulate)); \
  }
  SMEM_WGMMA_OF_WIDTH(16, "%8", "%9", "%10", "%11", "%12")
  SMEM_WGMMA_OF_WIDTH(32, "%16", "%17", "%18", "%19", "%20")
  SMEM_WGMMA_OF_WIDTH(48, "%24", "%25", "%26", "%27", "%28")
  SMEM_WGMMA_OF_WIDTH(64, "%32", "%33", "%34", "%35", "%36")
  SMEM_WGMMA_OF_WIDTH(80, "%40", "%41", "%42", "%43", "%44")
  SMEM_WGMMA_OF_WIDTH(96, "%48", "%49", "%50", "%51", "%52")
  SMEM_WGMMA_OF_WIDTH(112, "%56", "%57", "%58", "%59", "%60")
  SMEM_WGMMA_OF_WIDTH(128, "%64", "%65", "%66", "%67", "%68")
  SMEM_WGMMA_OF_WIDTH(144, "%72", "%73", "%74", "%75", "%76")
  SMEM_WGMMA_OF_WIDTH(160, "%80", "%81", "%82", "%83", "%84")
  SMEM_WGMMA_OF_WIDTH(176, "%88", "%89", "%90", "%91", "%92")
  SMEM_WGMMA_OF_WIDTH(192, "%96", "%97", "%98", "%99", "%100")
  SMEM_WGMMA_OF_WIDTH(208, "%104", "%105", "%106", "%107", "%108")
  SMEM_WGMMA_OF_WIDTH(224, "%112", "%113", "%114", "%115", "%116")
  SMEM_WGMMA_OF_WIDTH(240, "%120", "%121", "%122", "%123", "%124")
  SMEM_WGMMA_OF_WIDTH(256, "%128", "%129", "%130", "%131", "%132")
#undef SMEM_WGMMA_OF_WIDTH
}

/// PTX wgmma.mma_async with A in registers. Lane l of warp w has 4 bytes of row 16w + l / 4, and of
/// the row eight below, in a[0] and a[1]: floats (as tf32) of k = l % 4, or halves of k = 2 (l % 4)
/// and the next. In a[2] and a[3] it has those of k half of the instruction's depth further. The
/// registers of `a` must not change until warpgroup_wait has returned.
template <typename T, int N>
__device__ __forceinline__ void wgmma_rs(float (&d)[N / 2], const uint32_t (&a)[4], uint64_t b,
                                         int accumulate) {
#define SMEM_WGMMA_OF_REGISTERS(WIDTH, A, B, ACCUMULATE)                                           \
  if constexpr (N == WIDTH && std::is_same_v<T, half>) {                                           \
    SMEM_WGMMA(WIDTH, "k16.f32.f16.f16", A, B, ACCUMULATE, ", 0", "r"(a[0]), "r"(a[1]), "r"(a[2]), \
               "r"(a[3]), "l"(b), "r"(accumulate));                                                \
  } else if constexpr (N == WIDTH && std::is_same_v<T, float>) {                                   \
    SMEM_WGMMA(WIDTH, "k8.f32.tf32.tf32", A, B, ACCUMULATE, "", "r"(a[0]), "r"(a[1]), "r"(a[2]),   \
               "r"(a[3]), "l"(b), "r"(accumulate));                                                \
  }
  static_assert(N == 16 || N == 32 || N == 64 || N == 128 || N == 192 || N == 256,
                "a value of N listed here");
  SMEM_WGMMA_OF_REGISTERS(16, "{%8, %9, %10, %11}", "%12", "%13")
  SMEM_WGMMA_OF_REGISTERS(32, "{%16, %17, %18, %19}", "%20", "%21")
  SMEM_WGMMA_OF_REGISTERS(64, "{%32, %33, %34, %35}", "%36", "%37")
  SMEM_WGMMA_OF_REGISTERS(128, "{%64, %65, %66, %67}", "%68", "%69")
  SMEM_WGMMA_OF_REGISTERS(192, "{%96, %97, %98, %99}", "%100", "%101")
  SMEM_WGMMA_OF_REGISTERS(256, "{%128, %129, %130, %131}", "%132", "%133")
#undef SMEM_WGMMA_OF_REGISTERS
}

#undef SMEM_WGMMA

}  // namespace smem::inline SMEM_BUILD

#endif
