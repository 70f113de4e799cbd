// New keys and values into a cache, and queries rotated: a thread an item of a row, whose token it finds by itself. A
// block has rows of one tensor.
#include "append/append/place.cuh"
#include "append/append/rows.cuh"
#include "append/append/tiles.h"
#include "common/build.cuh"

namespace fa::kernels::append {

/// Item j of row n, of all rows of a stream.
__device__ inline void write_item(const AppendParams &p, int which, int64_t n, int32_t head, int j) {
  const RowStream &s = p.stream[which];
  const bool of_q = which == q_stream;
  const Token token = token_of(p, n, of_q ? p.rows_q : p.rows_new, of_q);
  if (!token.used) return;
  const int64_t source = int64_t(token.sequence.first) + token.number;
  const Place place = of_q ? Place{token.sequence.batch, source} : place_of(p, token);
  if (place.row < 0) return;
  const char *const from =
      s.from.data + token.sequence.batch * s.from.stride[0] + source * s.from.stride[1] + head * s.from.stride[2];
  char *const to = s.to.data + place.entry * s.to.stride[0] + place.row * s.to.stride[1] + head * s.to.stride[2];
  const int rotated = s.pairs / s.width;
  if (j < rotated) {
    write_rotated(p, s, from, to, j, position_of(p, token, of_q));
  } else {
    write_plain(s, from, to, j - rotated);
  }
}

}  // namespace fa::kernels::append

extern "C" __global__ void __launch_bounds__(fa::kernels::append::threads)
    fa_combine(const __grid_constant__ fa::kernels::AppendParams p) {
  using namespace fa::kernels;
  int64_t tile = p.schedule.first_tile + blockIdx.x;
  int which = k_stream;
  while (which < q_stream && tile >= p.stream[which].tiles) tile -= p.stream[which++].tiles;
  const RowStream &s = p.stream[which];
  const int64_t rows = int64_t(which == q_stream ? p.rows_q : p.rows_new) * (p.cu_seqlens_new ? 1 : p.batch);
  const int64_t first = tile * s.tile_rows, first_token = append::divided(first, s.heads);
  const auto first_head = int32_t(first - first_token * s.heads);
  for (uint32_t item = threadIdx.x; item < uint32_t(s.tile_rows * s.items); item += append::threads) {
    const uint32_t row = quotient(item, s.by_items), below = first_head + row, token = quotient(below, s.by_heads);
    if (first_token + token >= rows) break;
    append::write_item(p, which, first_token + token, int32_t(below - token * s.heads), int32_t(item - row * s.items));
  }
}
