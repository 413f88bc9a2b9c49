// The row of `rows` in the kernel table, and its instances for sums. rows_max.cu holds those for
// maxima and minima.
#include "device/symbol.h"
#include "reduce/ladder.h"
#include "reduce/rows.h"

namespace smem::reduce::inline SMEM_BUILD {

template void launch_rows<Sum>(const Problem&, const Device&);
extern template void launch_rows<Max>(const Problem&, const Device&);

const Kernel rows{
    .name = "rows",
    .summary = "warps along an output's elements, 16 bytes a load",
    .requires_ = "any shape, any strides",
    .any_operator = true,
    .splits = [](const Problem& problem,
                 const Device& device) { return row_thread_map(problem, device).splits; },
    .launch =
        [](const Problem& problem, const Device& device) {
          problem.op == Operator::sum ? launch_rows<Sum>(problem, device)
                                      : launch_rows<Max>(problem, device);
        },
    .function = [](DType in_dtype) -> const void* {
      return with_element_type(in_dtype, [](auto tag) {
        using T = typename decltype(tag)::type;
        return reinterpret_cast<const void*>(rows_kernel<T, Sum, int(RowLayout::aligned)>);
      });
    },
    .symbol = [](DType in_dtype) -> const char* {
      return with_element_type(in_dtype, [](auto tag) {
        using T = typename decltype(tag)::type;
        return symbol_of<rows_kernel<T, Sum, int(RowLayout::aligned)>>();
      });
    }};

}  // namespace smem::reduce::inline SMEM_BUILD
