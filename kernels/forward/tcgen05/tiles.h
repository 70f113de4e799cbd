// The tiles of the kernels for tensor memory (Blackwell's data-centre GPUs), for every head dimension; and the calls
// that they support.
#pragma once

#include "common/box_rules.h"
#include "common/presets.h"

namespace fa::kernels::tcgen05 {

/// The configuration of a block: two tiles of queries, or one where sums of two do not fit, a row a thread of a
/// softmax warpgroup.
struct Shape {
  int queries;  // tiles of them
  int keys;     // of a tile
  int stages;   // tiles of keys, and as many of values, that shared memory has room for
  int softmax_registers, correction_registers, other_registers;  // of a thread: 64 K in all
  int ex2_emu_freq;  // one exponential in this many is a polynomial; 0: none
};

/// The tiles of each head dimension: the winners of scripts/gpu-session.sh tune, once it has run. Not yet tuned.
constexpr Winner winners[] = {
    {64, Preset::standard},   //
    {96, Preset::standard},   //
    {128, Preset::standard},  //
    {192, Preset::standard},  //
    {256, Preset::standard},  //
};

/// Shape::ex2_emu_freq. sm: 103 computes exponentials at twice the rate; beyond 128 columns products and memory take
/// longer than exponentials. More polynomials need more registers than features, or tiles of 96 columns, leave.
constexpr int ex2_emu_freq(Preset preset, int sm, int dim, Entry entry) {
  if (preset == Preset::fifth) return 5;
  if (preset == Preset::tenth) return 10;
  if (preset == Preset::mufu || sm == 103 || (dim > 128 && entry != Entry::narrow)) return 0;
  return entry == Entry::score_mod ? 6 : dim == 96 ? 5 : 4;
}

constexpr Shape shape_of(Preset preset, int sm, int dim, Entry entry) {
  const bool little = preset == Preset::little;
  const int of = ex2_emu_freq(preset, sm, dim, entry);
  // Without features, and from whole panels, loads need fewer registers.
  const int others = entry == Entry::score_mod ? 64 : 56, softmax = 256 - others;
  if (entry == Entry::narrow) return {2, little ? 64 : 96, little ? 3 : 2, 192, 64, 64, of};
  if (dim <= 64) return {2, little ? 64 : 128, little ? 8 : 4, softmax, others, others, of};
  if (dim <= 96) return {2, little ? 96 : 128, little ? 4 : 3, 192, 64, 64, of};
  if (dim <= 128) return {2, little ? 96 : 128, little ? 3 : 2, softmax, others, others, of};
  if (dim <= 192) return {1, little ? 64 : 96, little ? 3 : 2, 216, 144, 144, of};
  return {1, little ? 32 : 64, little ? 4 : 2, 216, 144, 144, of};
}

constexpr Shape shape(int sm, int dim, Entry entry) {
  for (const Winner &winner : winners)
    if (built_preset == Preset::standard && dim <= winner.dim) return shape_of(winner.preset, sm, dim, entry);
  return shape_of(built_preset, sm, dim, entry);
}

/// Rows of queries in a product.
constexpr int rows_of_tile = 128;

constexpr int rows(const Shape &s) {
  return rows_of_tile * s.queries;
}

/// Warpgroups of softmax, one of correction, and one with the warps that multiply and load.
constexpr int threads(const Shape &s) {
  return 128 * (s.queries + 2);
}

/// All that an SM has: two tiles of scores, in whose place their weights are put, and the sums.
constexpr int tensor_columns = 512;

/// Values of this many columns at most have a separate entry point with queries of 192 (Entry::narrow), as in
/// DeepSeek's prefill: sums of two tiles of queries fit.
constexpr int narrow_columns = 128;
constexpr bool has_narrow(int dim) {
  return dim == 192;
}
constexpr int columns_of_values(int dim, Entry entry) {
  return entry == Entry::narrow ? narrow_columns : dim;
}

/// Work tiles that a block takes over from others of its grid, at most: it keeps their numbers.
constexpr int max_work_tiles = 255;

/// Tiles first; then barriers, the roles' messages to each other, and the numbers of work tiles.
constexpr int shared_bytes(const Shape &s, int dim, int dim_v) {
  return rows(s) * dim * 2 + s.stages * s.keys * (dim + dim_v) * 2 + 6 * 1024;
}

constexpr TileConfig tile(const Arch &arch, int dim, Entry entry) {
  const bool has = entry == Entry::plain || (entry == Entry::narrow && has_narrow(dim)) ||
                   (entry == Entry::score_mod && has_score_mod_entry(dim));
  if (!has) return {};
  const Shape s = shape(arch.number, dim, entry);
  return {.rows = rows(s),
          .keys = s.keys,
          .threads = threads(s),
          .shared_bytes = shared_bytes(s, dim, columns_of_values(dim, entry)),
          .stages = s.stages,
          .tensor_columns = tensor_columns,
          .splits_and_packs = true,
          .persistent = true,
          .box_queries = rows_of_tile,
          .box_keys = s.keys,
          .box_columns = dim % 64 == 0 ? 64 : 32,
          .paged_gather = true,
          .partial_boxes = true};
}

inline const char *unsupported_call_reason(Entry entry, const Params &p) {
  if (entry == Entry::narrow && p.head_dim_v > narrow_columns) return "values of more than 128 columns";
  return unsupported_rows_reason(entry, p);
}

#ifndef __CUDACC_RTC__  // NVRTC would put it on the device
/// f16 and bf16; decode, and scores with a bias or a mask, are for others.
inline constexpr Family family = {tile, [](const Attention &a) { return Dtype(a.q_dtype); }, unsupported_types_reason,
                                  unsupported_call_reason, false};
#endif

}  // namespace fa::kernels::tcgen05
