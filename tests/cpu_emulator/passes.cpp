// What the tracer's rules give for the accesses that it reads: prints JSON, wavefronts and
// conflicts of each. A line is an access as for bench/bank_rule.cu: the kind (load, store or copy),
// the bytes of a lane, 32 addresses in shared memory (-1: the lane takes no part) and, of a copy,
// 32 in global memory.
#include <cstdint>
#include <iostream>
#include <string>

#include "cpu_emulator/trace/cost.h"

int main() {
  using namespace smem::cpu_emulator::trace;
  std::string kind;
  const char* before = "[";
  for (Request request; std::cin >> kind >> request.bytes; before = ",") {
    request.mask = 0;
    for (int lane = 0; lane < 32; ++lane) {
      int64_t address;
      std::cin >> address;
      if (address < 0) continue;
      request.mask |= uint32_t{1} << lane;
      request.address[lane] = static_cast<uint64_t>(address);
    }
    const bool is_copy = kind == "copy";
    for (int lane = 0; is_copy && lane < 32; ++lane) {
      int64_t address;
      std::cin >> address;
      request.partner[lane] = static_cast<uint64_t>(address);
    }
    const Passes found = is_copy ? copy_passes(request) : passes(request, kind == "load");
    std::cout << before << '[' << found.wavefronts << ',' << found.wavefronts - found.least << ']';
  }
  std::cout << "]\n";
}
