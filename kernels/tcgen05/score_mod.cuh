// What a softcap and ALiBi make of the products of a thread's row, where an entry point has them (common/features.cuh).
#pragma once

#include "common/features.cuh"
#include "tcgen05/block.cuh"

namespace fa::kernels::tcgen05 {

template <class B>
struct ScoreMod {
  float steepness = 0;  // of the softcap; 0: none
  float slope = 0;      // in units of raw scores
  int64_t position;     // of the query among the keys
  bool sloped = false;

  __device__ ScoreMod(const Params &p, const WorkTile &w, int32_t row) {
    if constexpr (!B::score_mod) return;
    if (p.softcap > 0) steepness = p.scale * p.inverse_softcap * (2 * log2_e);
    if (p.alibi_slopes.data == nullptr) return;
    const Row at = row_at(p, w, min(row, w.rows - 1));
    sloped = true;
    slope = __fdividef(alibi_slope(p, w.sequence, at.head), score_scale(p));
    position = at.query + w.sequence.offset;
  }

  /// first: the key of x[0].
  __device__ __forceinline__ void make(uint32_t (&x)[B::keys], int first) const {
    if constexpr (!B::score_mod) return;
    const auto each = [&](auto &&change) {
      unroll<B::keys>([&](int i) { x[i] = __float_as_uint(change(__uint_as_float(x[i]), i)); });
    };
    if (steepness > 0) each([&](float s, int) { return capped_product(s, steepness); });
    // x = x - slope |i + offset - j|
    const float distance = float(position - first);
    if (sloped) each([&](float s, int i) { return fmaf(-slope, fabsf(distance - float(i)), s); });
  }
};

}  // namespace fa::kernels::tcgen05
