// The tiles of the kernels for warpgroups (Hopper), for every head dimension; and the calls that they support.
#pragma once

#include "common/images.h"
#include "common/presets.h"
#include "common/score_scale.h"

namespace fa::kernels::wgmma {

/// The configuration of a block: a producer warpgroup, and consumer warpgroups with 64 rows of queries each.
struct Shape {
  int consumers;
  int keys;                                    // of a tile
  int stages;                                  // tiles of keys, and as many of values, that shared memory has room for
  int producer_registers, consumer_registers;  // of a thread: 64 K in all
  bool pingpong = true;  // consumers begin their products in turns: the warp scheduler barrier of FlashAttention-3
};

/// The standard tiles: the winners of scripts/gpu-session.sh tune, a line a head dimension. Not yet measured
/// on hardware.
constexpr Winner winners[] = {
    {64, Preset::standard},   //
    {96, Preset::standard},   //
    {128, Preset::standard},  //
    {192, Preset::standard},  //
    {256, Preset::standard},  //
};

constexpr Shape shape_of(Preset preset, int dim) {
  const bool deep = preset == Preset::deep, wide = preset == Preset::wide, pingpong = preset != Preset::loose;
  if (dim <= 64 && wide) return {2, 192, 3, 72, 216};
  if (dim <= 96) return {2, deep ? 96 : 128, deep ? 4 : 3, 72, 216, pingpong};
  if (dim <= 128) return {2, deep ? 96 : 128, deep ? 3 : 2, 72, 216, pingpong};
  if (dim <= 192) return {2, deep ? 64 : 112, deep ? 3 : 2, 72, 216, pingpong};
  return {2, 64, 2, 56, 224, pingpong};  // half of the registers are sums
}

constexpr Shape shape(int dim, Entry entry) {
  if (entry == Entry::narrow) return {2, 128, 2, 72, 216, built_preset != Preset::loose};
  for (const Winner &winner : winners)
    if (built_preset == Preset::standard && dim <= winner.dim) return shape_of(winner.preset, dim);
  return shape_of(built_preset, dim);
}

constexpr int rows_of_warpgroup = 64;

constexpr int rows(const Shape &s) {
  return rows_of_warpgroup * s.consumers;
}

constexpr int threads(const Shape &s) {
  return 128 * (1 + s.consumers);
}

constexpr int rows_of_warp = 16;

/// Values of this many columns at most have a separate entry point with queries of 192 (Entry::narrow), as in
/// DeepSeek's prefill: their sums leave registers for more keys.
constexpr int narrow_columns = 128;
constexpr bool has_narrow(int dim) {
  return dim == 192;
}
constexpr int columns_of_values(int dim, Entry entry) {
  return entry == Entry::narrow ? narrow_columns : dim;
}

/// Head dimensions whose results have separate shared memory, from which they go to out in boxes while the next work
/// tile's queries arrive. Wider ones leave no room for it.
constexpr bool boxes_of_out(int dim) {
  return dim <= 128;
}

/// Head dimensions at which the producer has registers for rows on pages that boxes do not reach, and for tiles that
/// packed heads do not fill.
constexpr bool producer_has_registers(int dim) {
  return dim <= 192;
}

/// Tiles first; then barriers, and the warpgroups' messages to each other.
constexpr int shared_bytes(const Shape &s, int dim, int dim_v) {
  const int of_out = boxes_of_out(dim) ? rows(s) * dim_v : 0;
  return (rows(s) * dim + s.stages * s.keys * (dim + dim_v) + of_out) * 2 + 1024;
}

/// Few models have features at head dimensions between powers of two: mma has those.
constexpr bool has_score_mod_entry(int dim) {
  return (dim & (dim - 1)) == 0;
}

/// Head dimensions with ALiBi: beyond them no registers are left for it.
constexpr int max_alibi_dim = 128;

constexpr TileConfig tile(const Arch &, int dim, Entry entry) {
  const bool has = entry == Entry::plain || (entry == Entry::narrow && has_narrow(dim)) ||
                   (entry == Entry::score_mod && has_score_mod_entry(dim));
  if (!has) return {};
  const Shape s = shape(dim, entry);
  return {.rows = rows(s),
          .keys = s.keys,
          .threads = threads(s),
          .shared_bytes = shared_bytes(s, dim, columns_of_values(dim, entry)),
          .stages = s.stages,
          .cuts = true,
          .persistent = true,
          .box_queries = rows_of_warpgroup,
          .box_keys = s.keys,
          .box_out = boxes_of_out(dim) ? rows_of_warp : 0,
          .box_columns = dim % 64 == 0 ? 64 : 32,
          .gathers = producer_has_registers(dim),
          .partial_boxes = producer_has_registers(dim)};
}

constexpr const char *unsupported_reason(const Attention &a) {
  if (!is_16_bit(a.q_dtype) || a.q_dtype != a.kv_dtype) return "q, k and v are not of one 16-bit type";
  if (a.out_dtype != f32 && a.out_dtype != a.q_dtype) return "out is neither f32 nor of q's type";
  if (a.head_dim <= 32 && a.head_dim_v <= 32) return "its narrowest tiles have 64 columns";
  return nullptr;
}

/// Scores need nothing but the scale, and with features a softcap and ALiBi; results are written in whole chunks of 16
/// bytes. Whether q, k and v can be copied in boxes is for the host to find when it encodes their maps.
inline const char *unsupported_call_reason(Entry entry, const Params &p) {
  if (entry == Entry::narrow && p.head_dim_v > narrow_columns) return "values of more than 128 columns";
  if (const char *why = unsupported_scores_reason(p, entry == Entry::score_mod)) return why;
  if (p.alibi_slopes.data != nullptr && (p.head_dim > max_alibi_dim || p.head_dim_v > max_alibi_dim))
    return "ALiBi at head dimensions above 128";
  const int64_t element = element_bytes(ComputeTypes(), p.out_dtype);
  const int64_t all = p.out.stride[0] | p.out.stride[1] | p.out.stride[2] | p.head_dim_v * element;
  if (reinterpret_cast<uintptr_t>(p.out.data) % 16 != 0 || all % 16 != 0 || p.out.stride[3] != element)
    return "rows of out that are not whole multiples of 16 bytes";
  return nullptr;
}

#ifndef __CUDACC_RTC__  // which would put it on the device
/// f16 and bf16; decode, and scores with a bias or a mask, are for others.
inline constexpr Family family = {tile, [](const Attention &a) { return Dtype(a.q_dtype); }, unsupported_reason,
                                  unsupported_call_reason, false};
#endif

}  // namespace fa::kernels::wgmma
