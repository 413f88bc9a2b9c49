// The row of `rows` in the kernel table, and its instances for sums. rows_max.cu holds those for
// maxima and minima.
#include "reduce/ladder.h"
#include "reduce/rows.h"

namespace smem::reduce::inline SMEM_BUILD {

template void launch_rows<Sum>(const Problem&, const Device&);
extern template void launch_rows<Max>(const Problem&, const Device&);

struct Rows {
  static constexpr const char* NAME = "rows";
  template <typename T>
  static constexpr auto kernel() {
    return rows_kernel<T, Sum, int(RowLayout::aligned)>;
  }
  static int64_t splits(const Problem& problem, const Device& device) {
    return row_thread_map(problem, device).splits;
  }
  static void launch(const Problem& problem, const Device& device) {
    problem.op == Operator::sum ? launch_rows<Sum>(problem, device)
                                : launch_rows<Max>(problem, device);
  }
};

const Kernel rows =
    make_kernel<Rows>("warps along an output's elements, 16 bytes a load", "any shape, any strides",
                      /*any_operator=*/true);

}  // namespace smem::reduce::inline SMEM_BUILD
