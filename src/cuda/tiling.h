// How the rows and keys of a forward call are shared out among blocks: packed heads, and splits of keys.
#pragma once

#include "core/call.h"
#include "cuda/inputs.h"
#include "cuda/plan.h"

namespace fa::cuda {

/// Keys of one split under FA_FLAG_BATCH_INVARIANT: a multiple of every kernel's block of keys.
constexpr int32_t invariant_split_keys = 1024;

/// Partial results of calls whose number of splits was not chosen for the device: more than that is worked on in
/// several launches, one after another.
constexpr int64_t max_partial_bytes = int64_t{64} << 20;

/// Tiles of every sequence, or a bound on those of all packed ones together.
Tiles tiles_of(const ForwardCall &call, int64_t rows, int64_t packed);
Count all_tiles_of(const ForwardCall &call, int64_t rows, int64_t packed);

/// The rows of a tile of this many packed heads: where queries come in boxes, whole queries of each.
int64_t rows_of(const kernels::TileConfig &tile, int64_t heads);

/// The bytes of partial results of a tile, of one split.
int64_t tile_bytes(const ForwardCall &call, int64_t rows);

/// How a call is shared out, by the tile of an entry point that splits and packs.
struct TilingChoice {
  kernels::Entry entry;  // split, or decode for few rows
  int64_t packed, splits;
  int64_t unsplit_tiles;  // the first ones, whose keys are not split
  bool whole;  // one split of unpacked rows, many of them: entry points that neither pack nor split support it, too
};

/// The tiling of a call for an entry point of an image that splits and packs by this tile.
TilingChoice tiling_of(const ForwardCall &call, const Image &image, const kernels::TileConfig &split_tile,
                       const KernelSet &kernels, const Device &device);

/// The tiling of a call for those entry points of an image whose own tiles do not decide it: by the image's tile, or by
/// the first other image's that has one.
TilingChoice default_tiling_of(const ForwardCall &call, const Image &image, const KernelSet &kernels,
                               const Device &device);

/// True when rows fill less than half of a tile which a family that packs any number of heads would fill.
bool wastes_rows(const ForwardCall &call, const kernels::TileConfig &tile, const TilingChoice &tiling);

/// The bytes of partial results, at most, of calls that are split by this tile.
int64_t bound_of(const ForwardCall &call, const kernels::TileConfig &split, const Device &device);

}  // namespace fa::cuda
