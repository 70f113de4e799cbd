// A chunk of dQ, 16 queries by 64 columns, on its way from products to the sums in global memory, for kernels that add
// it by bulk copies. Lanes read their numbers again at each use: registers are few.
#pragma once

#include "collective/dq_accum.cuh"
#include "collective/nonfinite.cuh"
#include "common/register_tile.cuh"

namespace fa::kernels {

using DqChunk = AccumulatorTile<1, 8>;

/// In shared memory, in the order of the sums.
constexpr int dq_chunk_bytes = 16 * 64 * 4;

/// A warp's chunk to shared memory, of its blocks of columns those of which holds(block) is true.
template <class Holds>
__device__ __forceinline__ void store_dq_chunk(uint32_t to, const DqChunk &dq, Holds holds) {
  const uint32_t own = to + dq_offset(uint32_t(mov_tid_x()) % 32, 0) * 4;
  unroll<DqChunk::column_blocks>([&](int j) {
    if (!holds(j)) return;
    const Accumulator &x = dq.block[0][j];
    st_shared_v4_b32(own + j * block_sums * 4, {__float_as_uint(x.x[0]), __float_as_uint(x.x[1]),
                                                __float_as_uint(x.x[2]), __float_as_uint(x.x[3])});
  });
}

/// dQ = dS K by mma.sync, whose operands can be cleared in registers: elements of K that are not finite count as 0. Of
/// queries `query` .. query + 15 and columns 8 `chunk` .. 8 chunk + 63; B: the tiles, of which dS is transposed.
template <class B>
__device__ inline void multiply_finite(DqChunk &dq, uint32_t ds, int query, uint32_t k, int chunk) {
  const int lane = uint32_t(mov_tid_x()) % 32;
  dq.clear();
#pragma unroll 1
  for (int key = 0; key < B::rows; key += 16) {
    FragmentsA<typename B::Element, 1> a;
    ldmatrix_x4_trans(a.block[0].word,
                      ds + B::DsTile::offset(key + lane_row_of_columns(lane), query / 8 + lane_chunk_of_columns(lane)));
    unroll<4>([&](int j) {
      uint32_t b[4];
      ldmatrix_x4_trans(b, k + B::OwnTile::offset(key + lane_row(lane), chunk + lane_chunk(lane) + 2 * j));
      unroll<4>([&](int n) { b[n] = finite_halves(b[n], B::exponents); });
      dq.multiply_add(j, a, b);
    });
  }
}

}  // namespace fa::kernels
