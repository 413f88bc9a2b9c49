// The row of `columns` in the kernel table, and its instances for sums. columns_max.cu holds those
// for maxima and minima.
#include "device/symbol.h"
#include "reduce/columns.h"
#include "reduce/ladder.h"

namespace smem::reduce::inline SMEM_BUILD {

template void launch_columns<Sum>(const Problem&, const Device&);
extern template void launch_columns<Max>(const Problem&, const Device&);

const Kernel columns{.name = "columns",
                     .summary = "threads down neighbouring outputs, up to 16 bytes a load",
                     .requires_ = "any shape, any strides",
                     .any_operator = true,
                     .splits = &splits_of,
                     .launch =
                         [](const Problem& problem, const Device& device) {
                           problem.op == Operator::sum ? launch_columns<Sum>(problem, device)
                                                       : launch_columns<Max>(problem, device);
                         },
                     .function = [](DType in_dtype) -> const void* {
                       return with_element_type(in_dtype, [](auto tag) {
                         using T = typename decltype(tag)::type;
                         return reinterpret_cast<const void*>(aligned_columns_kernel<T, Sum>);
                       });
                     },
                     .symbol = [](DType in_dtype) -> const char* {
                       return with_element_type(in_dtype, [](auto tag) {
                         using T = typename decltype(tag)::type;
                         return symbol_of<aligned_columns_kernel<T, Sum>>();
                       });
                     }};

}  // namespace smem::reduce::inline SMEM_BUILD
