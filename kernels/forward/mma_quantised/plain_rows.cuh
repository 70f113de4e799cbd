// Codes and scales of the plain entry point's tiles, one after another towards key 0: from global to shared memory.
#pragma once

#include "forward/mma_quantised/factors.cuh"
#include "forward/mma_quantised/plain_widen.cuh"

namespace fa::kernels::mma_quantised {

/// The factor that is missing in the numbers that codes of a type became.
template <class T>
__device__ inline float unit_of_codes(int32_t dtype) {
  switch (dtype) {
    case e4m3:
      return Pairs<T>::e4m3_unit;
    default:
      return 1;
  }
}

/// Whether all keys of a sequence and head have the same scale.
__device__ inline bool is_of_all_keys(const Params &p, const Factors &f) {
  return f.data == nullptr || (f.stride[1] == 0 && (p.page_size == 0 || f.stride[0] == 0));
}

/// A scale; NaN where it is not finite.
__device__ inline float scale_at(const Factors &f, const WorkTile &w, const KeyRow &key_row) {
  if (f.data == nullptr) return 1;
  const char *const from = f.data + key_row.entry * f.stride[0] + key_row.row * f.stride[1] + w.kv_head * f.stride[2];
  return finite_or_nan(load_element(from, f.dtype));
}

template <class B>
class PlainRows {
  static constexpr int lanes = B::threads / B::keys;  // that copy a row
  static_assert(lanes * B::keys == B::threads && lanes >= 2 && B::keys % 32 == 0);

 public:
  /// Begins to copy a tile.
  __device__ PlainRows(const QuantisedParams &p, const PlainMemory<B> &shared, int tile) : p_(p), shared_(shared) {
    find(tile);
    __syncthreads();
    copy(tile);
  }

  /// Waits for tile `tile`, widens it and makes its scales ready; begins to copy the one before it. o: in units of
  /// scales, `unit` is raised as these need.
  __device__ void next(int tile, typename B::Out &o, float &unit) {
    PlainState<B> &state = *shared_.state;
    const int thread = threadIdx.x, key = thread % B::keys;
    const bool has_scales = has_scales_of_values();
    const bool of_keys = thread < B::keys, of_values = has_scales && thread >= B::keys && thread < 2 * B::keys;
    if (of_values) {
      if (!is_finite(scale_)) scale_ = shared_.block->second_run ? 0 : nan_value();
      const int32_t largest_scale = max_over_warp(is_finite(scale_) ? __float_as_int(fabsf(scale_)) : 0);
      if (thread % 32 == 0) state.largest[key / 32] = largest_scale;
    }
    cp_async_wait_group<0>();
    __syncthreads();  // all threads' copies have arrived, and all have left the tile before
    if (has_scales) raise_unit<B, B::keys / 32>(o, unit, state.largest);
    if (of_keys)
      state.exponents[0][key] = scale_ * p_.scale * (log2_e * unit_of_codes<typename B::Element>(p_.kv_dtype));
    if constexpr (B::f32_scales) {
      if (thread >= B::keys && thread < 2 * B::keys)
        reinterpret_cast<float *>(state.scales)[key] = has_scales ? scale_ / unit : 1;
    } else {
      if (of_values) reinterpret_cast<__half *>(state.scales)[key] = __float2half_rn(scale_ / unit);
    }
    widen_plain<B, typename B::Element>(p_.kv_dtype, shared_.codes, shared_.keys());
    widen_plain<B, typename B::Element>(p_.v_dtype, shared_.codes + B::codes_bytes, shared_.values());
    __syncthreads();  // the tile is there, and the codes are free
    copy(tile - 1);
  }

  __device__ bool has_scales_of_values() const { return !is_of_all_keys(p_, p_.factors[v_scale]); }

 private:
  /// The row of a key. row: -1 where it does not exist.
  __device__ KeyRow key_row_of(int key) const {
    const WorkTile &w = shared_.block->work;
    KeyRow key_row = {w.sequence.k_batch, -1};
    if (key >= w.sequence.keys) return key_row;
    key_row.row = w.sequence.k_first + key;
    if (p_.page_size != 0) {
      const int32_t number = page_number(p_, key_row.row);
      key_row.row -= number * p_.page_size;
      key_row.entry = *reinterpret_cast<const int32_t *>(shared_.block->table + number * p_.block_table.stride[1]);
    }
    return key_row;
  }

  /// Notes where the keys of a tile are if it exists.
  __device__ void find(int tile) const {
    if (threadIdx.x < B::keys && tile >= shared_.block->tiles.first)
      shared_.state->key_row[tile % 2][threadIdx.x] = key_row_of(tile * B::keys + threadIdx.x);
  }

  /// Begins to copy a tile whose keys' rows are noted, if it exists, and notes those of the one before it.
  __device__ void copy(int tile) {
    if (tile < shared_.block->tiles.first) return;
    const KeyRow *const key_rows = shared_.state->key_row[tile % 2];
    const KeyRow copied = key_rows[threadIdx.x / lanes];
    copy(shared_.codes, copied, p_.k, p_.head_dim, is_packed(p_.kv_dtype));
    copy(shared_.codes + B::codes_bytes, copied, p_.v, p_.head_dim_v, is_packed(p_.v_dtype));
    cp_async_commit_group();
    const int kind = threadIdx.x / B::keys;
    const KeyRow scaled = key_rows[threadIdx.x % B::keys];
    scale_ = 1;
    if (kind < 2 && scaled.row >= 0) scale_ = scale_at(p_.factors[kind], shared_.block->work, scaled);
    find(tile - 1);
  }

  __device__ void copy(uint32_t to, const KeyRow &key_row, const View &rows, int32_t columns, bool packed) const {
    const int row = threadIdx.x / lanes, first = threadIdx.x % lanes, bytes = columns >> packed;
    const char *const from = rows.data + shared_.block->work.kv_head * rows.stride[2] + key_row.entry * rows.stride[0] +
                             max(key_row.row, 0) * rows.stride[1] + first * 16;
    const auto copy_chunk = [&](uint32_t at, int i) {
      cp_async_16(at ^ i * lanes * 16, from + i * lanes * 16, key_row.row >= 0 && (first + i * lanes) * 16 < bytes);
    };
    constexpr int of_halves = B::dim / 32, of_bytes = B::dim / 16;  // chunks of a row
    if (packed) {
      const uint32_t at = to + row * (B::dim / 2) + first * 16;
      if (lanes <= of_halves || first < of_halves)
        unroll<(of_halves + lanes - 1) / lanes>([&](int i) { copy_chunk(at, i); });
    } else {
      const uint32_t at = to + Sixteen<B>::offset_of_bytes(row, first);
      unroll<of_bytes / lanes>([&](int i) { copy_chunk(at, i); });
    }
  }

  const QuantisedParams &p_;
  const PlainMemory<B> &shared_;
  float scale_;  // of the thread's key, or value, of the tile on its way
};

}  // namespace fa::kernels::mma_quantised
