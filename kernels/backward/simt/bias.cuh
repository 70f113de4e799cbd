// dbias by blocks that own a tile of it: a dimension of 1 that scores repeat is a loop over all of them.
#pragma once

#include "backward/simt/pairs.cuh"

namespace fa::kernels::backward_simt {

/// A tile's own numbers of a dimension, or where that is 1 all of them.
struct Range {
  int32_t begin, end;

  __device__ Range(int32_t tile, int32_t dimension, int32_t all, int32_t step)
      : begin(dimension == 1 ? 0 : tile * step), end(dimension == 1 ? all : min((tile + 1) * step, all)) {}
};

/// Numbers of a block's tile of dbias.
struct BiasTile {
  int32_t batch, head, query, key;  // the latter two in tiles

  __device__ explicit BiasTile(const BackwardParams &p) {
    const int32_t queries = (p.dbias_shape[2] + rows - 1) / rows, all_keys = (p.dbias_shape[3] + keys - 1) / keys;
    int64_t index = p.schedule.first_tile + blockIdx.x;
    key = int32_t(index % all_keys), index /= all_keys;
    query = int32_t(index % queries), index /= queries;
    head = int32_t(index % p.dbias_shape[1]);
    batch = int32_t(index / p.dbias_shape[1]);
  }
};

/// Writes the tile from sums of its scores: a dimension of 1 is summed up.
__device__ inline void store_bias(const BackwardParams &p, const BiasTile &tile, const Products &sums,
                                  const Shared &shared) {
  const int row = threadIdx.x / lanes * thread_rows, lane = threadIdx.x % lanes;
  unroll<thread_rows>(
      [&](int i) { unroll<thread_keys>([&](int c) { shared.ds[row + i][lane + c * lanes] = sums[i][c]; }); });
  __syncthreads();
  const bool one_query = p.dbias_shape[2] == 1, one_key = p.dbias_shape[3] == 1;
  const int width = min(p.dbias_shape[3] - tile.key * keys, keys);
  const int height = min(p.dbias_shape[2] - tile.query * rows, rows);
  for (int at = threadIdx.x; at < width * height; at += threads) {
    const int i = at / width, j = at - i * width;
    float sum = 0;
    for (int r = i; r < (one_query ? rows : i + 1); r++)
      for (int c = j; c < (one_key ? keys : j + 1); c++) sum += shared.ds[r][c];
    const View &to = p.dbias;
    put(to.data + tile.batch * to.stride[0] + tile.head * to.stride[1] + (tile.query * rows + i) * to.stride[2] +
            (tile.key * keys + j) * to.stride[3],
        p.dbias_dtype, p.accumulate & accumulate_dbias, sum);
  }
}

__device__ inline void bias_of_block(const BackwardParams &p, float *memory) {
  const Shared shared(memory);
  const BiasTile tile(p);
  const int32_t group = p.heads_kv > 0 ? p.heads_q / p.heads_kv : 1;
  const Range batch(tile.batch, p.dbias_shape[0], p.batch, 1), heads(tile.head, p.dbias_shape[1], p.heads_q, 1);
  Products sums = {};
#pragma unroll 1
  for (int32_t b = batch.begin; b < batch.end; b++) {
    TilePair pair = {sequence(p, b)};
    const Range all_keys(tile.key, p.dbias_shape[3], pair.sequence.keys, keys);
    const Range queries(tile.query, p.dbias_shape[2], pair.sequence.queries, rows);
#pragma unroll 1
    for (pair.head = heads.begin; pair.head < heads.end; pair.head++) {
      pair.kv_head = pair.head / group;
#pragma unroll 1
      for (pair.first_query = queries.begin; pair.first_query < queries.end; pair.first_query += rows) {
        const ThreadRows thread(p, pair);
#pragma unroll 1
        for (pair.first_key = all_keys.begin; pair.first_key < all_keys.end; pair.first_key += keys) {
          const Interval rows_of_keys =
              attending(p, pair.sequence, pair.first_key, min(pair.first_key + keys, pair.sequence.keys));
          if (rows_of_keys.high <= pair.first_query || rows_of_keys.low >= pair.first_query + rows) continue;
          if (is_hidden(p, pair)) continue;
          each_score(p, pair, thread, shared, [&](int i, int c, const PdS &weighed) {
            sums[i][c] += p.bias_before_softcap ? weighed.dy : weighed.dx;
          });
        }
      }
    }
  }
  store_bias(p, tile, sums, shared);
}

}  // namespace fa::kernels::backward_simt
