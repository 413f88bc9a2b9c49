// columns for extrema: a file of its own, so that none takes long to compile.
#include "reduce/columns.h"

namespace smem::reduce {
inline namespace SMEM_BUILD {

template void launch_columns<Max>(const Problem&, const Device&);

}  // namespace SMEM_BUILD
}  // namespace smem::reduce
