#include "cpu_emulator/trace/merged_loads.h"

namespace smem::cpu_emulator::trace {

namespace {

int run_bytes(const Request& load) { return load.bytes < 4 ? 4 * load.bytes : 16; }

template <typename Check>
bool all_lanes(const Request& request, const Check& check) {
  for (int l = 0; l < 32; ++l) {
    if ((request.mask >> l & 1) && !check(l)) return false;
  }
  return true;
}

}  // namespace

bool MergedLoads::begins_run(const Request& load) const {
  const auto bytes = static_cast<uint64_t>(run_bytes(load));  // a power of two
  return load.bytes < 16 &&
         all_lanes(load, [&](int l) { return (load.address[l] & (bytes - 1)) == 0; });
}

bool MergedLoads::goes_on(const Request& load, unsigned warp) const {
  return warp == warp_ && load.bytes == run_.bytes && load.mask == run_.mask &&
         all_lanes(load, [&](int l) {
           return load.address[l] == run_.address[l] + static_cast<uint64_t>(length_ * run_.bytes);
         });
}

void MergedLoads::add(const Request& load, unsigned warp) {
  if (!possible_) return;
  possible_ = length_ == 0 ? begins_run(load) : goes_on(load, warp);
  if (!possible_) return;
  if (length_++ == 0) {
    run_ = load;
    warp_ = warp;
  }
  if (length_ * run_.bytes < run_bytes(run_)) return;
  length_ = 0;
  Request wide = run_;
  wide.bytes = run_bytes(run_);
  const Passes served = passes(wide, true);
  requests_ += 1;
  wavefronts_ += static_cast<uint64_t>(served.wavefronts);
  conflicts_ += static_cast<uint64_t>(served.wavefronts - served.least);
}

}  // namespace smem::cpu_emulator::trace
