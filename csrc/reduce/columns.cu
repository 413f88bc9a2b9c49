// The row of `columns` in the kernel table, and its instances for sums. columns_max.cu holds those
// for maxima and minima.
#include "reduce/columns.h"
#include "reduce/ladder.h"

namespace smem::reduce::inline SMEM_BUILD {

template void launch_columns<Sum>(const Problem&, const Device&);
extern template void launch_columns<Max>(const Problem&, const Device&);

struct Columns {
  static constexpr const char* NAME = "columns";
  template <typename T>
  static constexpr auto kernel() {
    return aligned_columns_kernel<T, Sum>;
  }
  static int64_t splits(const Problem& problem, const Device& device) {
    return splits_of(problem, device);
  }
  static void launch(const Problem& problem, const Device& device) {
    problem.op == Operator::sum ? launch_columns<Sum>(problem, device)
                                : launch_columns<Max>(problem, device);
  }
};

const Kernel columns = make_kernel<Columns>(
    "threads down neighbouring outputs, up to 16 bytes a load", "any shape, any strides",
    /*any_operator=*/true);

}  // namespace smem::reduce::inline SMEM_BUILD
