// From products to weights: P = 2^(x log2 e - lse log2 e), with scale, softcap and ALiBi in the order of fa.h, and
// P (1 - tanh^2), which makes gradients of the products before the softcap.
#pragma once

#include "backward/mma/block.cuh"
#include "collective/deferred_score_mod.cuh"
#include "collective/nonfinite.cuh"

namespace fa::kernels::backward_mma {

/// The score modification of the backward pass: from a product to a score in base 2.
struct ScoreModBwd {
  float scale_2;           // without a softcap: scale log2 e
  float steepness, cap_2;  // 2 log2 e scale / cap, cap log2 e
  float slope_2 = 0;       // ALiBi, of the head

  __device__ static float scale_2_of(const BackwardParams &p) { return p.scale * log2_e; }

  __device__ ScoreModBwd(const BackwardParams &p, const Sequence &s, int head)
      : scale_2(scale_2_of(p)), steepness(2 * log2_e * p.scale * p.inverse_softcap), cap_2(p.softcap * log2_e) {
    if (p.alibi_slopes.data == nullptr) return;
    slope_2 = log2_e * alibi_slope(p, s, head);
  }

  /// The weight of a product; distance: of the query from the key. *of_products: the factor of gradients of products.
  template <bool Capped>
  __device__ float weigh(float product, float neg_lse_log2, float distance, float *of_products) const {
    float x = neg_lse_log2, derivative = 1;
    if constexpr (Capped) {  // tanh = 1 - 2 t with t = 1 / (1 + e^2y), and 1 - tanh^2 = 4 t (1 - t)
      // NaN of a product that is not finite: the elements of Q or K that make gradients so are zeroed.
      const float t = -capped_product(fmaf(product, 0.f, product), steepness);
      x = fmaf(cap_2, fmaf(-2.f, t, 1.f), x);
      derivative = 4 * t * (1 - t);
    } else {
      x = fmaf(product, scale_2, x);
    }
    const float weight = ex2_approx_ftz(add_alibi(x, slope_2, distance));
    *of_products = weight * derivative;
    return weight;
  }
};

/// Not 0 when a product is NaN or infinite.
template <class B>
__device__ inline bool any_nonfinite(const typename B::Scores &s) {
  float zero = 0;
  s.for_each([&](float x, int, int) { zero = fmaf(x, 0.f, zero); });
  return zero != 0;
}

/// Replaces non-finite elements of a streamed tile by 0: a product by a masked weight is 0 then. By the whole block.
template <class B>
__device__ inline void clear_nonfinite(uint32_t tile) {
  kernels::clear_nonfinite(tile, B::StreamedTile::bytes, B::exponents);
}

}  // namespace fa::kernels::backward_mma
