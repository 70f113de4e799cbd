// The tiles of the kernels for warpgroups (Hopper), for every head dimension; and the calls that they support.
#pragma once

#include "common/box_rules.h"
#include "common/presets.h"

namespace fa::kernels::wgmma {

/// The configuration of a block: a producer warpgroup, and consumer warpgroups with 64 rows of queries each, or with
/// the same 64 rows.
struct Shape {
  int consumers;
  int keys;                                    // of a tile
  int stages;                                  // tiles of keys, and as many of values, that shared memory has room for
  int producer_registers, consumer_registers;  // of a thread: 64 K in all
  bool pingpong = true;         // consumers alternate their products: the warp scheduler barrier of FlashAttention-3
  bool shares_rows = false;     // each consumer has half of a tile's keys and half of the columns of out (partner.cuh)
  bool values_in_keys = false;  // the first columns of keys are the values: latent attention
};

/// The tiles of each head dimension: the winners of scripts/gpu-session.sh tune, once it has run. Not yet tuned.
constexpr Winner winners[] = {
    {64, Preset::standard},   //
    {96, Preset::standard},   //
    {128, Preset::standard},  //
    {192, Preset::standard},  //
    {256, Preset::standard},  //
    {576, Preset::standard},  //
};

constexpr Shape shape_of(Preset preset, int dim) {
  const bool deep = preset == Preset::deep, wide = preset == Preset::wide, pingpong = preset != Preset::loose;
  if (dim <= 64 && wide) return {2, 192, 3, 72, 216};
  if (dim <= 96) return {2, deep ? 96 : 128, deep ? 4 : 3, 72, 216, pingpong};
  if (dim <= 128) return {2, deep ? 96 : 128, deep ? 3 : 2, 72, 216, pingpong};
  if (dim <= 192) return {2, deep ? 64 : 112, deep ? 3 : 2, 72, 216, pingpong};
  if (dim <= 256) return {2, 64, 2, 56, 224, pingpong};  // half of the registers are sums
  return {2, 64, 1, 56, 224, false, true};               // a row of sums fills the registers of two threads
}

constexpr Shape shape(int dim, Entry entry) {
  if (entry == Entry::narrow && dim > 192) return {2, 64, 2, 56, 224, false, true, true};
  if (entry == Entry::narrow) return {2, 128, 2, 72, 216, built_preset != Preset::loose};
  for (const Winner &winner : winners)
    if (built_preset == Preset::standard && dim <= winner.dim) return shape_of(winner.preset, dim);
  return shape_of(built_preset, dim);
}

constexpr int rows_of_warpgroup = 64;

constexpr int rows(const Shape &s) {
  return rows_of_warpgroup * (s.shares_rows ? 1 : s.consumers);
}

constexpr int threads(const Shape &s) {
  return 128 * (1 + s.consumers);
}

constexpr int rows_of_warp = 16;

/// Entry::narrow is for DeepSeek's attention. Prefill: queries of 192 columns with values of 128 at most, whose sums
/// leave registers for more keys. Decode, with weights absorbed: values that are the first 512 columns of keys of 576,
/// which are read once.
constexpr int narrow_columns = 128;
constexpr bool has_narrow(int dim) {
  return dim == 192 || dim == 576;
}
/// 64 rows of more sums than this fit into no registers.
constexpr int max_columns_of_values = 512;

constexpr int columns_of_values(int dim, Entry entry) {
  if (entry == Entry::narrow && dim <= 192) return narrow_columns;
  return dim < max_columns_of_values ? dim : max_columns_of_values;
}

/// A message from one warp to another that shares its rows has its weights of a tile. Where there is room, the next
/// message need not wait until it has been read.
constexpr int message_bytes(const Shape &s) {
  return 16 * s.keys / s.consumers * 2;
}
constexpr int messages_of_warp(const Shape &s) {
  return !s.shares_rows ? 0 : s.values_in_keys ? 1 : 2;
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

/// Work tiles that a block takes by tickets, at most: it keeps their numbers.
constexpr int max_work_tiles = 255;

/// Tiles first; then the warpgroups' messages to each other; then barriers, and the numbers of work tiles.
constexpr int shared_bytes(const Shape &s, int dim, int dim_v) {
  const int of_out = boxes_of_out(dim) ? rows(s) * dim_v : 0;
  const int of_messages = 4 * s.consumers * messages_of_warp(s) * message_bytes(s);
  const int of_values = s.values_in_keys ? 0 : dim_v;
  return (rows(s) * dim + s.stages * s.keys * (dim + of_values) + of_out) * 2 + of_messages + 2048;
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
          .splits_and_packs = true,
          .persistent = true,
          .box_queries = rows_of_warpgroup,
          .box_keys = s.keys,
          .box_out = boxes_of_out(dim) ? rows_of_warp : 0,
          .box_columns = dim % 64 == 0 ? 64 : 32,
          .paged_gather = producer_has_registers(dim),
          .partial_boxes = producer_has_registers(dim),
          .alibi = dim <= max_alibi_dim,
          .values_in_keys = s.values_in_keys};
}

constexpr const char *unsupported_reason(const Attention &a) {
  if (a.head_dim_v > max_columns_of_values) return "values of more than 512 columns";
  return unsupported_types_reason(a);
}

inline const char *unsupported_call_reason(Entry entry, const Params &p) {
  if (entry == Entry::narrow && p.head_dim <= 192 && p.head_dim_v > narrow_columns)
    return "values of more than 128 columns";
  return unsupported_rows_reason(entry, p);
}

#ifndef __CUDACC_RTC__  // NVRTC would put it on the device
/// f16 and bf16; decode, and scores with a bias or a mask, are for others.
inline constexpr Family family = {tile, [](const Attention &a) { return Dtype(a.q_dtype); }, unsupported_reason,
                                  unsupported_call_reason, false};
#endif

}  // namespace fa::kernels::wgmma
