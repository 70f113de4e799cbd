// The work tiles of a block in a persistent grid, as the producer warp hands them to the consumers; and the fix-up pass
// over those that NaN, Inf or very large scores have reached.
#pragma once

#include "collective/key_blocks.cuh"
#include "collective/pipeline.cuh"

namespace fa::kernels {

/// The reason why a work tile is processed. Rows that NaN or Inf has reached, or whose scores are too large for the
/// fast path, are few. Their work tiles are recomputed from the start when all others are done.
enum class WorkPass : int32_t {
  main,
  detect,  // computes again, writes nothing: each lane finds the Fixup bits of its rows
  fixup,   // recomputes those rows, with finite values and exact weights
  drain,   // no work tile: the main pass over all work tiles is done
  done     // no work tile: all passes are
};

/// A work tile, as the producer hands it to the consumers.
struct WorkItem {
  WorkPass pass;
  int32_t number;  // among the block's work tiles
  KeyBlockRange tiles;
  WorkTile work;
};

/// The work tiles that need a fix-up pass. A bit covers several consecutive ones where a block has more than `bits`.
struct FixupBitmap {
  static constexpr int bits = 1024;
  uint32_t word[bits / 32];

  /// By a whole warp.
  __device__ void clear() { word[threadIdx.x % 32] = 0; }
  __device__ bool any() const { return __any_sync(~0u, word[threadIdx.x % 32] != 0); }

  __device__ void set(const Params &p, int32_t number) {
    const int32_t bit = number / tiles_per_bit(p);
    atomicOr(&word[bit / 32], 1u << bit % 32);
  }
  __device__ bool has(const Params &p, int32_t number) const {
    const int32_t bit = number / tiles_per_bit(p);
    return word[bit / 32] >> bit % 32 & 1;
  }

 private:
  /// 1 unless the block has more work tiles than bits.
  __device__ static int32_t tiles_per_bit(const Params &p) {
    const int64_t tiles = (p.schedule.blocks + gridDim.x - 1) / gridDim.x;
    return int32_t((tiles + bits - 1) / bits);
  }
};

}  // namespace fa::kernels
