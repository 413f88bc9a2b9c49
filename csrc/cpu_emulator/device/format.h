// The emulator's name for the format in which tensor cores multiply elements of type T.
#pragma once

#include <type_traits>

#include "cpu_emulator/sm90/tensor_core.h"
#include "device/numeric_types.h"

namespace smem {
inline namespace SMEM_BUILD {

template <typename T>
constexpr auto FORMAT = std::is_same_v<T, half>       ? cpu_emulator::sm90::Format::f16
                        : std::is_same_v<T, bfloat16> ? cpu_emulator::sm90::Format::bf16
                                                      : cpu_emulator::sm90::Format::tf32;

}  // namespace SMEM_BUILD
}  // namespace smem
