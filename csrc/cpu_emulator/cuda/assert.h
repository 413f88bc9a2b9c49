// Stands for the C library's header of that name, which, as there, may be included several times:
// an assertion that fails is a fault at its line, and ends the thread.
#include "emulator_api.h"

#undef assert
#ifdef NDEBUG
#define assert(condition) ((void)0)
#else
#define assert(condition) ((condition) ? (void)0 : smem_fault("assertion", #condition " is false"))
#endif
