// The tiles of the tensor-core kernels for quantised keys and values, for every SM, head dimension and entry point.
#pragma once

#include "common/quantised_params.h"
#include "common/row_layout.h"
#include "common/score_scale.h"

namespace fa::kernels::mma_quantised {

/// Tiles of codes that are on their way, or in use.
constexpr int code_stages = 2;

/// The configuration of a block. In shared memory are queries, a tile of keys and one of values in 16 bits, and codes.
struct Shape {
  int row_blocks;                        // of 16 rows, that a warp has
  int warps;                             // of a block
  int keys;                              // of a tile
  bool split_keys_across_warps = false;  // all have the same rows, and each its part of a tile's keys
  bool q_in_registers = false;           // nowhere
};

/// Codes are widened once for all rows of a block: as many rows as an SM has room for.
constexpr Shape split_shape(const Arch &arch, int dim) {
  if (dim <= 128) return {1, 8, 32};
  return {1, 4, arch.has(cp_async) ? 32 : 16};
}

constexpr Shape decode_shape(int dim) {
  if (dim <= 128) return {1, 4, 64, true};
  return {1, 2, 32, true};
}

/// As many rows as registers have room for, as codes are widened once for all. None on SM 75.
constexpr Shape plain_shape(const Arch &arch, int dim) {
  const bool roomy = arch.shared_bytes >= 163 << 10;
  if (!arch.has(cp_async)) return {};
  if (dim <= 128) return {2, 8, arch.number < 90 && roomy ? 64 : 32};  // ptxas spills with 64 keys
  return {1, roomy ? 8 : 4, 32};
}

constexpr Shape shape(const Arch &arch, int dim, Entry entry) {
  if (entry == Entry::plain) return plain_shape(arch, dim);
  return entry == Entry::decode ? decode_shape(dim) : split_shape(arch, dim);
}

constexpr int rows(const Shape &s) {
  return 16 * s.row_blocks * (s.split_keys_across_warps ? 1 : s.warps);
}

/// Stages of codes: SM 75, which copies them at once, has none in advance. Those of plain are on their way while the
/// tile before them is multiplied.
constexpr int code_stages_of(const Arch &arch, Entry entry) {
  return arch.has(cp_async) && entry != Entry::plain ? code_stages : 1;
}

/// Bytes of shared memory for each row, and for the block.
constexpr int state_bytes(const Shape &s) {
  return (rows(s) * 9 + 128 + 127) / 128 * 128;
}

/// Numbers of a key that two tiles have room for, where it is, and a number of each row.
constexpr int factor_bytes(const Shape &s) {
  return 56 * s.keys + rows(s) * 4 + 96;
}

/// Tiles first, as they need alignment.
constexpr int shared_bytes(const Arch &arch, const Shape &s, int dim, Entry entry) {
  return (rows(s) + 2 * s.keys) * dim * 2 + state_bytes(s) + code_stages_of(arch, entry) * 2 * s.keys * dim +
         factor_bytes(s);
}

constexpr TileConfig tile(const Arch &arch, int dim, Entry entry) {
  if (entry != Entry::plain && entry != Entry::split && entry != Entry::decode) return {};
  const Shape s = shape(arch, dim, entry);
  if (s.warps == 0) return {};
  return {rows(s), s.keys, 32 * s.warps, shared_bytes(arch, s, dim, entry), 1, code_stages_of(arch, entry)};
}

constexpr const char *unsupported_reason(const Attention &a) {
  if (!is_16_bit(a.q_dtype)) return "q is not of a 16-bit type";
  if (a.out_dtype != f32 && a.out_dtype != a.q_dtype) return "out is neither f32 nor of q's type";
  return nullptr;
}

constexpr bool is_code(int32_t dtype) {
  return code_kind(dtype) == CodeKind::integer || code_kind(dtype) == CodeKind::floating;
}

/// Whether a byte has two codes.
constexpr bool is_packed(int32_t dtype) {
#define FA_CODES(codes, number, name, kind, elements, bytes) \
  if (dtype == number) return CodeKind::kind != CodeKind::block && elements > bytes;
#include "core/codes.inc"
#undef FA_CODES
  return false;
}

constexpr const char *unsupported_types_reason(const Attention &a, int32_t v_dtype) {
  return is_code(a.kv_dtype) && is_code(v_dtype) ? nullptr
                                                 : "k and v are not both of FA_I8, FA_I4, FA_U4, FA_E4M3 or FA_E5M2";
}

/// Products of codes less the whole part of a zero are exact in 16 bits, and scales of keys are factors of products.
inline const char *unsupported_factors_reason(const QuantisedParams &p) {
  for (const bool of_k : {true, false}) {
    const Factors &scale = p.factors[of_k ? k_scale : v_scale], &zero = p.factors[of_k ? k_zero : v_zero];
    const int32_t dim = of_k ? p.head_dim : p.head_dim_v, dtype = of_k ? p.kv_dtype : p.v_dtype;
    if (scale.data != nullptr && scale.channels != dim) return "scales of groups of channels";
    if (zero.data != nullptr && zero.channels != dim) return "zeros of groups of channels";
    if (zero.data != nullptr && code_kind(dtype) == CodeKind::floating) return "zeros of floating codes";
    const View &rows = of_k ? p.k : p.v;
    if (rows.stride[3] != (is_packed(dtype) ? 0 : 1)) return "elements of a row that are not adjacent";
  }
  return nullptr;
}

/// Rows of codes consist of whole aligned chunks of 16 bytes.
inline bool has_aligned_codes(const View &rows, int32_t columns, int32_t dtype) {
  const int64_t all = rows.stride[0] | rows.stride[1] | rows.stride[2] | columns >> is_packed(dtype);
  return reinterpret_cast<uintptr_t>(rows.data) % 16 == 0 && all % 16 == 0;
}

/// Of Entry::plain: rows of a tile then begin within 2^16 keys of each other; products in units of a code have
/// exponents to spare.
constexpr int longest_chunk = 1 << 15;
constexpr float max_plain_scale = 0x1p100f;

/// Entry::plain has scores that need nothing but scales, from aligned rows; the others take everything.
inline const char *unsupported_call_reason(Entry entry, const Params &call) {
  if (entry != Entry::plain) return unsupported_tree_reason(call);
  const QuantisedParams &p = static_cast<const QuantisedParams &>(call);  // as every call of a QuantisedFamily is
  if (const char *why = unsupported_scores_reason(p, false)) return why;
  if (p.scale > max_plain_scale) return "a scale that is negative or extreme";
  if (p.factors[k_zero].data != nullptr || p.factors[v_zero].data != nullptr) return "zeros";
  if (p.chunk > longest_chunk) return "chunks above 2^15 keys";
  const int64_t of_out = element_bytes(ComputeTypes(), p.out_dtype);
  if (!is_aligned(p.q, p.head_dim, 2) || !is_aligned(p.out, p.head_dim_v, of_out) ||
      !has_aligned_codes(p.k, p.head_dim, p.kv_dtype) || !has_aligned_codes(p.v, p.head_dim_v, p.v_dtype))
    return "rows that are not whole multiples of 16 bytes";
  return nullptr;
}

#ifndef __CUDACC_RTC__  // NVRTC would put it on the device
/// f16 and bf16 queries up to head dimension 256.
inline constexpr QuantisedFamily family = {
    {
        tile,
        [](const Attention &a) { return Dtype(a.q_dtype); },
        unsupported_reason,
        unsupported_call_reason,
        false,
    },
    unsupported_types_reason,
    unsupported_factors_reason,
};
#endif

}  // namespace fa::kernels::mma_quantised
