// Softcap and ALiBi on the products of a thread's row, in Entry::score_mod (collective/deferred_score_mod.cuh).
#pragma once

#include "collective/deferred_score_mod.cuh"
#include "forward/tcgen05/block.cuh"

namespace fa::kernels::tcgen05 {

template <class B>
struct ScoreMod {
  float steepness = 0;  // of the softcap; 0: none
  float slope = 0;      // in units of raw scores
  int64_t position;     // of the query among the keys
  bool sloped = false;

  __device__ ScoreMod(const Params &p, const WorkTile &w, int32_t row) {
    if constexpr (!B::score_mod) return;
    if (p.softcap > 0) steepness = softcap_steepness(p);
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
    const float distance = float(position - first);
    if (sloped) each([&](float s, int i) { return add_alibi(s, slope, distance - float(i)); });
  }
};

}  // namespace fa::kernels::tcgen05
