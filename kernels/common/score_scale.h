// Deferred scaling: loops over keys keep raw products Q K^T and fold the softmax scale into the exponential's FMA. This
// file has the conditions under which they may. Compiled by the host's compiler and by nvcc alike.
#pragma once

#include "common/params.h"

namespace fa::kernels {

/// The scales that can be deferred: differences of products overflow only where weights underflow to 0 anyway, and the
/// scale times log2 e is finite.
constexpr float min_deferred_scale = 0x1p-100f, max_deferred_scale = 0x1p127f;

/// Caps up to this one are rounded by less than weights are; steeper ones overflow. See cap_products.
constexpr float max_softcap = 256, min_softcap_slope = 0x1p-100f, max_softcap_slope = 0x1p100f;

constexpr float softcap_slope_of(const Attention &a) {
  return 2 * 1.44269504f * (a.scale / a.softcap);
}

/// A score is score_scale * x (+ the softcap), where x is the raw value in the loop: the product of a query and a key,
/// or the result of cap_products.
constexpr float score_scale(const Attention &a) {
  return a.softcap > 0 ? 2 * a.softcap : a.scale;
}

/// At this score_scale or a larger one, ALiBi's slopes and distances are far from overflow.
constexpr float min_alibi_score_scale = 0x1p-40f;

/// nullptr where scaling can be deferred, else the reason. score_mod: the kernel applies a softcap and ALiBi.
inline const char *unsupported_scores_reason(const Params &p, bool score_mod) {
  if (p.softcap != 0) {
    if (!score_mod) return "a softcap";
    if (p.softcap > max_softcap) return "a softcap above 256";
    const float steepness = softcap_slope_of(p);
    if (!(steepness >= min_softcap_slope && steepness <= max_softcap_slope))
      return "a softcap that is extreme to the scale";
  }
  if (p.bias.data != nullptr) return "a bias";
  if (p.mask.data != nullptr) return "a mask";
  if (p.tree_mask.data != nullptr) return "a tree of new tokens";
  if (p.alibi_slopes.data != nullptr && !score_mod) return "ALiBi";
  if (p.alibi_slopes.data != nullptr && score_scale(p) < min_alibi_score_scale)
    return "ALiBi of an extreme scale or softcap";
  if (!(p.scale >= min_deferred_scale && p.scale <= max_deferred_scale)) return "a scale that is negative or extreme";
  return nullptr;
}

}  // namespace fa::kernels
