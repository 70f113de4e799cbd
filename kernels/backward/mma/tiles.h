// The tiles of the backward kernels, for every SM and head dimension.
#pragma once

#include "common/images.h"
#include "common/row_layout.h"
#include "common/score_scale.h"

namespace fa::kernels::backward_mma {

/// The configuration of a block: owned tiles, and a pipeline of streamed tiles, are in shared memory.
struct Shape {
  int row_blocks;             // of 16 rows, that a warp has
  int warps;                  // of a block; with pairs: in pairs, which share their rows
  int columns;                // rows of a streamed tile
  int stages = 2;             // of the ring
  int min_blocks_per_sm = 1;  // that registers must leave room for
};

/// Two blocks of rows a warp halve the reads of shared memory by the tensor cores: worth shorter steps, wherever
/// registers hold the sums.
constexpr Shape dkv_shape(const Arch &arch, int dim) {
  const bool roomy = arch.shared_bytes >= 163 << 10;  // and fast tensor cores
  if (!arch.has(cp_async)) {
    if (dim <= 64) return {2, 8, 16};
    if (dim <= 128) return {1, 8, 16};
    return {1, 4, 16, dim <= 192 ? 2 : 1};
  }
  if (dim <= 64) return {2, 8, 64};
  if (roomy) {
    if (dim <= 128) return {2, 8, 32};
    return {1, 8, 32};
  }
  if (dim <= 96) return {2, 8, 32};
  if (dim <= 128) return {2, 8, 16};
  if (dim <= 192) return {1, 8, 16};
  return {1, 6, 16};
}

constexpr Shape dq_shape(const Arch &arch, int dim) {
  const bool roomy = arch.shared_bytes >= 163 << 10;
  if (!arch.has(cp_async)) {
    if (dim <= 64) return {1, 8, 32};
    if (dim <= 96) return {1, 4, 32};
    if (dim <= 128) return {1, 4, 16};
    if (dim <= 192) return {1, 4, 16, 1};
    return {1, 2, 16, 1};
  }
  if (roomy) {
    if (dim <= 64) return {2, 4, 64, 2, 2};
    if (dim <= 128 && arch.number >= 100) return {1, 8, 64};  // ptxas spills with two blocks of rows
    if (dim <= 128) return {2, 8, 32};
    if (dim <= 192) return {1, 8, 32};
    return {1, 6, 32};
  }
  if (dim <= 64) return {1, 8, 64};
  if (dim <= 128) return {1, 8, 32};
  if (dim <= 192) return {1, 4, 32};
  return {1, 4, 16};
}

/// {}: none. Steps as long as memory allows, as a step costs some hundred instructions in addition to the scores'; on
/// small SMs two blocks of rows come first. Each warp multiplies whole blocks of 16 columns for dq, so that 96 and 192
/// of them do not divide among any number of warps.
constexpr Shape gradients_shape(const Arch &arch, int dim) {
  if (!arch.has(cp_async)) {
    if (dim <= 32) return {1, 8, 64};
    if (dim <= 64) return {1, 8, 32};
    if (dim <= 96) return {1, 6, 32};
    if (dim <= 128) return {1, 8, 16};
    if (dim <= 192) return {1, 4, 16};
    return {};
  }
  if (arch.shared_bytes >= 163 << 10) {
    if (dim <= 64) return {2, 8, 128};
    if (dim <= 128) return {2, 8, arch.number >= 100 && dim > 96 ? 32 : 64};  // ptxas spills with longer steps
    if (dim <= 192) return {1, 8, 64};
    return {1, 8, 32};
  }
  if (dim <= 64) return {2, 8, 64};
  if (dim <= 96) return {1, 8, 64};
  if (dim <= 128) return {2, 8, 16};
  if (dim <= 192) return {1, 6, 16};
  return {};  // 64 keys do not fit
}

constexpr Shape shape(const Arch &arch, int dim, Entry entry) {
  if (entry == Entry::bwd_fused) return gradients_shape(arch, dim);
  return entry == Entry::dkv ? dkv_shape(arch, dim) : dq_shape(arch, dim);
}

/// Entry points whose blocks own keys, and whose warps are pairs.
constexpr bool has_pairs(Entry entry) {
  return entry == Entry::dkv || entry == Entry::bwd_fused;
}

/// That a block owns.
constexpr int rows(const Shape &s, bool pairs) {
  return 16 * s.row_blocks * (pairs ? s.warps / 2 : s.warps);
}

/// SM 75 has copies pass through registers, where there are enough.
constexpr bool is_staged(const Arch &arch, int dim, Entry entry) {
  return !arch.has(cp_async) && (has_pairs(entry) || dim <= 192);
}

/// Of the blocks of 16 columns of a warp's owned rows, those that stay in registers with sums, scores and copies: as
/// many as there is room for. ptxas needs the other registers, or spills. scales_gradients: a property of the element.
constexpr int kept_blocks(const Arch &arch, const Shape &s, int dim, Entry entry, bool scales_gradients) {
  const int room = arch.number >= 100 ? dim <= 128 ? 184 : 160 : dim <= 192 ? 200 : 184;
  const int operands = has_pairs(entry) ? 1 : 2;  // tiles of owned rows, and of scores, that a warp has
  const int sums = s.row_blocks * dim / 2, scores = operands * s.row_blocks * s.columns / 2;
  const int copies = is_staged(arch, dim, entry) ? s.columns * dim / (32 * s.warps) : 0;
  const int factors = scales_gradients && entry == Entry::bwd_fused ? 8 : 0;
  const int blocks = (room - sums - scores - copies - factors) / (operands * s.row_blocks * 4);
  return blocks < 0 ? 0 : blocks > dim / 16 ? dim / 16 : blocks;
}

/// A float for each score of a pair.
constexpr int exchange_bytes(const Shape &s, bool pairs) {
  return pairs ? rows(s, pairs) * s.columns * 4 : 0;
}

/// Tiles first, as they need alignment; then row statistics, the keys that rows attend, and the work tile.
constexpr int shared_bytes(const Shape &s, int dim, bool pairs) {
  return (2 * rows(s, pairs) + s.stages * 2 * s.columns) * dim * 2 + exchange_bytes(s, pairs) +
         (pairs ? 20 * s.columns : rows(s, pairs) * 8) + 512;
}

constexpr TileConfig tile(const Arch &arch, int dim, Entry entry) {
  if (!has_pairs(entry) && entry != Entry::dq) return {};
  const bool pairs = has_pairs(entry);
  const Shape s = shape(arch, dim, entry);
  if (s.warps == 0) return {};
  const int owned = rows(s, pairs);
  return {pairs ? s.columns : owned,   pairs ? owned : s.columns, 32 * s.warps,
          shared_bytes(s, dim, pairs), s.min_blocks_per_sm,       s.stages};
}

constexpr const char *unsupported_reason(const Attention &a) {
  if (!is_16_bit(a.q_dtype) || a.q_dtype != a.kv_dtype) return "q, k and v are not of one 16-bit type";
  return nullptr;
}

/// Supported are rows of whole multiples of 16 bytes, and scores that are changed by a softcap and ALiBi alone.
inline const char *unsupported_backward_reason(Entry entry, const BackwardParams &p) {
  if (const char *why = unsupported_scores_reason(p, true)) return why;
  if (p.kv_batch_idx != nullptr && has_pairs(entry)) return "sequences that may share keys";
  if (p.has_score_mod && entry == Entry::bwd_fused) return "a softcap or ALiBi";
  if (p.dout_dtype != p.q_dtype) return "dout is not of the type of q";
  if (!is_aligned(p.q, p.head_dim, 2) || !is_aligned(p.k, p.head_dim, 2) || !is_aligned(p.v, p.head_dim_v, 2) ||
      !is_aligned(p.dout, p.head_dim_v, 2))
    return "rows that are not whole multiples of 16 bytes";
  if (!is_near(p.q) || !is_near(p.k) || !is_near(p.v) || !is_near(p.dout)) return "rows 2^24 bytes apart or more";
  return nullptr;
}

#ifndef __CUDACC_RTC__  // NVRTC would put it on the device
/// f16 and bf16 up to head dimension 256.
inline constexpr Family family = {
    tile,
    [](const Attention &a) { return Dtype(a.q_dtype); },
    unsupported_reason,
    [](Entry, const Params &) -> const char * { return "it computes gradients"; },
    false,
    unsupported_backward_reason,
};
#endif

}  // namespace fa::kernels::backward_mma
