// The tiles of the tensor-core kernels, for every SM, head dimension and entry point.
#pragma once

#include "common/images.h"
#include "common/presets.h"
#include "common/row_layout.h"
#include "common/score_scale.h"

namespace fa::kernels::mma {

/// The configuration of a block. Queries, and a pipeline of alternating tiles of keys and values, are in shared memory.
struct Shape {
  int row_blocks;                        // of 16 rows, that a warp has
  int warps;                             // of a block
  int keys;                              // of a tile
  int stages;                            // tiles in the ring
  bool q_in_registers;                   // rather than read from shared memory for every tile
  int min_blocks_per_sm = 1;             // that registers must leave room for
  bool split_keys_across_warps = false;  // all have the same rows, and each its part of a tile's keys
};

/// Two blocks of rows a warp halve the reads of shared memory by the tensor cores. Two blocks of threads an SM: when
/// one waits at a barrier, the other runs.
constexpr Shape plain_shape(const Arch &arch, int dim) {
  const int sm = arch.number;
  const bool roomy = arch.shared_bytes >= 163 << 10;  // and fast tensor cores
  if (!arch.has(cp_async)) {
    if (dim <= 96) return {1, 8, 64, 2, true};
    if (dim <= 128) return {1, 8, 32, 2, true};
    return {1, 4, dim <= 192 ? 32 : 16, 2, false};
  }
  if (built_preset == Preset::narrow && dim <= 128) return {roomy ? 2 : 1, roomy ? 4 : 8, 32, 6, false, roomy ? 2 : 1};
  if (built_preset == Preset::narrow) return {1, 8, 32, roomy ? 4 : dim <= 192 ? 3 : 2, false};
  if (built_preset == Preset::even && dim <= 128) return {1, 8, 64, 3, dim <= 64 || !roomy};
  if (roomy) {
    if (dim == 64 && sm < 90) return {2, 4, 96, 3, false, 2};
    if (dim <= 64) return {2, 4, 64, 4, true, 2};
    if (dim <= 128 && sm >= 90) return {2, 4, 32, 6, false, 2};  // ptxas spills with 64 keys
    if (dim <= 128) return {2, 4, 64, 3, false, 2};
    if (dim <= 192) return {1, 8, 64, 3, false};
    return {1, 8, 64, 3, false};
  }
  if (dim <= 64) return {2, 4, 64, 4, true, 2};
  if (dim <= 128) return {2, 4, 32, dim <= 96 ? 3 : 2, false, 2};
  if (dim <= 192) return {1, 8, 32, 3, false};
  return {1, 8, 32, 2, false};
}

/// Few registers for queries and sums, so that masks, biases and strides of any kind have theirs.
constexpr Shape general_shape(const Arch &arch, int dim) {
  if (!arch.has(cp_async)) return {1, 4, dim <= 128 ? 64 : dim <= 192 ? 32 : 16, 2, false};
  if (dim <= 128) return {1, 4, 64, 3, false};
  return {1, 4, 32, dim <= 192 ? 4 : 3, false};
}

/// As general, with more keys on their way: the memory's rate decides.
constexpr Shape split_shape(const Arch &arch, int dim) {
  if (!arch.has(cp_async)) return general_shape(arch, dim);
  if (dim <= 64) return {1, 4, 64, 6, false};
  if (dim <= 128) return {1, 4, 64, 4, false};
  return {1, 4, 32, dim <= 192 ? 4 : 3, false};
}

/// The rows of a token or two would keep one warp of split's busy, which then takes longer than the memory.
constexpr Shape decode_shape(const Arch &arch, int dim) {
  if (dim > 128) return {1, 2, 32, arch.has(cp_async) ? 4 : 2, false, 1, true};
  return {1, 4, dim <= 64 ? 128 : 64, arch.has(cp_async) ? 4 : 2, false, 1, true};
}

constexpr int rows(const Shape &s) {
  return 16 * s.row_blocks * (s.split_keys_across_warps ? 1 : s.warps);
}

/// True of the entry points that share plain's loop.
constexpr bool is_plain(Entry entry) {
  return entry == Entry::plain || entry == Entry::score_mod;
}

/// Tiles first, as they need alignment; then the state of each row, and of the block.
constexpr int shared_bytes(const Shape &s, int dim, Entry entry) {
  return (rows(s) + s.stages * s.keys) * dim * 2 + rows(s) * (is_plain(entry) ? 7 : 9) + 128;
}

constexpr Shape shape(const Arch &arch, int dim, Entry entry) {
  if (is_plain(entry)) return plain_shape(arch, dim);
  Shape s = entry == Entry::general ? general_shape(arch, dim)
            : entry == Entry::split ? split_shape(arch, dim)
                                    : decode_shape(arch, dim);
  // Three blocks where shared memory holds them: left to itself, ptxas takes a few registers more than they have.
  const bool third_fits = 3 * (shared_bytes(s, dim, entry) + 1024) <= arch.shared_bytes + 1024;
  if (arch.has(cp_async) && third_fits && (dim == 96 || (dim == 128 && entry == Entry::decode)))
    s.min_blocks_per_sm = 3;
  return s;
}

constexpr TileConfig tile(const Arch &arch, int dim, Entry entry) {
  if (entry == Entry::narrow || entry == Entry::combine || is_backward(entry)) return {};
  const Shape s = shape(arch, dim, entry);
  return {rows(s), s.keys, 32 * s.warps, shared_bytes(s, dim, entry), s.min_blocks_per_sm, s.stages};
}

/// Of Entry::plain: rows of a tile then begin within 2^16 keys of each other.
constexpr int longest_chunk = 1 << 15;

constexpr const char *unsupported_reason(const Attention &a) {
  if (!is_16_bit(a.q_dtype) || a.q_dtype != a.kv_dtype) return "q, k and v are not of one 16-bit type";
  if (a.out_dtype != f32 && a.out_dtype != a.q_dtype) return "out is neither f32 nor of q's type";
  return nullptr;
}

/// Entry::plain has scores that need nothing but the scale, from rows in the middle of memory as it is; score_mod may
/// have pages, a softcap and ALiBi; the others take everything.
inline const char *unsupported_call_reason(Entry entry, const Params &p) {
  if (!is_plain(entry)) return unsupported_tree_reason(p);
  if (const char *why = unsupported_scores_reason(p, entry == Entry::score_mod)) return why;
  if (p.page_size != 0 && entry == Entry::plain) return "paged keys";
  if (p.stride_unit == 0 && entry == Entry::score_mod) return "rows of keys or values too far apart for 32 bits";
  if (p.chunk > longest_chunk) return "chunks above 2^15 keys";
  const int64_t of_out = element_bytes(ComputeTypes(), p.out_dtype);
  if (!is_aligned(p.q, p.head_dim, 2) || !is_aligned(p.k, p.head_dim, 2) || !is_aligned(p.v, p.head_dim_v, 2) ||
      !is_aligned(p.out, p.head_dim_v, of_out))
    return "rows that are not whole multiples of 16 bytes";
  if (!is_near(p.k) || !is_near(p.v)) return "rows of keys or values 2^24 bytes apart or more";
  return nullptr;
}

#ifndef __CUDACC_RTC__  // NVRTC would put it on the device
/// f16 and bf16 up to head dimension 256.
inline constexpr Family family = {tile, [](const Attention &a) { return Dtype(a.q_dtype); }, unsupported_reason,
                                  unsupported_call_reason, true};
#endif

}  // namespace fa::kernels::mma
