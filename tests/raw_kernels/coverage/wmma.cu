// nvcuda::wmma, as tests/test_raw_kernel_wmma.py runs it.
#include <mma.h>

#include <type_traits>

using namespace nvcuda;

// D = A B + C of one tile, K at a time. A and B are in memory along rows or columns; so are C and
// D.
template <typename T, typename S, int M, int N, int K, typename A, typename B, typename C>
__device__ void tile(const S* a, const S* b, const C* c, C* d, int k_total, wmma::layout_t layout) {
  constexpr bool A_ROWS = std::is_same<A, wmma::row_major>::value;
  constexpr bool B_ROWS = std::is_same<B, wmma::row_major>::value;
  const int lda = A_ROWS ? k_total : M, ldb = B_ROWS ? N : k_total;
  const int ldc = layout == wmma::mem_row_major ? N : M;
  wmma::fragment<wmma::matrix_a, M, N, K, T, A> fa;
  wmma::fragment<wmma::matrix_b, M, N, K, T, B> fb;
  wmma::fragment<wmma::accumulator, M, N, K, C> fc;
  wmma::load_matrix_sync(fc, c, ldc, layout);
  for (int k = 0; k < k_total; k += K) {
    wmma::load_matrix_sync(fa, A_ROWS ? a + k : a + k * lda, lda);
    wmma::load_matrix_sync(fb, B_ROWS ? b + k * ldb : b + k, ldb);
    wmma::mma_sync(fc, fa, fb, fc);
  }
  wmma::store_matrix_sync(d, fc, ldc, layout);
}

// All layouts: operands by rows in a[0] and b[0], by columns in a[1] and b[1]; so are c and d[i].
template <typename T, typename S, typename C, int M, int N, int K>
__global__ void layouts(const S* a, const S* b, const C* c, C* d, int k) {
  using R = wmma::row_major;
  using L = wmma::col_major;
  const S *a_cols = a + M * k, *b_cols = b + k * N;
  tile<T, S, M, N, K, R, R>(a, b, c, d, k, wmma::mem_row_major);
  tile<T, S, M, N, K, R, L>(a, b_cols, c, d + M * N, k, wmma::mem_row_major);
  tile<T, S, M, N, K, L, R>(a_cols, b, c + M * N, d + 2 * M * N, k, wmma::mem_col_major);
  tile<T, S, M, N, K, L, L>(a_cols, b_cols, c + M * N, d + 3 * M * N, k, wmma::mem_col_major);
}

// Each of two warps multiplies 16 rows by 32 columns, staged in shared memory.
#ifndef PITCH
#define PITCH 40
#endif
template <typename T>
__global__ void staged(const T* a, const T* b, float* out) {
  __shared__ __align__(32) T sa[32 * PITCH], sb[32 * PITCH];
  const int warp = threadIdx.x / 32;
  for (int i = threadIdx.x; i < 32 * 32; i += 64) {
    sa[i / 32 * PITCH + i % 32] = a[i];
    sb[i / 32 * PITCH + i % 32] = b[i];
  }
#ifndef RACE
  __syncthreads();
#endif
  wmma::fragment<wmma::accumulator, 16, 16, 16, float> sums[2];
  for (auto& sum : sums) wmma::fill_fragment(sum, 0.0f);
  for (int k = 0; k < 32; k += 16) {
    wmma::fragment<wmma::matrix_a, 16, 16, 16, T, wmma::row_major> fa;
    wmma::load_matrix_sync(fa, sa + warp * 16 * PITCH + k, PITCH);  // HERE: load_a
    for (int j = 0; j < 2; ++j) {
      wmma::fragment<wmma::matrix_b, 16, 16, 16, T, wmma::row_major> fb;
      wmma::load_matrix_sync(fb, sb + k * PITCH + j * 16, PITCH);  // HERE: load_b
      wmma::mma_sync(sums[j], fa, fb, sums[j]);                    // HERE: multiply
    }
  }
  for (int j = 0; j < 2; ++j) {
    for (int i = 0; i < sums[j].num_elements; ++i) sums[j].x[i] = 2 * sums[j].x[i] + 1;
    float* const to = out + warp * 16 * 32 + j * 16;
    wmma::store_matrix_sync(to, sums[j], 32, wmma::mem_row_major);  // HERE: store
  }
}

// 32 rows by 8 columns, and the transpose: fragments of two sizes.
template <int M, int N>
__global__ void uneven(const half* a, const half* b, half* out) {
  __shared__ __align__(32) half sa[M * 16], sb[16 * N];
  for (int i = threadIdx.x; i < 512; i += 32) {
    if (i < M * 16) sa[i] = a[i];
    if (i < 16 * N) sb[i] = b[i];
  }
  __syncwarp();
  wmma::fragment<wmma::matrix_a, M, N, 16, half, wmma::row_major> fa;
  wmma::fragment<wmma::matrix_b, M, N, 16, half, wmma::row_major> fb;
  wmma::fragment<wmma::accumulator, M, N, 16, half> sum;
  wmma::fill_fragment(sum, __float2half(1));
  wmma::load_matrix_sync(fa, sa, 16);  // HERE: load_a
  wmma::load_matrix_sync(fb, sb, N);   // HERE: load_b
  wmma::mma_sync(sum, fa, fb, sum);
  wmma::store_matrix_sync(out, sum, N, wmma::mem_row_major);
}

// Elements of fragments, by lane: half has each twice.
__global__ void elements(const half* a, half* x, const float* t, float* y) {
  wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> fa;
  wmma::load_matrix_sync(fa, a, 16);
  for (int i = 0; i < fa.num_elements; ++i) x[threadIdx.x * fa.num_elements + i] = fa.x[i];
  wmma::fragment<wmma::matrix_b, 16, 16, 8, wmma::precision::tf32, wmma::row_major> fb;
  wmma::load_matrix_sync(fb, t, 16);
  for (int i = 0; i < fb.num_elements; ++i) fb.x[i] = wmma::__float_to_tf32(fb.x[i]);
  for (int i = 0; i < fb.num_elements; ++i) y[threadIdx.x * fb.num_elements + i] = fb.x[i];
}

// What CUDA does not define.
__global__ void wrong(const half* a, float* out, int offset, int ldm) {
  wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> fa;
  wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> fb;
  wmma::fragment<wmma::accumulator, 16, 16, 16, float> sum;
  wmma::fill_fragment(fb, __float2half(1));
  wmma::fill_fragment(sum, 0.0f);
#ifdef DIVERGED
  if (threadIdx.x == 5) __syncthreads();
#endif
  wmma::load_matrix_sync(fa, a + offset, ldm);  // HERE: load
  wmma::mma_sync(sum, fa, fb, sum);             // HERE: multiply
  wmma::store_matrix_sync(out, sum, 16, wmma::mem_row_major);
}
