// A block of the plain entry point for quantised keys and values: its constants, its shared memory. Scores need scales
// alone, and every tile of codes is widened once for as many rows as registers have room for:
//
//   barrier     a tile's codes have arrived, and all warps have left the tile before
//   widen       codes to the type of queries, exactly but for a power of two
//   barrier     they are there; cp.async of the next tile's codes begins
//   each warp   S = Q K^T, P = 2^(S times the scales of keys, in units of exponents, - m),
//               O = O + (P times the scales of values) V
//
// A block whose results large scores, or values that are not finite, have reached runs a second time.
#pragma once

#include "forward/mma_quantised/block.cuh"

namespace fa::kernels::mma_quantised {

template <int Sm, Dtype Type, int Dim>
struct PlainBlock {
  using Element = CudaType<Type>;
  static_assert(sizeof(Element) == 2);  // SharedTile
  static constexpr Arch arch = arch_of(Sm);
  static constexpr Shape shape = plain_shape(arch, Dim);
  static constexpr Dtype dtype = Type;

  // Members that the headers of forward/mma use.
  static constexpr bool plain = true, score_mod = false, paged = true, has_trees = false, splits = false,
                        staged = false;
  static constexpr bool f32_scales = kernels::Element<Type>::f32_exponents;  // of values; else f16, as weights are
  static constexpr bool split_keys_across_warps = false;
  static constexpr bool scarce_registers = shape.row_blocks * Dim >= 256, lane_by_mask = scarce_registers;
  static constexpr int dim = Dim;
  static constexpr int keys = shape.keys, warp_keys = keys;
  static constexpr int stages = 2;  // 16-bit tiles: of keys and of values
  static constexpr int warps = shape.warps, threads = 32 * warps;
  static constexpr int row_blocks = shape.row_blocks;
  static constexpr int warp_rows = 16 * row_blocks;
  static constexpr int rows = mma_quantised::rows(shape);
  static constexpr int mma_bytes = (rows + stages * keys) * dim * 2 + state_bytes(shape);  // of mma::SharedMemory
  static constexpr int shared_bytes = mma_bytes;
  static constexpr int codes_bytes = keys * dim;  // of a tile of keys or values, at most

  /// The first of a warp's rows and keys within the tile.
  __device__ static int first_row(int warp) { return warp * warp_rows; }
  __device__ static int first_key(int) { return 0; }

  /// The query and head of a row of the sequence's head group.
  __device__ static Row row_of(const Params &, const WorkTile &w, int row) { return {row, w.head_group}; }

  using QueryTile = SharedTile<rows, dim>;
  using KeyTile = SharedTile<keys, dim>;

  /// Sums of a warp, and a number for each of their rows.
  using Scores = AccumulatorTile<row_blocks, keys / 8>;
  using Out = AccumulatorTile<row_blocks, dim / 8>;
  using Rows = typename Out::Rows;
};

/// State in shared memory in addition to that of forward/mma.
template <class B>
struct PlainState {
  float exponents[2][B::keys];          // 0: of keys' products, that is scales in units of exponents; 1: 1
  uint32_t scales[B::keys];             // of values in the unit of O: f32, or pairs of f16
  KeyRow key_row[2][B::keys];           // of tiles of even and of odd numbers
  int32_t largest[B::keys / 32];        // of the scales of 32 values, as bits
  KeyBlockRange of_warp[B::warps];      // the tiles of its rows
  uint32_t has_keys[B::rows / 32 + 1];  // a bit for each row: whether l is not 0, in a second pass
};

template <class B>
struct PlainMemory : mma::SharedMemory<B> {
  uint32_t codes;  // of keys, then of values
  PlainState<B> *state;

  __device__ explicit PlainMemory(char *memory)
      : mma::SharedMemory<B>(memory),
        codes(shared_address(memory) + B::mma_bytes),
        state(reinterpret_cast<PlainState<B> *>(memory + B::mma_bytes + 2 * B::codes_bytes)) {
    static_assert(sizeof(PlainState<B>) <= factor_bytes(B::shape));
  }

  __device__ uint32_t keys() const { return this->ring; }
  __device__ uint32_t values() const { return this->ring + B::KeyTile::bytes; }
};

}  // namespace fa::kernels::mma_quantised
