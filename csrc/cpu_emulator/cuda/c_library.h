// The functions of the C library that a kernel may call. They are declared before the library's
// own headers declare them, so that calls of these names reach the functions here.
#pragma once

#include <stdarg.h>
#include <sys/types.h>

extern "C" {
int printf(const char* format, ...) __asm__("smem_printf");
clock_t clock() noexcept __asm__("smem_clock");
}

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

/// Each call's text is written at once: Python's own output stays in order with it. A string that
/// is none ends the thread before it holds the lock of the output.
extern "C" __attribute__((no_sanitize("thread"))) int smem_printf(const char* format, ...) {
  va_list values;
  va_start(values, format);
  char* text = nullptr;
  const int length = vasprintf(&text, format, values);
  va_end(values);
  if (length < 0) return length;
  fwrite(text, 1, static_cast<size_t>(length), stdout);
  fflush(stdout);
  free(text);
  return length;
}
