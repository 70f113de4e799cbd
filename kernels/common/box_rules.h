// The rules of families that copy tiles in boxes and multiply whole tiles (wgmma, tcgen05): the calls that they
// support.
#pragma once

#include "common/images.h"
#include "common/score_scale.h"

namespace fa::kernels {

/// Why no such family supports an attention; nullptr where one may.
constexpr const char *unsupported_types_reason(const Attention &a) {
  if (!is_16_bit(a.q_dtype) || a.q_dtype != a.kv_dtype) return "q, k and v are not of one 16-bit type";
  if (a.out_dtype != f32 && a.out_dtype != a.q_dtype) return "out is neither f32 nor of q's type";
  if (a.head_dim <= 32 && a.head_dim_v <= 32) return "its narrowest tiles have 64 columns";
  return nullptr;
}

/// Why no such entry point supports a call. Scores need nothing but the scale, and with features a softcap and ALiBi;
/// results are written in whole chunks of 16 bytes. Whether q, k and v can be copied in boxes is for the host to find
/// when it encodes their maps.
inline const char *unsupported_rows_reason(Entry entry, const Params &p) {
  if (const char *why = unsupported_scores_reason(p, entry == Entry::score_mod)) return why;
  const int64_t element = element_bytes(ComputeTypes(), p.out_dtype);
  const int64_t all = p.out.stride[0] | p.out.stride[1] | p.out.stride[2] | p.head_dim_v * element;
  if (reinterpret_cast<uintptr_t>(p.out.data) % 16 != 0 || all % 16 != 0 || p.out.stride[3] != element)
    return "rows of out that are not whole multiples of 16 bytes";
  return nullptr;
}

/// Few models have features at head dimensions between powers of two: mma has those.
constexpr bool has_score_mod_entry(int dim) {
  return (dim & (dim - 1)) == 0;
}

}  // namespace fa::kernels
