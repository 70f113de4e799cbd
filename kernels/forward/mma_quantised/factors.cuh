// The scales and zeros of a tile's keys: one of each a key, as f32 in shared memory.
#pragma once

#include "forward/mma_quantised/block.cuh"

namespace fa::kernels::mma_quantised {

/// The stored bits of an integer code, as an unsigned number, exceed the code by this much.
__device__ inline float excess_of(int32_t dtype) {
  switch (dtype) {
    case i8:
      return 128;
    case i4:
      return 8;
    default:
      return 0;
  }
}

/// The bits of an element, and the number that they are.
__device__ inline uint32_t element_bits(const char *from, int32_t dtype) {
  switch (dtype) {
    case f32:
      return *reinterpret_cast<const uint32_t *>(from);
    default:
      return *reinterpret_cast<const uint16_t *>(from);
  }
}
__device__ inline float from_bits(uint32_t bits, int32_t dtype) {
  return load_element(reinterpret_cast<const char *>(&bits), dtype);
}

/// A thread's part of the factors of a tile, on their way: those of one key.
template <class B>
class FactorLoader {
  static constexpr int together = B::threads / B::keys;          // threads that have a key
  static constexpr int count = together < 4 ? 4 / together : 1;  // of a thread; some may have none
  static_assert(together * B::keys == B::threads && count * together % 4 == 0);

 public:
  __device__ static int key() { return threadIdx.x % B::keys; }

  /// Requests those of the thread's key.
  __device__ void load(const QuantisedParams &p, const WorkTile &w, const KeyRow &key_row) {
    unroll<count>([&](int i) {
      bits_[i] = 0;
      exists_ = key_row.row >= 0;
      if (!exists_ || kind(i) >= 4) return;
      const Factors &f = p.factors[kind(i)];
      if (f.data == nullptr) return;
      const char *const from =
          f.data + key_row.entry * f.stride[0] + key_row.row * f.stride[1] + w.kv_head * f.stride[2];
      bits_[i] = element_bits(from, f.dtype);
    });
  }

  /// Writes them; largest: of each warp's scales of values. In a second run those of values that are not finite count
  /// as 0.
  __device__ void store(const QuantisedParams &p, TileFactors<B> &to, int32_t *largest, bool second_run) const {
    int32_t largest_scale = 0;
    unroll<count>([&](int i) {
      const int kind = this->kind(i), of_v = kind % 2;
      if (kind >= 4) return;
      const Factors &f = p.factors[kind];
      const bool is_scale = kind < 2;
      float x = is_scale ? 1 : 0;
      if (exists_ && f.data != nullptr) {
        x = from_bits(bits_[i], f.dtype);
        if (!is_finite(x)) x = of_v && second_run ? 0 : nan_value();
      }
      if (is_scale) {
        to.scale[of_v][key()] = x;
        if (of_v && f.data != nullptr && is_finite(x)) largest_scale = __float_as_int(fabsf(x));
        return;
      }
      const int32_t dtype = of_v ? p.v_dtype : p.kv_dtype;
      const float excess = excess_of(dtype), whole = fminf(fmaxf(rintf(x), -excess), largest_code(dtype));
      to.rest[of_v][key()] = x - whole;
      to.offset[of_v][key()] = whole + excess;
    });
    largest_scale = max_over_warp(largest_scale);
    if (threadIdx.x % 32 == 0) largest[threadIdx.x / 32] = largest_scale;
  }

 private:
  /// The FactorKind of a thread's number i.
  __device__ static int kind(int i) { return int(threadIdx.x) / B::keys + i * together; }

  uint32_t bits_[count];
  bool exists_ = false;
};

/// Products to scores, but for the softmax scale: subtracts the rest of zeros, multiplies by scales.
template <class B>
__device__ inline void scale_products(const QuantisedParams &p, typename B::Scores &s, const State<B> &state,
                                      const TileFactors<B> &factors) {
  const bool has_zeros = p.factors[k_zero].data != nullptr;
  if (p.factors[k_scale].data == nullptr && !has_zeros) return;
  const int thread = mov_tid_x() & 0x3ff, first = B::first_key(thread / 32) + B::Scores::first_column(thread % 32);
  typename B::Rows sum;
  sum.fill(0);
  if (has_zeros) unroll<B::Rows::rows>([&](int r) { sum[r] = state.query_sum[mma::row_of_tile<B>(thread, r)]; });
  unroll<B::Scores::column_blocks>([&](int j) {
    const float2 scale = *reinterpret_cast<const float2 *>(&factors.scale[0][first + 8 * j]);
    float2 rest = {0, 0};
    if (has_zeros) rest = *reinterpret_cast<const float2 *>(&factors.rest[0][first + 8 * j]);
    unroll<B::Rows::rows>([&](int r) {
      float &x = s.at(r, 8 * j), &y = s.at(r, 8 * j + 1);
      if (has_zeros) x = fmaf(-rest.x, sum[r], x), y = fmaf(-rest.y, sum[r], y);
      x *= scale.x, y *= scale.y;
    });
  });
}

/// Moves O to the unit of another tile: a power of two that none of its scales of values is above. largest: the bits of
/// the largest one of each warp.
template <class B, int warps>
__device__ inline void raise_unit(typename B::Out &o, float &unit, const int32_t *largest) {
  int32_t largest_scale = largest[0];
  unroll<warps - 1>([&](int i) { largest_scale = max(largest_scale, largest[i + 1]); });
  const float power = fminf(2 * __int_as_float(largest_scale & 0x7f800000), 0x1p127f);
  if (power <= unit) return;
  typename B::Rows factor;
  factor.fill(unit / power);
  o.scale_rows(factor);
  unit = power;
}

/// The unit of O. f16's weights times a scale are in it; types with f32's exponents need none.
template <class B>
class Unit {
 public:
  static constexpr bool needed = !Element<B::dtype>::f32_exponents;

  __device__ explicit Unit(const QuantisedParams &p) : unit_(p.factors[v_scale].data != nullptr ? 0x1p-126f : 1) {}

  /// Moves to the scales of another tile; largest: of each warp, none where values have no scale.
  __device__ void raise(typename B::Out &o, const int32_t *largest) {
    if constexpr (needed) raise_unit<B, B::threads / 32>(o, unit_, largest);
  }

  __device__ float value() const { return needed ? unit_ : 1; }
  __device__ float inverse() const { return needed ? 1 / unit_ : 1; }

 private:
  float unit_;
};

/// Weights times the scales of values, in the unit of O. The rest of zeros is summed separately, with weights as
/// they will be rounded.
template <class B>
__device__ inline void scale_weights(const QuantisedParams &p, typename B::Scores &s, typename B::Out &o,
                                     const TileFactors<B> &factors, float inverse_unit) {
  const bool has_zeros = p.factors[v_zero].data != nullptr;
  if (p.factors[v_scale].data == nullptr && !has_zeros) return;
  const int thread = mov_tid_x() & 0x3ff, first = B::first_key(thread / 32) + B::Scores::first_column(thread % 32);
  unroll<B::Scores::column_blocks>([&](int j) {
    const float2 scale = *reinterpret_cast<const float2 *>(&factors.scale[1][first + 8 * j]);
    float2 rest = {0, 0};
    if (has_zeros) rest = *reinterpret_cast<const float2 *>(&factors.rest[1][first + 8 * j]);
    unroll<B::Rows::rows>([&](int r) {
      float &x = s.at(r, 8 * j), &y = s.at(r, 8 * j + 1);
      x *= scale.x * inverse_unit, y *= scale.y * inverse_unit;
      if (!has_zeros) return;
      x = to_float(rounded<typename B::Element>(x)), y = to_float(rounded<typename B::Element>(y));
      o.zeros[r] = fmaf(x, rest.x, fmaf(y, rest.y, o.zeros[r]));
    });
  });
}

/// O in units of values, after the last tile.
template <class B>
__device__ inline void finish_units(const QuantisedParams &p, typename B::Out &o, const Unit<B> &unit) {
  unroll<B::Rows::rows>([&](int r) {
    const float zeros = p.factors[v_zero].data != nullptr ? sum_over_lanes<4>(o.zeros[r]) : 0;
    o.for_each_in_row(r, [&](float &x, int) { x = (x - zeros) * unit.value(); });
  });
}

}  // namespace fa::kernels::mma_quantised
