// When two fp16 numbers can carry a line, by which power of two it is scaled for them, and the
// split of its elements.
//
// The line's largest magnitude is scaled to [2^14, 2^15), the highest binade that still is fp16
// when rounded up. Take an element scaled to y, 2^e <= |y| < 2^(e+1), of 24 bits and so a multiple
// of u = 2^(e-23).
//
//   hi = y rounded to 11 bits. y - hi is n * u with |n| <= 2^12, and exact in float.
//   lo = (y - hi) * 2^12 rounded to 11 bits: exact unless n takes 12 bits, and then off by u (times
//   2^12) at most: u <= 2^-23 |y|. |lo| <= 2^15, as |y - hi| <= 2^3: a larger factor would not fit.
//
// So it is until fp16's numbers end: they are multiples of 2^-24, so that lo / 2^12 is a multiple
// of 2^-36 and off by up to 2^-37. That still is 2^-23 |y| or less where |y| >= 2^-14; below, an
// error of 2^-37 is more (y = 2^-14 - 2^-37 has it). Hence the rule, by exponents alone: two fp16
// numbers carry a line of finite elements none of which, zeros aside, is more than 28 binades below
// the largest. Of normally distributed numbers 2^-26 are, which makes one line of 4096 in 16384. So
// of a line that has one such element, that is left out and stored beside the halves.
#pragma once

#include "device/vector.h"
#include "gemm/fp16x3/split.h"

namespace smem::gemm::fp16x3::split {
inline namespace SMEM_BUILD {

/// Elements that a thread reads at once, 16 bytes.
constexpr int RUN = 4;
using Run = Vector<float, RUN>;

/// The binades of the largest element scaled, and of the smallest that is carried.
constexpr int TOP = 14, BOTTOM = -14;
constexpr int BINADES_BELOW = TOP - BOTTOM;
static_assert(BOTTOM == -24 - LO_SHIFT - 1 + 23,
              "an error of half of fp16's least number, LO_SHIFT binades down, is 2^-23 of it");

constexpr uint32_t INFINITE = 0x7f800000, LEAST_NORMAL = 0x00800000;
constexpr int BIAS = 127, MANTISSA_BITS = 23;

/// The magnitudes of some elements: floats' bits without the sign, which order as they do.
struct alignas(16) Extremes {
  uint32_t largest = 0;
  /// The two least that are not zero, less one: what a zero becomes less one is above all others.
  uint32_t least_less_one = UINT32_MAX, second_less_one = UINT32_MAX;

  __device__ __forceinline__ void add(const Extremes& other) {
    largest = larger(largest, other.largest);
    second_less_one = smaller(smaller(second_less_one, other.second_less_one),
                              larger(least_less_one, other.least_less_one));
    least_less_one = smaller(least_less_one, other.least_less_one);
  }
  __device__ __forceinline__ void add(float element) {
    const uint32_t magnitude = __float_as_uint(element) & ~(1u << 31);
    add({magnitude, magnitude - 1});
  }

  /// Those of `lanes` neighbouring lanes in each of them, or of every `apart`th; powers of two.
  __device__ __forceinline__ Extremes over_lanes(int lanes, int apart = 1) const {
    Extremes all = *this;
    for (int step = lanes / 2; step >= apart; step /= 2) {
      all.add({__shfl_xor_sync(~0u, all.largest, step),
               __shfl_xor_sync(~0u, all.least_less_one, step),
               __shfl_xor_sync(~0u, all.second_less_one, step)});
    }
    return all;
  }

 private:
  __device__ __forceinline__ static uint32_t smaller(uint32_t a, uint32_t b) {
    return a < b ? a : b;
  }
  __device__ __forceinline__ static uint32_t larger(uint32_t a, uint32_t b) {
    return a > b ? a : b;
  }
};

/// floor(log2) of a magnitude that is neither 0 nor infinite.
__device__ __forceinline__ int binade_of(uint32_t magnitude) {
  constexpr int UP = 24;  // makes the least subnormal number, 2^-149, a normal one
  if (magnitude >= LEAST_NORMAL) return static_cast<int>(magnitude >> MANTISSA_BITS) - BIAS;
  const float normal = __uint_as_float(magnitude) * float{1 << UP};
  return static_cast<int>(__float_as_uint(normal) >> MANTISSA_BITS) - BIAS - UP;
}

/// 2^exponent, a normal number.
__device__ __forceinline__ float power_of_two(int exponent) {
  return __uint_as_float(static_cast<uint32_t>(BIAS + exponent) << MANTISSA_BITS);
}

/// How a line is scaled: -113 to 163 binades up; not at all if it is EXACT.
struct Scale {
  int binades_up;
  Mark mark;

  /// Both as one number.
  __device__ __forceinline__ int code() const { return binades_up * 4 + mark; }
  __device__ __forceinline__ static Scale of_code(int code) {
    return {code >> 2, static_cast<Mark>(code & 3)};
  }

  /// Whether halves hold too little of an element.
  __device__ __forceinline__ bool is_short(float element) const {
    const uint32_t magnitude = __float_as_uint(element) & ~(1u << 31);
    return magnitude != 0 && binade_of(magnitude) + binades_up < BOTTOM;
  }
};

__device__ __forceinline__ Scale scale_of(const Extremes& line) {
  if (line.largest == 0) return {0, CARRIED};
  if (line.largest >= INFINITE) return {0, EXACT};
  const int up = TOP - binade_of(line.largest);
  const auto is_short = [&](uint32_t magnitude) { return binade_of(magnitude) + up < BOTTOM; };
  if (!is_short(line.least_less_one + 1)) return {up, CARRIED};
  const bool has_second = line.second_less_one != UINT32_MAX;
  if (has_second && is_short(line.second_less_one + 1)) return {0, EXACT};
  return {up, MENDED};
}

__device__ __forceinline__ void store_scale(const Split& split, int64_t line, Scale scale,
                                            Site site = Site::here()) {
  store(split.exponent + line, -scale.binades_up, site);
  store(split.mark + line, static_cast<uint8_t>(scale.mark), site);
  if (scale.mark == MENDED) return;  // store_rest does it
  store(split.position + line, int64_t{0}, site);
  store(split.rest + line, 0.0f, site);
}

/// Both rounded, by one instruction.
__device__ __forceinline__ Vector<half, 2> rounded(Accumulator<float> x, Accumulator<float> y) {
#ifdef __CUDACC__
  const half2 pair = __floats2half2_rn(x, y);
  return {__low2half(pair), __high2half(pair)};
#else
  return {from_accumulator<half>(x), from_accumulator<half>(y)};
#endif
}

/// Some neighbours in a line, split.
template <int N>
struct Halves {
  using Acc = Accumulator<float>;

  Vector<half, N> hi, lo;

  __device__ __forceinline__ Halves(const Vector<float, N>& given, Scale scale) {
    Vector<float, N> elements = given;
    int up = scale.binades_up;
    // A branch that hardly any line takes: by tests of each element a split would take half as
    // many instructions again.
    if (scale.mark != CARRIED || up > BIAS) prepare(elements, up, scale.mark);
    const Acc factor = power_of_two(up), lift = power_of_two(LO_SHIFT);
#pragma unroll
    for (int i = 0; i < N; i += 2) {
      const Acc x = to_accumulator(elements.lane[i]) * factor;
      const Acc y = to_accumulator(elements.lane[i + 1]) * factor;
      const auto high = rounded(x, y);
      const auto low = rounded((x - to_accumulator(high.lane[0])) * lift,
                               (y - to_accumulator(high.lane[1])) * lift);
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        hi.lane[i + j] = high.lane[j];
        lo.lane[i + j] = low.lane[j];
      }
    }
  }

 private:
  /// Scales by a part of `up`, as 2^163 is no float, and takes out what halves shall not hold: of
  /// an EXACT line everything, as what is not finite would stay so; of a MENDED one what is short,
  /// as products of two lo are not made, and it has nothing else.
  __device__ __forceinline__ static void prepare(Vector<float, N>& elements, int& up, Mark mark) {
    const Acc first = power_of_two(up / 2), second = power_of_two(up - up / 2);
    up -= up / 2;
#pragma unroll
    for (float& element : elements.lane) {
      const Acc x = to_accumulator(element) * first;
      const bool is_short = std::abs(number_of(x * second)) < power_of_two(BOTTOM);
      element = mark == EXACT || is_short ? 0.0f : from_accumulator<float>(x);
    }
  }
};

/// Stores where the short element of a MENDED line is, and the element, if this is it: whether.
__device__ __forceinline__ bool store_rest(const Split& split, int64_t line, int64_t position,
                                           float element, Scale scale, Site site = Site::here()) {
  if (!scale.is_short(element)) return false;
  store(split.position + line, position, site);
  store(split.rest + line, element, site);
  return true;
}

/// A part of a member's lines.
struct Part {
  const float* from;
  int64_t length;

  /// Of all members' parts, by number.
  __device__ __forceinline__ Part(const Split& split, uint32_t index) {
    const auto parts = static_cast<uint32_t>(split.parts);
    const uint32_t member = index / parts;
    const int64_t first = (index - member * parts) * split.part_length;
    from = split.from + member * split.member_stride + first * split.stride;
    length = split.length - first < split.part_length ? split.length - first : split.part_length;
  }
};

/// Where in its line the hi of an element stands; its lo stands PIECE further on.
__device__ __forceinline__ int64_t place_of(int64_t position) {
  return position / PIECE * (2 * PIECE) + position % PIECE;
}

/// The first `inside` of RUN elements `stride` apart; zeros for the others, which are not read.
/// WIDE: they are neighbours at a multiple of 16 bytes, and all inside or none.
template <bool WIDE>
__device__ __forceinline__ Run load_run(const float* from, int64_t stride, int64_t inside,
                                        Site site = Site::here()) {
  Run run{};
  if constexpr (WIDE) {
    if (inside > 0) run = load_vector<RUN>(from, site);
  } else {
#pragma unroll
    for (int i = 0; i < RUN; ++i) {
      if (i < inside) run.lane[i] = load(from + i * stride, site);
    }
  }
  return run;
}

/// Whether load_run<true> may read runs along lines, or across them where `stride` and `size` are
/// those from line to line and `apart` is the stride in a line.
inline bool runs_are_wide(const Split& split, int64_t stride, int64_t size, int64_t apart) {
  return stride == 1 && size % RUN == 0 && apart % RUN == 0 &&
         (split.members <= 1 || split.member_stride % RUN == 0) &&
         reinterpret_cast<uintptr_t>(split.from) % sizeof(Run) == 0;
}

}  // namespace SMEM_BUILD
}  // namespace smem::gemm::fp16x3::split
