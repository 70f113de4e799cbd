// Tensor memory (PTX ISA, "Tensor Memory"): 128 lanes of 512 columns of 32 bits, which products read and write and
// warps copy to and from registers. Warp w of a block reaches lanes 32 (w % 4) .. 32 (w % 4) + 31 only, each thread a
// lane.
#pragma once

#include "common/ptx.cuh"
#include "common/unroll.cuh"

namespace fa::kernels {

/// 128 rows of `Columns` sums of 32 bits: a row a lane, a sum a column.
template <int Columns>
struct TensorTile {
  uint32_t address;

  /// From `column` on, the lanes of this warp.
  __device__ uint32_t of_warp(int column) const { return address + (threadIdx.x / 32 % 4 << 21) + column; }
};

/// 128 rows of `Depth` elements of 16 bits, two a column, which are A of a product.
template <int Depth>
struct TensorOperand {
  uint32_t address;

  /// Elements 16 k .. 16 k + 15 of all rows.
  __device__ uint32_t depths(int k) const { return address + 8 * k; }

  /// The words from `word` on, the lanes of this warp.
  __device__ uint32_t of_warp(int word) const { return address + (threadIdx.x / 32 % 4 << 21) + word; }
};

/// Takes columns, a power of two from 32 on, and puts their address to shared memory; by a whole warp. Waits until
/// other blocks have given back enough.
template <int Columns>
__device__ inline void tcgen05_alloc(uint32_t to) {
  asm volatile("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%0], %1;" ::"r"(to), "n"(Columns) : "memory");
}

/// Lets other blocks take columns: this one takes no more.
__device__ inline void tcgen05_relinquish_alloc_permit() {
  asm volatile("tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;" ::: "memory");
}

/// Frees columns; by a whole warp, after the last use.
template <int Columns>
__device__ inline void tcgen05_dealloc(uint32_t address) {
  asm volatile("tcgen05.dealloc.cta_group::1.sync.aligned.b32 %0, %1;" ::"r"(address), "n"(Columns) : "memory");
}

/// Orders this thread's tcgen05 instructions before a synchronisation with other threads, or after one.
__device__ inline void tcgen05_fence_before_thread_sync() {
  asm volatile("tcgen05.fence::before_thread_sync;" ::: "memory");
}
__device__ inline void tcgen05_fence_after_thread_sync() {
  asm volatile("tcgen05.fence::after_thread_sync;" ::: "memory");
}

#define FA_WORDS_4(c, x, i) c((x)[i]), c((x)[(i) + 1]), c((x)[(i) + 2]), c((x)[(i) + 3])
#define FA_WORDS_16(c, x, i) \
  FA_WORDS_4(c, x, i), FA_WORDS_4(c, x, i + 4), FA_WORDS_4(c, x, i + 8), FA_WORDS_4(c, x, i + 12)
#define FA_NAMES_16 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15"

/// Begins to read 32 columns of this thread's lane; by a whole warp, all lanes from the address of TensorTile::of_warp.
__device__ __forceinline__ void tcgen05_ld_32x32b_x32(uint32_t *x, uint32_t from) {
  asm volatile("tcgen05.ld.sync.aligned.32x32b.x32.b32 {" FA_NAMES_16
               ", %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, [%32];"
               : FA_WORDS_16("=r", x, 0), FA_WORDS_16("=r", x, 16)
               : "r"(from)
               : "memory");
}

/// The same of 16 columns.
__device__ __forceinline__ void tcgen05_ld_32x32b_x16(uint32_t *x, uint32_t from) {
  asm volatile("tcgen05.ld.sync.aligned.32x32b.x16.b32 {" FA_NAMES_16 "}, [%16];"
               : FA_WORDS_16("=r", x, 0)
               : "r"(from)
               : "memory");
}

/// Begins to read 16 lanes from the address on and 64 columns as mma's accumulators lie in a warp (PTX ISA, "tcgen05.ld",
/// .16x256b): of blocks of 16 x 8 four words a thread.
__device__ __forceinline__ void tcgen05_ld_16x256b_x8(uint32_t *x, uint32_t from) {
  asm volatile("tcgen05.ld.sync.aligned.16x256b.x8.b32 {" FA_NAMES_16
               ", %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, [%32];"
               : FA_WORDS_16("=r", x, 0), FA_WORDS_16("=r", x, 16)
               : "r"(from)
               : "memory");
}

/// Reads 32 columns as tcgen05_ld_32x32b_x32, and finds the largest of them, NaN if one is, by Hardware::tmem_max (PTX ISA 9.7.16.8.3,
/// tcgen05.ld.red).
__device__ __forceinline__ void tcgen05_ld_red_max_nan_32x32b_x32(uint32_t *x, uint32_t *largest, uint32_t from) {
  asm volatile("tcgen05.ld.red.sync.aligned.32x32b.x32.max.NaN.f32 {" FA_NAMES_16
               ", %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, %32, [%33];"
               : FA_WORDS_16("=r", x, 0), FA_WORDS_16("=r", x, 16), "=r"(*largest)
               : "r"(from)
               : "memory");
}

/// Begins to write 16 columns of it.
__device__ __forceinline__ void tcgen05_st_32x32b_x16(uint32_t to, const uint32_t *x) {
  asm volatile("tcgen05.st.sync.aligned.32x32b.x16.b32 [%16], {" FA_NAMES_16 "};" ::FA_WORDS_16("r", x, 0), "r"(to)
               : "memory");
}

#undef FA_WORDS_4
#undef FA_WORDS_16
#undef FA_NAMES_16

/// Waits until this thread's reads are over, of which these are some: nothing uses them sooner.
template <int... Words>
__device__ __forceinline__ void tcgen05_wait_ld(uint32_t (&...x)[Words]) {
  asm volatile("tcgen05.wait::ld.sync.aligned;" ::: "memory");
  (unroll<Words>([&](int i) { asm volatile("" : "+r"(x[i])::"memory"); }), ...);
}

/// Waits until this thread's writes are over.
__device__ inline void tcgen05_wait_st() {
  asm volatile("tcgen05.wait::st.sync.aligned;" ::: "memory");
}

}  // namespace fa::kernels
