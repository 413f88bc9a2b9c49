// The instances of rows for maxima and minima, in a file of their own to shorten the build.
#include "reduce/rows.h"

namespace smem::reduce::inline SMEM_BUILD {

template void launch_rows<Max>(const Problem&, const Device&);

}  // namespace smem::reduce::inline SMEM_BUILD
