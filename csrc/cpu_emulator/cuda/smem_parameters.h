// What the parameters of a user's kernel are, as constants that Python reads. Both g++ (through
// smem_unit.h) and NVRTC compile this, so that a call is checked alike on the CPU and on a GPU; it
// needs no other header, because NVRTC has none.
#pragma once

/// A type as Python checks it. `kind`: 'p' pointer, 'i' signed integer, 'u' unsigned integer, 'b'
/// bool, 'f' floating-point number, 'h' half, 'B' bfloat16, 'v' void, 's' any other.
struct smem_type {
  int bytes;
  char kind;
  bool is_const;
};

struct smem_parameter {
  smem_type type, pointee;  ///< the latter of a pointer
  char name[144];           ///< the type, between "T = " and "]", as far as there is room
};

struct __half;
struct __nv_bfloat16;

template <typename T>
struct smem_tag {};

template <typename T>
constexpr char smem_kind(smem_tag<T>) {
  return __is_enum(T) ? 'i' : 's';
}
template <typename T>
constexpr char smem_kind(smem_tag<T*>) {
  return 'p';
}

#define SMEM_KIND(T, KIND) \
  constexpr char smem_kind(smem_tag<T>) { return KIND; }
SMEM_KIND(bool, 'b')
SMEM_KIND(char, char(-1) < 0 ? 'i' : 'u')
SMEM_KIND(signed char, 'i')
SMEM_KIND(short, 'i')
SMEM_KIND(int, 'i')
SMEM_KIND(long, 'i')
SMEM_KIND(long long, 'i')
SMEM_KIND(unsigned char, 'u')
SMEM_KIND(unsigned short, 'u')
SMEM_KIND(unsigned int, 'u')
SMEM_KIND(unsigned long, 'u')
SMEM_KIND(unsigned long long, 'u')
SMEM_KIND(float, 'f')
SMEM_KIND(double, 'f')
SMEM_KIND(__half, 'h')
SMEM_KIND(__nv_bfloat16, 'B')
#undef SMEM_KIND

constexpr smem_type smem_describe(smem_tag<void>) { return {1, 'v', false}; }
template <typename T>
constexpr smem_type smem_describe(smem_tag<T>) {
  return {int(sizeof(T)), smem_kind(smem_tag<T>()), false};
}
template <typename T>
constexpr smem_type smem_describe(smem_tag<volatile T>) {
  return smem_describe(smem_tag<T>());
}
template <typename T>
constexpr smem_type smem_describe(smem_tag<const T>) {
  smem_type type = smem_describe(smem_tag<T>());
  type.is_const = true;
  return type;
}
template <typename T>
constexpr smem_type smem_describe(smem_tag<const volatile T>) {
  return smem_describe(smem_tag<const T>());
}

template <typename T>
constexpr smem_type smem_pointee(smem_tag<T>) {
  return {0, 'v', false};
}
template <typename T>
constexpr smem_type smem_pointee(smem_tag<T*>) {
  return smem_describe(smem_tag<T>());
}

template <typename T>
constexpr smem_parameter smem_describe_parameter() {
  smem_parameter described = {smem_describe(smem_tag<T>()), smem_pointee(smem_tag<T>()), {}};
  const char* name = __PRETTY_FUNCTION__;
  while (*name != '=') {
    ++name;
  }
  for (int i = 0; i + 1 < int(sizeof(described.name)) && name[i] != 0; ++i) {
    described.name[i] = name[i];
  }
  return described;
}

template <typename... Parameters>
struct smem_parameter_table {
  smem_parameter values[sizeof...(Parameters) + 1];  ///< an empty one is the last
};

template <typename... Parameters>
constexpr smem_parameter_table<Parameters...> smem_parameters_of(void (*)(Parameters...)) {
  return {{smem_describe_parameter<Parameters>()..., smem_parameter{}}};
}
