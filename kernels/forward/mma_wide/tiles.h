// The tiles of the tensor-core kernels for head dimensions above 256, for every SM, head dimension and entry point.
#pragma once

#include "common/images.h"

namespace fa::kernels::mma_wide {

/// Keys of a tile: 16 of each of the warps that have the same rows. These share the columns of O, too.
constexpr int keys = 64, warps_of_rows = 4;

/// The columns of O, of every image.
constexpr int columns = 512;

/// The configuration of a block. Queries, weights and a ring of chunks of keys and values are in shared memory.
struct Shape {
  int row_groups;             // that share a block's chunks, with warps_of_rows warps each
  int row_blocks;             // of 16 rows, that a row group has
  int chunk;                  // columns of a tile of keys or values that pass through the ring at once
  int stages;                 // chunks that the ring has room for
  int min_blocks_per_sm = 1;  // that registers must leave room for
};

/// The longer a chunk, the fewer barriers. No chunk is prefetched further ahead than one tile has chunks: 4 of 128
/// columns, or 6 of 64.
constexpr Shape shape(const Arch &arch, int dim, Entry entry) {
  const bool few_rows = entry == Entry::decode;
  if (!arch.has(cp_async)) return {few_rows ? 1 : 2, 1, 64, 2};
  if (arch.shared_bytes >= 227 << 10) return few_rows ? Shape{1, 1, 128, 5, 2} : Shape{2, 2, 128, 5};
  if (arch.shared_bytes >= 163 << 10) return few_rows ? Shape{1, 1, 128, 3, 2} : Shape{2, 2, 128, 5};
  return few_rows ? Shape{1, 1, 64, 7} : Shape{2, 2, 64, dim <= 512 ? 3 : 2};
}

constexpr int rows(const Shape &s) {
  return 16 * s.row_blocks * s.row_groups;
}

constexpr int threads(const Shape &s) {
  return 32 * warps_of_rows * s.row_groups;
}

/// Tiles first, as they need alignment; then the state of each row, and of the block.
constexpr int shared_bytes(const Shape &s, int dim) {
  return (rows(s) * (dim + keys) + s.stages * keys * s.chunk) * 2 + rows(s) * (9 + 4 * warps_of_rows + 4) + 160;
}

constexpr TileConfig tile(const Arch &arch, int dim, Entry entry) {
  if (entry != Entry::split && entry != Entry::decode) return {};
  const Shape s = shape(arch, dim, entry);
  return {rows(s), keys, threads(s), shared_bytes(s, dim), s.min_blocks_per_sm, s.stages};
}

constexpr const char *unsupported_reason(const Attention &a) {
  if (!is_16_bit(a.q_dtype) || a.q_dtype != a.kv_dtype) return "q, k and v are not of one 16-bit type";
  if (a.out_dtype != f32 && a.out_dtype != a.q_dtype) return "out is neither f32 nor of q's type";
  if (a.head_dim <= 256 && a.head_dim_v <= 256) return "head dimensions up to 256";
  if (a.head_dim_v > columns) return "values of more than 512 columns";
  return nullptr;
}

#ifndef __CUDACC_RTC__  // NVRTC would put it on the device
/// f16 and bf16, head dimensions up to 576 and values up to 512.
inline constexpr Family family = {tile, [](const Attention &a) { return Dtype(a.q_dtype); }, unsupported_reason,
                                  [](Entry, const Params &p) { return unsupported_tree_reason(p); }, true};
#endif

}  // namespace fa::kernels::mma_wide
