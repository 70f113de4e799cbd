// Softcap and ALiBi in loops of gradients that keep raw products (score_scale.h).
#pragma once

#include "collective/deferred_score_mod.cuh"
#include "common/packed.cuh"

namespace fa::kernels {

/// The modifications that a loop is compiled for. softcap: also ALiBi, whose slopes may be 0.
enum class ScoreMod { none, alibi, softcap };

/// That of a call.
__device__ inline ScoreMod score_mod_of(const Params &p) {
  return p.softcap > 0 ? ScoreMod::softcap : p.alibi_slopes.data != nullptr ? ScoreMod::alibi : ScoreMod::none;
}

/// ALiBi, of scores in base 2.
template <ScoreMod Mod>
struct Alibi {
  float neg_slope_2;
  float distance;  // of a thread's first query from its first key

  __device__ Alibi(const Params &p, const Sequence &s, int32_t head) {
    const bool absent = Mod == ScoreMod::none || (Mod == ScoreMod::softcap && p.alibi_slopes.data == nullptr);
    neg_slope_2 = absent ? 0 : -log2_e * alibi_slope(p, s, head);
  }

  /// To the score of another query and key, whose distance is larger by `more`.
  __device__ __forceinline__ float add(float score, int more) const {
    if constexpr (Mod == ScoreMod::none) return score;
    return fmaf(neg_slope_2, fabsf(distance + float(more)), score);
  }
};

/// The softcap of products, in two parts: first t = 1 / (1 + e^2y), where a score is cap tanh y; then scores in base 2.
struct Softcap {
  float steepness, cap_2;

  /// The constants, for shared memory.
  __device__ static float2 constants(const Params &p) { return {softcap_steepness(p), p.softcap * log2_e}; }

  Softcap() = default;

  /// They are loaded each time, so that nothing that needs them begins earlier: registers are few.
  __device__ explicit Softcap(const float2 &constants) {
    const float2 x = ld_volatile_shared_v2_f32(shared_address(&constants));
    steepness = x.x, cap_2 = x.y;
  }

  __device__ __forceinline__ float part_of(float product) const { return -capped_product(product, steepness); }

  /// tanh y = 1 - 2 t. Minus lse.
  __device__ __forceinline__ float score(float t, float neg_lse_log2) const {
    return fmaf(cap_2, fmaf(-2.f, t, 1.f), neg_lse_log2);
  }
  __device__ __forceinline__ float2 score(float2 t, float2 neg_lse_log2) const {
    return fma_rn_f32x2({cap_2, cap_2}, fma_rn_f32x2({-2, -2}, t, {1, 1}), neg_lse_log2);
  }

  /// 1 - tanh^2 y.
  __device__ __forceinline__ static float derivative(float t) { return 4 * t * (1 - t); }
  __device__ __forceinline__ static float2 derivative(float2 t) {
    return mul_rn_f32x2(t, fma_rn_f32x2({-4, -4}, t, {4, 4}));
  }
};

}  // namespace fa::kernels
