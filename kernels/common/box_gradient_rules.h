// The rules of backward families that copy tiles in boxes and multiply whole tiles (backward_wgmma, backward_tcgen05):
// the calls that they support.
#pragma once

#include "common/images.h"
#include "common/score_scale.h"

namespace fa::kernels {

/// Why no such family supports an attention; nullptr where one may.
constexpr const char *unsupported_gradient_types_reason(const Attention &a) {
  if (!is_16_bit(a.q_dtype) || a.q_dtype != a.kv_dtype) return "q, k and v are not of one 16-bit type";
  if (scales_gradients(a.q_dtype)) return "gradients that need factors";
  return nullptr;
}

/// Why no such entry point supports a call. Supported are scores that are changed by a softcap and ALiBi alone.
inline const char *unsupported_gradients_reason(Entry, const BackwardParams &p) {
  if (const char *why = unsupported_scores_reason(p, true)) return why;
  if (p.kv_batch_idx != nullptr) return "sequences that may share keys";
  if (p.dout_dtype != p.q_dtype) return "dout is not of the type of q";
  return nullptr;
}

}  // namespace fa::kernels
