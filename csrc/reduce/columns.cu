// columns in the kernel table, and what it is compiled to for sums; for extrema columns_max.cu.
#include "device/symbol.h"
#include "reduce/columns.h"
#include "reduce/ladder.h"

namespace smem::reduce {
inline namespace SMEM_BUILD {

template void launch_columns<Sum>(const Problem&, const Device&);
extern template void launch_columns<Max>(const Problem&, const Device&);

const Kernel columns{"columns",
                     "threads down neighbouring outputs, up to 16 bytes a load",
                     "any shape, any strides",
                     true,
                     &splits_of,
                     [](const Problem& problem, const Device& device) {
                       problem.op == Operator::sum ? launch_columns<Sum>(problem, device)
                                                   : launch_columns<Max>(problem, device);
                     },
                     [](DType in_dtype) -> const void* {
                       return with_element_type(in_dtype, [](auto tag) {
                         using T = typename decltype(tag)::type;
                         return reinterpret_cast<const void*>(aligned_columns_kernel<T, Sum>);
                       });
                     },
                     [](DType in_dtype) -> const char* {
                       return with_element_type(in_dtype, [](auto tag) {
                         using T = typename decltype(tag)::type;
                         return symbol_of<aligned_columns_kernel<T, Sum>>();
                       });
                     }};

}  // namespace SMEM_BUILD
}  // namespace smem::reduce
