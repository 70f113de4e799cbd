// Parameters derived from the rest of a call's parameters, once by the host in place of every block.
#pragma once

#include <algorithm>
#include <bit>
#include <cfloat>

#include "common/params.h"
#include "schema/fields.def"

namespace fa::cuda {

/// Division of numbers below 2^31 by a product and a shift (Granlund and Montgomery 1994); by 0: all quotients are 0.
constexpr kernels::FastDivmod divisor_of(int64_t n) {
  if (n <= 0) return {0, 31};
  const int shift = std::bit_width(static_cast<uint32_t>(n - 1));
  const uint64_t rest = (uint64_t{1} << shift) - static_cast<uint64_t>(n);
  return {static_cast<uint32_t>((rest << 32) / static_cast<uint64_t>(n) + 1), shift};
}

/// The layout of rows of this many elements. near: offsets of rows fit 32 bits.
inline kernels::Layout layout_of(const kernels::View &view, int64_t dim, bool near) {
  const int64_t strides = view.stride[0] | view.stride[1] | view.stride[2];
  if (view.stride[3] != 2 || (reinterpret_cast<intptr_t>(view.data) | strides) % 16 != 0)
    return kernels::unaligned_rows;
  return dim % 8 == 0 && near ? kernels::vectorizable_rows : kernels::aligned_rows;
}

/// Sets a launch's schedule and the parameters derived from it.
inline void set_schedule(const kernels::TileSchedulerParams &s, kernels::Params *p) {
  p->schedule = s;
  p->by_num_splits = divisor_of(s.num_splits);
  p->by_head_groups = divisor_of(s.head_groups);
  p->by_heads_per_tile = divisor_of(s.heads_per_tile);
  p->by_tile_rows = divisor_of(s.tile_rows);
  p->by_sequence_tiles = divisor_of(s.sequence_tiles);
  p->by_groups_of_kv_head = divisor_of(p->heads_kv > 0 ? s.head_groups / p->heads_kv : 0);
}

/// Sets the parameters derived from a call's inputs.
inline void derive(kernels::Params *p) {
  if (p->window_left < 0 && p->window_right < 0 && p->chunk == 0 && p->alibi_slopes.data == nullptr)
    p->tree_depth = {};  // no position matters
  p->by_page_size = divisor_of(p->page_size);
  const auto near = [&](const kernels::View &view) {
    if (p->page_size != 0) return p->stride_unit != 0;
    return -kernels::longest_row < view.stride[1] && view.stride[1] < kernels::longest_row;
  };
  p->q_layout = layout_of(p->q, p->head_dim, true);
  p->k_layout = layout_of(p->k, p->head_dim, near(p->k));
  p->v_layout = layout_of(p->v, p->head_dim_v, near(p->v));
  p->inverse_softcap = p->softcap > 0 ? std::min(1 / p->softcap, FLT_MAX / (2 * 1.44269504F)) : 0;
#define FA_ARRAY(name, ...) p->is_varlen |= p->name != nullptr;
  FA_FORWARD_FIELDS(FA_NOTHING, FA_ARRAY, FA_NOTHING)
#undef FA_ARRAY
  // A query alone, at the end of its keys, sees them all.
  const bool causal = p->causal != 0 && (p->max_seqlen_q > 1 || p->top_left != 0 || p->q_offset != nullptr ||
                                         p->tree_mask.data != nullptr);
  p->has_key_bounds = causal || p->window_left >= 0 || p->window_right >= 0 || p->chunk > 0;
  p->has_score_mod =
      p->softcap != 0 || p->bias.data != nullptr || p->alibi_slopes.data != nullptr || p->mask.data != nullptr;
}

}  // namespace fa::cuda
