// Products of the fifth generation (PTX ISA, "TensorCore 5th Generation Family Instructions"): a thread starts them,
// and a commit signals an mbarrier when those before it are over. Kernels count on them to happen one after another in
// the order of that thread, as NVIDIA's own do; the ISA promises it of products with the same sums, shape and kind
// alone. Their sums are in tensor memory, their A in shared or tensor memory, their B in shared memory.
#pragma once

#include "common/fragment.cuh"
#include "common/shared_tile.cuh"
#include "common/tensor_memory.cuh"

namespace fa::kernels {

/// A type's number in descriptors of instructions of kind::f16.
template <class T>
struct KindF16;
template <>
struct KindF16<__half> {
  static constexpr uint32_t type = 0;
};
template <>
struct KindF16<__nv_bfloat16> {
  static constexpr uint32_t type = 1;
};

/// The shape of a product of kind::f16: 128 rows, `Columns` columns, a depth of 16, with sums in f32. Transposed: B's
/// columns are the tile's columns in shared memory, not its rows.
template <class T, int Columns, bool Transposed>
constexpr uint32_t instruction_descriptor() {
  static_assert(Columns % 16 == 0 && Columns <= 256);
  constexpr uint32_t f32_sums = 1, type = KindF16<T>::type, rows = 128;
  return f32_sums << 4 | type << 7 | type << 10 | uint32_t{Transposed} << 16 | uint32_t{Columns} / 8 << 17 |
         rows / 16 << 24;
}

/// How a tile lies in shared memory, for tcgen05: SharedTile's panels of 64 columns are the layout of SWIZZLE_128B,
/// those of 32 columns that of SWIZZLE_64B. Addresses and distances are in units of 16 bytes; descriptors of a tile
/// differ in their lower word alone.
template <class Tile>
struct SharedOperand {
  static_assert(Tile::rows % 8 == 0);
  static constexpr uint32_t swizzle = Tile::row_bytes == 128 ? 2 : 4;
  static constexpr uint32_t upper = swizzle << 29 | 1u << 14 | 8 * Tile::row_bytes / 16;  // from eight rows to the next
  static constexpr uint32_t panel = Tile::panel_bytes / 16;
  static constexpr int steps = Tile::panel_columns / 16;  // of k, in a panel

  uint64_t as_rows, as_columns;  // a sum of 64 bits is one instruction, two words are two

  __device__ explicit SharedOperand(uint32_t tile)
      : as_rows(descriptor(tile / 16 | 1u << 16)), as_columns(descriptor(tile / 16 | panel << 16)) {}

  /// The tile's rows, as A or as columns of B: columns 16 k .. 16 k + 15.
  __device__ uint64_t rows(int k) const { return as_rows + (k / steps * panel + k % steps * 2); }

  /// The tile's columns as those of B: rows 16 k .. 16 k + 15.
  __device__ uint64_t columns(int k) const { return as_columns + k * Tile::row_bytes; }

 private:
  __device__ static uint64_t descriptor(uint32_t lower) { return uint64_t{upper} << 32 | lower; }
};

/// Starts d = a b, or d + a b; by one thread.
__device__ inline void tcgen05_mma(uint32_t d, uint64_t a, uint64_t b, uint32_t descriptor, bool accumulate) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %4, 0;\n"
      "tcgen05.mma.cta_group::1.kind::f16 [%0], %1, %2, %3, p;\n}" ::"r"(d),
      "l"(a), "l"(b), "r"(descriptor), "r"(uint32_t{accumulate})
      : "memory");
}

/// The same of an A in tensor memory.
__device__ inline void tcgen05_mma(uint32_t d, uint32_t a, uint64_t b, uint32_t descriptor, bool accumulate) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %4, 0;\n"
      "tcgen05.mma.cta_group::1.kind::f16 [%0], [%1], %2, %3, p;\n}" ::"r"(d),
      "r"(a), "l"(b), "r"(descriptor), "r"(uint32_t{accumulate})
      : "memory");
}

/// An arrival at an mbarrier when all products that this thread has started are over.
__device__ inline void tcgen05_commit(uint32_t barrier) {
  asm volatile("tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%0];" ::"r"(barrier) : "memory");
}

}  // namespace fa::kernels
