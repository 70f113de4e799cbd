// NaN and infinity: masked values never reach a result, attended ones do as fa.h says. A masked key has the weight 0,
// and 0 * v is 0 unless v is NaN or Inf; so is the product of Inf and an attended weight too small for a float. Rows
// with such a product, which are rare, have results that are not finite. The block then computes them again with 0 in
// place of values that are not finite, and afterwards sets each element to the result of the attended ones.
#pragma once

#include "collective/tree.cuh"
#include "common/element.cuh"
#include "common/numbers.cuh"
#include "common/ptx.cuh"

namespace fa::kernels {

/// The requirements of a row in a second pass.
enum Fixup : uint8_t {
  finite_values = 1,  // a sum is not finite: by a masked value, or by the weight of an attended one
  exact_weights = 2   // its scores are too large for the fast path
};

/// The element of a (batch, head, query, key) tensor for a score.
__device__ inline const char *score_element(const View &view, const Sequence &s, Row row, int32_t key) {
  return view.data + s.index * view.stride[0] + row.head * view.stride[1] + row.query * view.stride[2] +
         key * view.stride[3];
}

/// True when the mask, or a bias of -inf, hides a key from a row.
__device__ inline bool hidden(const Params &p, const Sequence &s, Row row, int32_t key) {
  if (p.mask.data && *score_element(p.mask, s, row, key) == 0) return true;
  return p.bias.data && load_element(score_element(p.bias, s, row, key), p.bias_dtype) == -infinity;
}

/// Also where a tree of new tokens is the rule.
template <bool has_trees>
__device__ inline bool hidden_with_tree(const Params &p, const Sequence &s, Row row, int32_t key) {
  if (has_trees && p.tree_mask.data && !attends_in_tree(p, s, row, key)) return true;
  return hidden(p, s, row, key);
}

/// The sum of the values of column d that are NaN or infinite, over the keys that a row attends; 0 when there are none.
template <bool has_trees>
__device__ inline float nonfinite_sum(const Params &p, const WorkTile &w, Row row, Interval keys, int32_t d) {
  float sum = 0;
#pragma unroll 1
  for (int32_t j = keys.low; j < keys.high; j++) {
    const float value = load_element(key_row(p, p.v, w.sequence, j, w.kv_head) + d * p.v.stride[3], p.kv_dtype);
    if (!is_finite(value) && !hidden_with_tree<has_trees>(p, w.sequence, row, j)) sum += value;
  }
  return sum;
}

/// Both halves of a word, 0 in place of one that is NaN or Inf; exponent: its bits in both halves.
__device__ inline uint32_t finite_halves(uint32_t word, uint32_t exponent) {
  const uint32_t low = exponent & 0xffff, high = exponent & 0xffff0000;
  if ((word & low) == low) word &= 0xffff0000;
  if ((word & high) == high) word &= 0xffff;
  return word;
}

/// Zeroes the elements that are not finite in a tile of 16-bit elements in shared memory; by `threads` threads.
__device__ inline void clear_nonfinite(uint32_t tile, int32_t bytes, uint32_t exponent, int32_t thread,
                                       int32_t threads) {
#pragma unroll 1
  for (int32_t at = thread * 16; at < bytes; at += threads * 16) {
    uint4 chunk = ld_shared_v4_b32(tile + at);
    chunk.x = finite_halves(chunk.x, exponent);
    chunk.y = finite_halves(chunk.y, exponent);
    chunk.z = finite_halves(chunk.z, exponent);
    chunk.w = finite_halves(chunk.w, exponent);
    st_shared_v4_b32(tile + at, chunk);
  }
}

/// The same by all threads of a block.
__device__ inline void clear_nonfinite(uint32_t tile, int32_t bytes, uint32_t exponent) {
  clear_nonfinite(tile, bytes, exponent, threadIdx.x, blockDim.x);
}

}  // namespace fa::kernels
