// Items of a row: elements as they are, in another type, or rotated.
#pragma once

#include "common/append_params.h"
#include "common/element.cuh"
#include "common/unroll.cuh"

namespace fa::kernels::append {

/// Eight neighbouring elements.
struct Octet {
  float x[8];
};

template <Dtype D>
struct alignas(16) Packed {
  CudaType<D> x[8];
};

template <Dtype D>
__device__ inline Octet load_octet(const char *from) {
  const Packed<D> packed = *reinterpret_cast<const Packed<D> *>(from);
  Octet octet;
  unroll<8>([&](int i) { octet.x[i] = to_float(packed.x[i]); });
  return octet;
}

template <Dtype D>
__device__ inline void store_octet(char *to, const Octet &octet) {
  Packed<D> packed;
  unroll<8>([&](int i) { packed.x[i] = rounded<CudaType<D>>(octet.x[i]); });
  *reinterpret_cast<Packed<D> *>(to) = packed;
}

/// Numbers j .. j + 7 of a row of the rotary tables.
__device__ inline Octet load_table(const View &table, int32_t dtype, bool vectors, int64_t position, int j) {
  const char *const from = table.data + position * table.stride[1] + j * table.stride[3];
  Octet octet;
  if (vectors) {
    with_dtype(ComputeTypes(), dtype, [&](auto type) { octet = load_octet<type()>(from); });
  } else {
    unroll<8>([&](int i) { octet.x[i] = load_element(from + i * table.stride[3], dtype); });
  }
  return octet;
}

/// f of both types as constants.
template <class F>
__device__ __forceinline__ void with_dtypes(const RowStream &s, F f) {
  with_dtype(ComputeTypes(), s.from_dtype,
             [&](auto from) { with_dtype(ComputeTypes(), s.to_dtype, [&](auto to) { f(from, to); }); });
}

/// (x, y) becomes (x cos - y sin, x sin + y cos).
__device__ inline void rotate(float &x, float &y, float cos, float sin) {
  const float before = x;
  x = before * cos - y * sin;
  y = before * sin + y * cos;
}

/// Item j of those with pairs, of a row of the tensors of a stream.
__device__ inline void write_rotated(const AppendParams &p, const RowStream &s, const char *from, char *to, int j,
                                     int64_t position) {
  const int first = j * s.width;  // pair
  const int low = s.first + (p.interleaved ? 2 * first : first), high = low + (p.interleaved ? s.width : s.pairs);
  if (s.width == 1) {
    const auto of_table = [&](const View &table, int32_t dtype) {
      return load_element(table.data + position * table.stride[1] + first * table.stride[3], dtype);
    };
    float x = load_element(from + low * s.from.stride[3], s.from_dtype);
    float y = load_element(from + high * s.from.stride[3], s.from_dtype);
    rotate(x, y, of_table(p.rotary_cos, p.cos_dtype), of_table(p.rotary_sin, p.sin_dtype));
    store_element(to + low * s.to.stride[3], s.to_dtype, x);
    store_element(to + high * s.to.stride[3], s.to_dtype, y);
    return;
  }
  const Octet cos = load_table(p.rotary_cos, p.cos_dtype, p.table_vectors, position, first);
  const Octet sin = load_table(p.rotary_sin, p.sin_dtype, p.table_vectors, position, first);
  with_dtypes(s, [&](auto from_type, auto to_type) {
    constexpr int from_bytes = Element<from_type()>::bytes, to_bytes = Element<to_type()>::bytes;
    Octet a = load_octet<from_type()>(from + low * from_bytes), b = load_octet<from_type()>(from + high * from_bytes);
    if (p.interleaved) {
      unroll<4>([&](int i) {
        rotate(a.x[2 * i], a.x[2 * i + 1], cos.x[i], sin.x[i]);
        rotate(b.x[2 * i], b.x[2 * i + 1], cos.x[4 + i], sin.x[4 + i]);
      });
    } else {
      unroll<8>([&](int i) { rotate(a.x[i], b.x[i], cos.x[i], sin.x[i]); });
    }
    store_octet<to_type()>(to + low * to_bytes, a);
    store_octet<to_type()>(to + high * to_bytes, b);
  });
}

/// Item j of those without pairs. Of one type, elements keep their bits.
__device__ inline void write_plain(const RowStream &s, const char *from, char *to, int j) {
  const int before = j * s.width, column = before < s.first ? before : before + 2 * s.pairs;
  from += column * s.from.stride[3];
  to += column * s.to.stride[3];
  const bool copied = s.from_dtype == s.to_dtype;
  if (copied && from == to) return;  // queries in place
  if (s.width == 1) {
    if (!copied) {
      store_element(to, s.to_dtype, load_element(from, s.from_dtype));
    } else if (element_bytes(ComputeTypes(), s.to_dtype) == 2) {
      *reinterpret_cast<uint16_t *>(to) = *reinterpret_cast<const uint16_t *>(from);
    } else {
      *reinterpret_cast<uint32_t *>(to) = *reinterpret_cast<const uint32_t *>(from);
    }
    return;
  }
  with_dtypes(s, [&](auto from_type, auto to_type) {
    if constexpr (from_type() == to_type()) {
      *reinterpret_cast<Packed<to_type()> *>(to) = *reinterpret_cast<const Packed<from_type()> *>(from);
    } else {
      store_octet<to_type()>(to, load_octet<from_type()>(from));
    }
  });
}

}  // namespace fa::kernels::append
