// Encodes a row of new numbers, by the lanes that share it: scales of groups, then codes, then the copy to the cache.
// All lanes of a warp take part, with a row or without one.
#pragma once

#include "append/append/rows.cuh"
#include "append/append_quantised/encode.cuh"
#include "append/append_quantised/tiles.h"
#include "collective/sequence.cuh"
#include "common/numbers.cuh"

namespace fa::kernels::append_quantised {

using append::load_octet;
using append::Octet;

/// A lane's view of the row that it shares.
struct CodeRow {
  char *memory;  // its part of shared memory
  int lane;      // of those that share the row
  bool exists;

  __device__ float *numbers() const { return reinterpret_cast<float *>(memory); }
  __device__ float *scales(const CodeStream &c) const { return reinterpret_cast<float *>(memory + c.scales_at); }
  __device__ float *zeros(const CodeStream &c) const { return reinterpret_cast<float *>(memory + c.zeros_at); }
  __device__ char *codes(const CodeStream &c) const { return memory + c.codes_at; }
};

__device__ inline float rounded_to(int32_t dtype, float x) {
  with_dtype(ComputeTypes(), dtype, [&](auto type) { x = to_float(rounded<CudaType<type()>>(x)); });
  return x;
}

/// Maps the bits of numbers to integers in the same order (but for NaN), and back: its inverse is itself.
__device__ inline int ordered(int bits) {
  return bits ^ (bits >> 31 & 0x7fffffff);
}

/// The range of a group: the bits of the largest magnitude, which order numbers with infinity and NaN last, and the
/// least and the largest number as ordered integers.
struct Range {
  uint32_t magnitude = 0;
  int low = 0x7fffffff, high = int(0x80000000);

  __device__ void add(float x) {
    const int bits = __float_as_int(x);
    magnitude = max(magnitude, uint32_t(bits) & 0x7fffffff);
    low = min(low, ordered(bits)), high = max(high, ordered(bits));
  }

  /// Joins the ranges of neighbouring lanes.
  __device__ void join(int lanes) {
    for (int d = 1; d < lanes; d *= 2) {
      magnitude = max(magnitude, __shfl_xor_sync(~0u, magnitude, d));
      low = min(low, __shfl_xor_sync(~0u, low, d)), high = max(high, __shfl_xor_sync(~0u, high, d));
    }
  }

  __device__ bool is_finite() const { return magnitude < 0x7f800000; }
};

/// The range of this lane's part of n numbers.
__device__ inline Range range_of(const float *x, int n, int lane, int lanes) {
  Range range;
  if (n % octet == 0) {
    for (int i = lane * octet; i < n; i += lanes * octet) {
      const Octet part = load_octet<f32>(reinterpret_cast<const char *>(x + i));
      unroll<octet>([&](int j) { range.add(part.x[j]); });
    }
  } else {
    for (int i = lane; i < n; i += lanes) range.add(x[i]);
  }
  return range;
}

/// Computes the scale and the zero of group g, and writes them to the cache and to shared memory.
__device__ inline void write_factors(const CodeStream &c, const CodeRow &row, const Range &range, int g, char *scale_at,
                                     char *zero_at) {
  const float largest = __uint_as_float(range.magnitude), code = largest_code(c.dtype);
  float scale = range.is_finite() ? __fdiv_rn(largest, code) : nan_value();
  if (zero_at != nullptr && range.is_finite()) {
    const float low = __int_as_float(ordered(range.low)), high = __int_as_float(ordered(range.high));
    scale = fmaxf(__fsub_rn(__fdiv_rn(high, code), __fdiv_rn(low, code)), __fdiv_rn(largest, 256));
  }
  scale = rounded_to(c.scale.dtype, scale);
  row.scales(c)[g] = scale;
  store_element(scale_at + g * c.scale.stride[3], c.scale.dtype, scale);
  if (zero_at == nullptr) return;
  const float low = __int_as_float(ordered(range.low));
  const float zero = scale > 0 && scale < infinity ? __fsub_rn(0, __fdiv_rn(low, scale)) : 0;
  row.zeros(c)[g] = rounded_to(c.zero.dtype, zero);
  store_element(zero_at + g * c.zero.stride[3], c.zero.dtype, zero);
}

/// The address of the factors of a row; null where there are none.
__device__ inline char *factors_at(const Factors &f, const TokenRow &token, int32_t head) {
  return f.data == nullptr ? nullptr
                           : f.data + token.entry * f.stride[0] + token.row * f.stride[1] + head * f.stride[2];
}

/// Computes all scales and zeros of a row.
__device__ inline void compute_factors(const CodeStream &c, const CodeRow &row, char *scale_at, char *zero_at) {
  const int in_group = row.lane % c.group_lanes, groups = c.lanes / c.group_lanes;
  for (int first = 0; first < c.scales; first += groups) {
    const int g = first + row.lane / c.group_lanes;
    const bool has_group = row.exists && g < c.scales;
    Range range;
    if (has_group) range = range_of(row.numbers() + g * c.scale.channels, c.scale.channels, in_group, c.group_lanes);
    range.join(c.group_lanes);
    if (has_group && in_group == 0) write_factors(c, row, range, g, scale_at, zero_at);
  }
}

/// Loads n factors of a row into shared memory.
__device__ inline void load_factors(const Factors &f, const CodeRow &row, int lanes, const char *at, int n,
                                    float absent, float *to) {
  for (int g = row.lane; row.exists && g < n; g += lanes)
    to[g] = at == nullptr ? absent : load_element(at + g * f.stride[3], f.dtype);
}

/// The scale and the zero of a number x, whose code is x / scale + zero, rounded.
struct Factor {
  float scale, zero;

  /// Whether numbers can be divided by the scale; else codes are 0.
  __device__ bool usable() const { return is_finite(scale) && scale != 0; }
};

__device__ inline Factor factor_of(const CodeStream &c, const CodeRow &row, uint32_t d) {
  return {row.scales(c)[quotient(d, c.by_scale_channels)], row.zeros(c)[quotient(d, c.by_zero_channels)]};
}

/// The first n numbers of an octet in shared memory, and zeros after them.
__device__ inline Octet octet_at(const float *x, int n) {
  if (n == octet) return load_octet<f32>(reinterpret_cast<const char *>(x));
  Octet some = {};
  unroll<octet>([&](int i) {
    if (i < n) some.x[i] = x[i];
  });
  return some;
}

/// The numbers of a row as codes, in shared memory.
template <class Codes>
__device__ inline void encode(Codes, const CodeStream &c, const CodeRow &row) {
  for (int j = row.lane; row.exists && j * octet < c.dim; j += c.lanes) {
    const int first = j * octet, n = min(octet, c.dim - first);
    const Octet x = octet_at(row.numbers() + first, n);
    Factor factor = factor_of(c, row, first);
    uint32_t words[2] = {};
    unroll<octet>([&](int i) {
      if (!c.whole_groups && i < n) factor = factor_of(c, row, first + i);
      const float number = __fadd_rn(__fdiv_rn(x.x[i], factor.scale), factor.zero);
      const uint32_t code = factor.usable() ? Codes::code(number) : 0;
      words[i * Codes::bits / 32] |= code << i * Codes::bits % 32;
    });
    if constexpr (Codes::bits == 8) {
      reinterpret_cast<uint2 *>(row.codes(c))[j] = {words[0], words[1]};
    } else {
      reinterpret_cast<uint32_t *>(row.codes(c))[j] = words[0];
    }
  }
}

/// The number that determines a block's scale: the first of the largest magnitude (0 where all are 0), or one that is
/// not finite. Four neighbouring lanes have an octet each.
__device__ inline float largest_of_block(const Octet &octet_of_lane, int lane) {
  const auto magnitude = [](float x) { return __float_as_uint(x) & 0x7fffffff; };
  float largest = 0;
  unroll<octet>([&](int i) {
    if (magnitude(octet_of_lane.x[i]) > magnitude(largest)) largest = octet_of_lane.x[i];
  });
  for (int d = 1; d < 4; d *= 2) {
    const float other = __shfl_xor_sync(~0u, largest, d);
    const uint32_t own = magnitude(largest), its = magnitude(other);
    if (its > own || (its == own && (lane & d) != 0)) largest = other;
  }
  return largest;
}

/// The numbers of a row as blocks of 32, an octet a lane. Scales are not rounded before codes are computed with them.
template <class Codes>
__device__ inline void encode_blocks(Codes, const CodeStream &c, const CodeRow &row) {
  constexpr bool has_bytes = Codes::per_scale > 0;
  constexpr int block_bytes = has_bytes ? 34 : 18;
  for (int begin = 0; begin * octet < c.dim; begin += c.lanes) {
    const int j = begin + row.lane, in_block = j % 4;
    const bool has_octet = row.exists && j * octet < c.dim;
    Octet x = {};
    if (has_octet) x = load_octet<f32>(reinterpret_cast<const char *>(row.numbers() + j * octet));
    const float largest = largest_of_block(x, row.lane);
    const bool finite = is_finite(largest);
    const float scale = __fdiv_rn(has_bytes ? fabsf(largest) : largest, Codes::per_scale);
    const float inverse = finite && scale != 0 ? __fdiv_rn(1, scale) : 0;
    uint2 codes = {};
    unroll<octet>([&](int i) {
      const float number = __fmul_rn(x.x[i], inverse);
      const uint32_t code = Codes::code(number == number ? number : 0);
      (i < 4 ? codes.x : codes.y) |= code << i % 4 * 8;
    });
    if constexpr (!has_bytes) {  // the second half of a block shares bytes with the first
      codes.x |= __shfl_xor_sync(~0u, codes.x, 2) << 4;
      codes.y |= __shfl_xor_sync(~0u, codes.y, 2) << 4;
    }
    if (!has_octet || (!has_bytes && in_block >= 2)) continue;
    char *const block = row.codes(c) + j / 4 * block_bytes;
    auto *const to = reinterpret_cast<uint16_t *>(block + 2 + in_block * octet);
    unroll<4>([&](int i) { to[i] = uint16_t((i < 2 ? codes.x : codes.y) >> i % 2 * 16); });
    if (in_block == 0)
      *reinterpret_cast<uint16_t *>(block) = finite ? __half_as_ushort(__float2half_rn(scale)) : 0x7e00;
  }
}

template <class Word>
__device__ inline void store_words(const CodeStream &c, const CodeRow &row, char *to) {
  for (int i = row.lane * int(sizeof(Word)); i < c.code_bytes; i += c.lanes * int(sizeof(Word)))
    *reinterpret_cast<Word *>(to + i) = *reinterpret_cast<const Word *>(row.codes(c) + i);
}

/// Stores the codes of a row in the cache.
__device__ inline void store_codes(const CodeStream &c, const CodeRow &row, char *to) {
  switch (c.word) {
    case 8:
      return store_words<uint2>(c, row, to);
    case 4:
      return store_words<uint32_t>(c, row, to);
    case 2:
      return store_words<uint16_t>(c, row, to);
    default:
      for (int i = row.lane; i < c.code_bytes; i += c.lanes) to[i * c.step] = row.codes(c)[i];
  }
}

/// The numbers of a row as codes of its scales and zeros, which are given or computed.
__device__ inline void encode_numbers(const CodeStream &c, const CodeRow &row, const TokenRow &token, int32_t head) {
  char *const scale_at = factors_at(c.scale, token, head), *const zero_at = factors_at(c.zero, token, head);
  if (c.computed) compute_factors(c, row, scale_at, zero_at);
  if (!c.computed) load_factors(c.scale, row, c.lanes, scale_at, c.scales, 1, row.scales(c));
  if (!c.computed || zero_at == nullptr)
    load_factors(c.zero, row, c.lanes, zero_at, c.zeros, -0.0f, row.zeros(c));  // -0, added, changes no number
  __syncwarp();
  with_codes(c.dtype, [&](auto codes) { encode(codes, c, row); });
}

/// Rotates blocks of a row's numbers by Sylvester's Hadamard matrix: sums and differences of numbers 1, 2, 4, ...
/// apart, the same in the same order as on the CPU.
__device__ inline void rotate_blocks(const CodeStream &c, const CodeRow &row) {
  float *const x = row.numbers();
  for (int i = row.lane; row.exists && i < c.rotated; i += c.lanes) x[i] = __fmul_rn(x[i], c.factor);
  for (int apart = 1; apart < c.block; apart *= 2) {
    __syncwarp();
    for (int pair = row.lane; row.exists && 2 * pair < c.rotated; pair += c.lanes) {
      float *const low = x + 2 * pair - (pair & (apart - 1)), a = low[0], b = low[apart];
      low[0] = __fadd_rn(a, b);
      low[apart] = __fsub_rn(a, b);
    }
  }
  __syncwarp();
}

/// Writes the row of a token and a head from a tensor of the call to the cache.
__device__ inline void write_row(const AppendCodesParams &p, int which, const TokenRow &token, int32_t head,
                                 const CodeRow &row) {
  const RowStream &s = p.stream[which];
  const CodeStream &c = p.codes[which];
  const int rotated = s.pairs / s.width;
  const char *const from = token.from + head * s.from.stride[2];
  for (int j = row.lane; row.exists && j < s.items; j += c.lanes) {
    if (j < rotated) {
      append::write_rotated(p, s, from, row.memory, j, token.position);
    } else {
      append::write_plain(s, from, row.memory, j - rotated);
    }
  }
  __syncwarp();
  if (c.block > 1) rotate_blocks(c, row);
  char *const to = s.to.data + token.entry * s.to.stride[0] + token.row * s.to.stride[1] + head * s.to.stride[2];
  if (c.dtype == 0) {
    for (int i = row.lane; row.exists && i < c.dim; i += c.lanes)
      store_element(to + i * c.step, c.number_dtype, row.numbers()[i]);
    return;
  }
  switch (c.dtype) {
    case q8_0:
      encode_blocks(BytesOfBlock(), c, row);
      break;
    case q4_0:
      encode_blocks(HalfBytesOfBlock(), c, row);
      break;
    default:
      encode_numbers(c, row, token, head);
  }
  __syncwarp();
  if (row.exists) store_codes(c, row, to);
}

}  // namespace fa::kernels::append_quantised
