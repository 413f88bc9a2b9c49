// The instances of columns for maxima and minima, in a file of their own to shorten the build.
#include "reduce/columns.h"

namespace smem::reduce::inline SMEM_BUILD {

template void launch_columns<Max>(const Problem&, const Device&);

}  // namespace smem::reduce::inline SMEM_BUILD
