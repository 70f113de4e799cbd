// What stands for a score in loops that multiply by its scale no sooner than in the exponential, and the calls whose
// scores it can stand for. Compiled by the host's compiler and by nvcc alike.
#pragma once

#include "common/params.h"

namespace fa::kernels {

/// Scales that may wait for the exponential: differences of products that overflow are then differences of scores that
/// leave no weight, and the factor itself, times log2 e, stays finite.
constexpr float least_scale = 0x1p-100f, most_scale = 0x1p127f;

/// Caps up to this one are rounded by less than weights are; steeper ones overflow. See cap_products.
constexpr float most_softcap = 256, least_steepness = 0x1p-100f, most_steepness = 0x1p100f;

constexpr float steepness_of(const Attention &a) {
  return 2 * 1.44269504f * (a.scale / a.softcap);
}

/// A score is unit_of x, and the softcap, where x is what such a loop has in place of it: the product of a query and a
/// key, or what cap_products makes of it.
constexpr float unit_of(const Attention &a) {
  return a.softcap > 0 ? 2 * a.softcap : a.scale;
}

/// ALiBi's slopes and distances, in this unit or a larger one, are far from overflow.
constexpr float least_sloped_unit = 0x1p-40f;

/// Why scores are not such an x; nullptr when they are. features: a softcap and ALiBi may change them.
inline const char *why_not_scores(const Params &p, bool features) {
  if (p.softcap != 0) {
    if (!features) return "a softcap";
    if (p.softcap > most_softcap) return "a softcap above 256";
    const float steepness = steepness_of(p);
    if (!(steepness >= least_steepness && steepness <= most_steepness)) return "a softcap that is extreme to the scale";
  }
  if (p.bias.data != nullptr) return "a bias";
  if (p.mask.data != nullptr) return "a mask";
  if (p.alibi_slopes.data != nullptr && !features) return "ALiBi";
  if (p.alibi_slopes.data != nullptr && unit_of(p) < least_sloped_unit) return "ALiBi of an extreme scale or softcap";
  if (!(p.scale >= least_scale && p.scale <= most_scale)) return "a scale that is negative or extreme";
  return nullptr;
}

}  // namespace fa::kernels
