// A block of the mma.sync kernels for quantised keys and values: its constants, its shared memory. The loop is that of
// forward/mma's general entry points, whose headers take this block; the steps before the products are:
//
//   cp.async    codes of a tile's keys and values, whole bytes of the cache, into one of two stages
//   barrier     they have arrived, and all warps have left the tile before
//   widen       codes to 16-bit numbers, exactly: once for all rows of the block
//   barrier     they are there; the stage is free, for the tile after the next
//   each warp   S = Q K^T times the scales of keys, online softmax, O = O + (P times the scales of values) V
//
// A block whose results values that are not finite have reached runs a second time.
#pragma once

#include "collective/codes.cuh"
#include "forward/mma/block.cuh"
#include "forward/mma_quantised/tiles.h"

namespace fa::kernels::mma_quantised {

template <int Sm, Dtype Type, int Dim, Entry E>
struct Block {
  using Element = CudaType<Type>;
  static_assert(sizeof(Element) == 2);  // SharedTile
  static constexpr Arch arch = arch_of(Sm);
  static constexpr Shape shape = mma_quantised::shape(arch, Dim, E);
  static constexpr Dtype dtype = Type;

  // Members that the headers of forward/mma use.
  static constexpr bool plain = false, score_mod = false, paged = true, has_trees = true, splits = true, staged = false;
  static constexpr bool split_keys_across_warps = shape.split_keys_across_warps;
  static constexpr bool scarce_registers = shape.row_blocks * Dim >= 256, lane_by_mask = scarce_registers;
  static constexpr int dim = Dim;
  static constexpr int keys = shape.keys;
  static constexpr int stages = 2;  // 16-bit tiles: of keys and of values
  static constexpr int threads = 32 * shape.warps;
  static constexpr int row_blocks = shape.row_blocks;
  static constexpr int warp_rows = 16 * row_blocks;
  static constexpr int rows = mma_quantised::rows(shape);
  static constexpr int warp_keys = split_keys_across_warps ? keys / shape.warps : keys;    // of a tile
  static constexpr int mma_bytes = (rows + stages * keys) * dim * 2 + state_bytes(shape);  // of mma::SharedMemory
  static constexpr int shared_bytes = mma_bytes;

  static constexpr int code_stages = code_stages_of(arch, E);
  static constexpr int codes_bytes = keys * dim;  // of a tile of keys or values, at most

  /// The first of a warp's rows and keys within the tile.
  __device__ static int first_row(int warp) { return split_keys_across_warps ? 0 : warp * warp_rows; }
  __device__ static int first_key(int warp) { return split_keys_across_warps ? warp * warp_keys : 0; }

  /// The query and head of a row of the sequence's head group.
  __device__ static Row row_of(const Params &p, const WorkTile &w, int row) { return row_at(p, w, row); }

  using QueryTile = SharedTile<rows, dim>;
  using KeyTile = SharedTile<keys, dim>;

  /// Sums of a warp, and a number for each of their rows.
  using Scores = AccumulatorTile<row_blocks, warp_keys / 8>;
  using Rows = typename Scores::Rows;

  /// O in units of a scale, and the part of zeros that was not subtracted from codes: it is subtracted from all columns
  /// of a row at the end.
  struct Out : AccumulatorTile<row_blocks, dim / 8> {
    using Tile = AccumulatorTile<row_blocks, dim / 8>;
    Rows zeros;

    __device__ void clear() {
      Tile::clear();
      zeros.fill(0);
    }
    __device__ void scale_rows(const Rows &factor) {
      Tile::scale_rows(factor);
      unroll<Rows::rows>([&](int r) { zeros[r] *= factor[r]; });
    }
  };
};

/// Where a key's row is.
struct KeyRow {
  int32_t entry, row;  // of k and v: (page, row of it), or (batch entry, row)
};

/// Numbers of the keys of a tile.
template <class B>
struct TileFactors {
  float scale[2][B::keys];   // of k and of v; 1 without one
  float rest[2][B::keys];    // of zeros, less their whole parts
  float offset[2][B::keys];  // of integer codes as they are stored, less that: the whole part of the zero included
};

/// State in shared memory in addition to that of forward/mma.
template <class B>
struct State {
  TileFactors<B> factors[2];               // of the tile in use, and of the next
  KeyRow key_row[B::keys];                 // of a tile that is to be copied
  int32_t largest[2][B::threads / 32];     // of each warp's scales of values, as bits
  float query_sum[B::rows];                // of a row of queries
  uint32_t has_keys[(B::rows + 31) / 32];  // a bit for each row: whether l is not 0, in a second pass
};

template <class B>
struct SharedMemory : mma::SharedMemory<B> {
  uint32_t codes;  // of keys, then of values, in each stage
  State<B> *state;

  __device__ explicit SharedMemory(char *memory)
      : mma::SharedMemory<B>(memory),
        codes(shared_address(memory) + B::mma_bytes),
        state(reinterpret_cast<State<B> *>(memory + B::mma_bytes + B::code_stages * 2 * B::codes_bytes)) {
    static_assert(sizeof(State<B>) <= factor_bytes(B::shape));
  }

  __device__ uint32_t keys() const { return this->ring; }
  __device__ uint32_t values() const { return this->ring + B::KeyTile::bytes; }
};

}  // namespace fa::kernels::mma_quantised
