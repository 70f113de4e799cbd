// New keys and values into a quantised cache, or a rotated one: some lanes of a warp share a row, by way of shared memory.
// Other rows are as append has them. A block has rows of one tensor.
#include "append/append/items.cuh"
#include "append/append_quantised/row.cuh"
#include "common/build.cuh"

namespace fa::kernels::append_quantised {

using append::RowTile;

/// Finds the tokens of a tile, a thread each.
__device__ inline void find_tokens(const AppendCodesParams &p, const RowTile &tile, TokenRow *tokens) {
  const RowStream &s = p.stream[tile.which];
  const auto last = int32_t(quotient(uint32_t(tile.first_head + s.tile_rows - 1), s.by_heads));
  const auto i = int32_t(threadIdx.x);
  if (i > last) return;
  TokenRow found = {};
  if (const int64_t n = tile.first_token + i; n < tile.tokens) {
    const bool of_q = tile.which == q_stream;
    const append::Token token = append::token_of(p, n, of_q ? p.rows_q : p.rows_new, of_q);
    append::CacheRow target = {0, -1};
    if (token.used)
      target = of_q ? append::CacheRow{token.sequence.batch, int64_t(token.sequence.first) + token.number}
                   : append::cache_row_of(p, token);
    if (target.row >= 0) {
      found = {append::source_of(s, token), target.entry, target.row, 0};
      if (s.pairs > 0) found.position = append::position_of(p, token, of_q);
    }
  }
  tokens[i] = found;
}

/// The rows of a tile, one for each `lanes` threads.
__device__ inline void write_rows(const AppendCodesParams &p, const RowTile &tile, char *shared) {
  const RowStream &s = p.stream[tile.which];
  const CodeStream &c = p.codes[tile.which];
  auto *const tokens = reinterpret_cast<TokenRow *>(shared);
  find_tokens(p, tile, tokens);
  __syncthreads();
  const uint32_t row = threadIdx.x / uint32_t(c.lanes), below = tile.first_head + row,
                 token = quotient(below, s.by_heads);
  const TokenRow &row_of_token = tokens[token];  // read again where it is used: registers are few across divisions
  char *const rows = shared + s.tile_rows * sizeof(TokenRow);
  write_row(p, tile.which, row_of_token, int32_t(below - token * s.heads),
            {rows + row * c.memory, int(threadIdx.x % uint32_t(c.lanes)), row_of_token.from != nullptr});
}

}  // namespace fa::kernels::append_quantised

extern "C" __global__ void __launch_bounds__(fa::kernels::append::threads)
    fa_combine(const __grid_constant__ fa::kernels::AppendCodesParams p) {
  using namespace fa::kernels;
  extern __shared__ __align__(16) char shared[];
  const append::RowTile tile = append::row_tile(p);
  if (p.codes[tile.which].dim != 0) {
    append_quantised::write_rows(p, tile, shared);
  } else {
    append::write_items(p, tile);
  }
}
