// The tiles of codes of a block, from the last to the first: where their rows are, and their way into shared memory.
#pragma once

#include "collective/block_mask.cuh"
#include "forward/mma_quantised/factors.cuh"
#include "forward/mma_quantised/widen.cuh"

namespace fa::kernels::mma_quantised {

/// The rows of k or v as bytes.
struct CodeRows {
  const View &view;
  int32_t bytes;   // of a row
  int32_t packed;  // 1: a code has half a byte
  int32_t unit;    // 16 or 4 where all rows' addresses are multiples of it; else 1

  __device__ CodeRows(const View &rows, int32_t dtype, int32_t columns) : view(rows), packed(is_packed(dtype)) {
    bytes = columns >> packed;
    const int64_t all = reinterpret_cast<int64_t>(rows.data) | rows.stride[0] | rows.stride[1] | rows.stride[2];
    unit = all % 16 == 0 ? 16 : all % 4 == 0 ? 4 : 1;
  }
};

/// Copies 16 bytes of a row, zeros from its end on: `rest` bytes are left of it, none where it is not to be read.
__device__ inline void copy_codes(uint32_t to, const char *from, int32_t rest, int32_t unit) {
  if (unit == 16 && (rest >= 16 || rest <= 0)) return cp_async_16(to, from, rest > 0);
#pragma unroll 1
  for (int32_t i = 0; i < 16; i += 4) {
    if (unit >= 4 && rest - i >= 4) {
      cp_async_4(to + i, reinterpret_cast<const float *>(from + i));
      continue;
    }
    uint32_t word = 0;
#pragma unroll 1
    for (int32_t n = 0; n < min(rest - i, 4); n++) word |= uint32_t(uint8_t(from[i + n])) << n * 8;
    st_shared_b32(to + i, word);
  }
}

template <class B>
class Ring {
 public:
  /// Begins to copy the first tiles.
  __device__ Ring(const QuantisedParams &p, const SharedMemory<B> &shared)
      : p_(p), shared_(shared), all_from_(has_block_mask(p) ? INT_MAX : INT_MIN) {
    const int end = shared.block->tiles.end;
#pragma unroll 1  // the search is long
    for (int i = 0; i <= ahead; i++) {
      find_next(i == 0 ? end : tiles_[ahead]);
      place_next();
      if (i >= B::code_stages) continue;
      __syncthreads();
      put_key_row(key_rows_[1]);
      __syncthreads();
      if (i == 0) factors_.load(p_, shared_.block->work, shared_.state->key_row[FactorLoader<B>::key()]);
      copy(i);
    }
  }

  /// The tile in use.
  __device__ int tile() const { return tiles_[0]; }

  /// Waits for a tile's codes and widens them; begins to copy a later one. Its factors are then in `factors`.
  __device__ TileFactors<B> &next() {
    mma::BlockState<B> &block = *shared_.block;
    State<B> &state = *shared_.state;
    TileFactors<B> &factors = state.factors[parity_];
    factors_.store(p_, factors, state.largest[parity_], block.second_run);
    if constexpr (B::code_stages == 2) factors_.load(p_, block.work, state.key_row[FactorLoader<B>::key()]);
    cp_async_wait_group<B::code_stages - 1>();
    __syncthreads();  // all threads' copies have arrived, and all have left the tile before
    const uint32_t codes = shared_.codes + stage() * 2 * B::codes_bytes;
#pragma unroll 1
    for (int of_v = 0; of_v < 2; of_v++)
      widen<B>(of_v ? p_.v_dtype : p_.kv_dtype, codes + of_v * B::codes_bytes, of_v ? shared_.values() : shared_.keys(),
               factors.offset[of_v]);
    if constexpr (B::code_stages == 1) factors_.load(p_, block.work, key_rows_[0]);
    put_key_row(key_rows_[0]);
    __syncthreads();  // the tile is there, and the stage is free
    copy(stage());
    return factors;
  }

  /// The largest scales of values of the tile in use.
  __device__ const int32_t *largest() const { return shared_.state->largest[parity_]; }

  /// Goes on to the next tile.
  __device__ void advance() {
    parity_ ^= 1;
    find_next(tiles_[ahead]);
    place_next();
  }

 private:
  /// Tiles that are known, but for the one in use: those with a stage, the next one to be copied, and one whose key
  /// rows are on their way.
  static constexpr int ahead = B::code_stages + 1;
  static_assert(B::code_stages == 1 ||
                B::code_stages == 2);  // those in shared memory are those of the tile after the one in use

  /// Appends the tile before `tile`, which neither a mask nor a bias hides.
  __device__ void find_next(int tile) {
    unroll<ahead>([&](int i) { tiles_[i] = tiles_[i + 1]; });
    tiles_[ahead] = last_shown(tile - 1);
  }

  /// Requests the row of the thread's key of the last tile that is known. No other entry of a block table is read.
  __device__ void place_next() {
    key_rows_[0] = key_rows_[1];
    const Sequence &s = shared_.block->work.sequence;
    const int key = tiles_[ahead] * B::keys + FactorLoader<B>::key();
    KeyRow key_row = {s.k_batch, -1};
    const bool looks = B::code_stages == 1 || threadIdx.x < B::keys;  // the first ones for all
    if (looks && tiles_[ahead] >= shared_.block->tiles.first && key < s.keys) {
      key_row.row = s.k_first + key;
      if (p_.page_size != 0) {
        const int32_t number = page_number(p_, key_row.row);
        key_row.row -= number * p_.page_size;
        key_row.entry = *reinterpret_cast<const int32_t *>(shared_.block->table + number * p_.block_table.stride[1]);
      }
    }
    key_rows_[1] = key_row;
  }

  /// That of the tile in use.
  __device__ int stage() const { return B::code_stages == 2 ? parity_ : 0; }

  __device__ void put_key_row(const KeyRow &key_row) const {
    if (threadIdx.x < B::keys) shared_.state->key_row[threadIdx.x] = key_row;
  }

  /// Begins to copy the tile whose key rows are in shared memory, as one group.
  __device__ void copy(int stage) const {
    const uint32_t to = shared_.codes + stage * 2 * B::codes_bytes;
#pragma unroll 1
    for (int of_v = 0; of_v < 2; of_v++)
      copy(to + of_v * B::codes_bytes,
           of_v ? CodeRows(p_.v, p_.v_dtype, p_.head_dim_v) : CodeRows(p_.k, p_.kv_dtype, p_.head_dim));
    cp_async_commit_group();
  }

  __device__ void copy(uint32_t to, const CodeRows &rows) const {
    const int shift = __ffs(B::dim / 16) - 1 - rows.packed;  // log2 of a row's chunks
    const char *const head = rows.view.data + shared_.block->work.kv_head * rows.view.stride[2];
#pragma unroll 1
    for (int i = threadIdx.x; i < B::keys << shift; i += B::threads) {
      const int row = i >> shift, chunk = i & ((1 << shift) - 1);
      const KeyRow key_row = shared_.state->key_row[row];
      const bool exists = key_row.row >= 0;
      const char *const from = head + key_row.entry * rows.view.stride[0] + max(key_row.row, 0) * rows.view.stride[1];
      copy_codes(to + (rows.packed ? i * 16 : Sixteen<B>::offset_of_bytes(row, chunk)), from + chunk * 16,
                 exists ? rows.bytes - chunk * 16 : 0, rows.unit);
    }
  }

  /// The last tile up to this one that neither a mask nor a bias hides; first - 1 where none is left. By all threads.
  __device__ int last_shown(int tile) {
    mma::BlockState<B> &block = *shared_.block;
    const int first = block.tiles.first;
    if (tile >= all_from_) return max(tile, first - 1);
    while (tile >= first) {
      if (!block.shown.covers(tile) && !find_shown(block, tile)) all_from_ = block.shown.first;
      tile = block.shown.last_shown(tile);
      if (tile >= block.shown.first) return max(tile, first - 1);
    }
    return first - 1;
  }

  __device__ bool find_shown(mma::BlockState<B> &block, int tile) const {
    const WorkTile &w = block.work;
    const int rows = min(B::rows, w.rows - w.first_row);
    const auto row = [&](int r) { return row_at(p_, w, w.first_row + r); };
    return block.shown.find(
        tile, {block.tiles.first, block.tiles.end},
        [&](int t) { return shows_pair(p_, w.sequence, row(rows - 1), t * B::keys); },
        [&](int t) { return hides_block<B::keys>(p_, w.sequence, row, rows, t * B::keys); });
  }

  const QuantisedParams &p_;
  const SharedMemory<B> &shared_;
  FactorLoader<B> factors_;  // of the next tile
  int tiles_[ahead + 1];
  KeyRow key_rows_[2];  // of the tile that is copied next, and of the one after it
  int parity_ = 0, all_from_;
};

}  // namespace fa::kernels::mma_quantised
