// The tiles of keys that a block visits, from the last of its range to the first: all, or those that neither a mask nor
// a bias hides.
#pragma once

#include "forward/mma/rows.cuh"

namespace fa::kernels::mma {

/// All of them. `ahead` counts tiles from the one that is worked on.
template <class B, bool All = B::plain>
class ShownTiles {
 public:
  __device__ void begin(const Params &, BlockState<B> &, const KeyBlockRange &) {}
  __device__ void find(const Params &, BlockState<B> &, int, int) {}

  __device__ int first(const KeyBlockRange &tiles) const { return tiles.end - 1; }
  __device__ int advance(int tile) const { return tile - 1; }
  __device__ int at(int tile, int ahead) const { return tile - ahead; }
  __device__ int before(int tile, int) const { return tile - 1; }
};

/// Those that are shown. Each is found before its keys are asked for, by all threads together.
template <class B>
class ShownTiles<B, false> {
 public:
  __device__ void begin(const Params &p, BlockState<B> &block, const KeyBlockRange &tiles) {
    all_from_ = has_block_mask(p) ? INT_MAX : INT_MIN;
    int tile = tiles.end;
#pragma unroll 1  // the search is long
    for (int i = 0; i < at_first; i++) {
      tile = last_shown(p, block, tiles.first, tile - 1);
      unroll<at_first - 1>([&](int n) { tiles_[n] = tiles_[n + 1]; });
      tiles_[at_first - 1] = tile;
    }
  }

  /// Finds the one `ahead`, from the one before it on, unless begin has; first - 1 where none is left.
  __device__ void find(const Params &p, BlockState<B> &block, int first, int ahead) {
    if (ahead >= at_first) tiles_[ahead] = last_shown(p, block, first, tiles_[ahead - 1] - 1);
  }

  __device__ int first(const KeyBlockRange &) const { return tiles_[0]; }
  __device__ int advance(int) {
    unroll<most>([&](int i) { tiles_[i] = tiles_[i + 1]; });
    return tiles_[0];
  }
  __device__ int at(int, int ahead) const { return tiles_[ahead]; }
  __device__ int before(int, int ahead) const { return tiles_[ahead + 1]; }

 private:
  __device__ int last_shown(const Params &p, BlockState<B> &block, int first, int tile) {
    if (tile >= all_from_) return tile;
    while (tile >= first) {
      if (!block.shown.covers(tile)) {
        const bool some_hidden = find_shown(p, block, tile);
        if (!some_hidden) all_from_ = block.shown.first;
      }
      tile = block.shown.last_shown(tile);
      if (tile >= block.shown.first) return tile;
    }
    return first - 1;
  }

  __device__ static bool find_shown(const Params &p, BlockState<B> &block, int tile) {
    const WorkTile &w = block.work;
    const int rows = min(B::rows, w.rows - w.first_row);
    const auto row = [&](int r) { return row_at(p, w, w.first_row + r); };
    return block.shown.find(
        tile, {block.tiles.first, block.tiles.end},
        [&](int t) { return shows_pair(p, w.sequence, row(rows - 1), t * B::keys); },
        [&](int t) { return hides_block<B::keys>(p, w.sequence, row, rows, t * B::keys); });
  }

  static constexpr int most = B::stages / 2 + 1;            // that are known ahead
  static constexpr int at_first = (B::stages - 1) / 2 + 1;  // before the first keys arrive
  int tiles_[most + 1];
  int all_from_;  // every tile from here to the last one that was found is shown
};

}  // namespace fa::kernels::mma
