// Codes to 16-bit numbers, without error: tiles of codes in shared memory become tiles as ldmatrix reads them.
#pragma once

#include "forward/mma_quantised/block.cuh"

namespace fa::kernels::mma_quantised {

/// Codes in a word as two pairs of numbers; first: of the low half, second: of the high half.
template <class T>
struct Widened;

template <>
struct Widened<__half> {
  /// Unsigned bytes less a whole number: 0x6400 + n is the number 1024 + n.
  struct Integers {
    __half2 base;
    __device__ explicit Integers(float offset) : base(__float2half2_rn(1024 + offset)) {}
    __device__ uint2 operator()(uint32_t bytes) const {
      return {less(__byte_perm(bytes, 0x64646464, 0x4140)), less(__byte_perm(bytes, 0x64646464, 0x4342))};
    }
    __device__ uint32_t less(uint32_t pair) const {
      const __half2 x = __hsub2(*reinterpret_cast<const __half2 *>(&pair), base);
      return *reinterpret_cast<const uint32_t *>(&x);
    }
  };

  /// Exponents of e4m3 are 8 below those of f16.
  __device__ static uint2 e4m3(uint32_t bytes) {
    return {of_pair(__byte_perm(bytes, 0, 0x1404)), of_pair(__byte_perm(bytes, 0, 0x3424))};
  }
  __device__ static uint32_t of_pair(uint32_t pair) {
    const uint32_t size = (pair & 0x7f007f00) >> 1, nan = (size + 0x00800080) & 0x40004000;
    const uint32_t x = multiply_halves(size | (pair & 0x80008000), 256);
    return nan == 0 ? x : x | ((nan << 1) - (nan >> 14));
  }

  /// e5m2 is the upper half of a f16.
  __device__ static uint2 e5m2(uint32_t bytes) {
    return {__byte_perm(bytes, 0, 0x1404), __byte_perm(bytes, 0, 0x3424)};
  }
};

template <>
struct Widened<__nv_bfloat16> {
  /// 0x4b000000 + n is the number 2^23 + n of f32; differences have 8 bits.
  struct Integers {
    float base;
    __device__ explicit Integers(float offset) : base(0x1p23f + offset) {}
    __device__ uint2 operator()(uint32_t bytes) const {
      return {pack<__nv_bfloat16>(at(bytes, 0x7650), at(bytes, 0x7651)),
              pack<__nv_bfloat16>(at(bytes, 0x7652), at(bytes, 0x7653))};
    }
    __device__ float at(uint32_t bytes, uint32_t selector) const {
      return __uint_as_float(__byte_perm(bytes, 0x4b000000, selector)) - base;
    }
  };

  /// Exponents of e4m3 are 120 below those of bf16.
  __device__ static uint2 e4m3(uint32_t bytes) {
    return {of_pair(__byte_perm(bytes, 0, 0x1404)), of_pair(__byte_perm(bytes, 0, 0x3424))};
  }
  __device__ static uint32_t of_pair(uint32_t pair) {
    const uint32_t size = (pair & 0x7f007f00) >> 4, nan = (size + 0x00100010) & 0x08000800;
    const uint32_t signed_size = size | (pair & 0x80008000);
    const float low = __uint_as_float(signed_size << 16) * 0x1p120f;
    const float high = __uint_as_float(signed_size & 0xffff0000) * 0x1p120f;
    const uint32_t x = __byte_perm(__float_as_uint(low), __float_as_uint(high), 0x7632);
    return nan == 0 ? x : x | ((nan << 4) - (nan >> 11));
  }

  __device__ static uint2 e5m2(uint32_t bytes) {
    const uint2 halves = Widened<__half>::e5m2(bytes);
    const auto of_pair = [](uint32_t pair) {
      const float2 x = __half22float2(*reinterpret_cast<const __half2 *>(&pair));
      return pack<__nv_bfloat16>(x.x, x.y);
    };
    return {of_pair(halves.x), of_pair(halves.y)};
  }
};

/// The eight half bytes of a word as bytes.
__device__ inline uint2 bytes_of_halves(uint32_t halves) {
  const uint32_t low = halves & 0x0f0f0f0f, high = halves >> 4 & 0x0f0f0f0f;
  return {__byte_perm(low, high, 0x5140), __byte_perm(low, high, 0x7362)};
}

/// The bits whose flip turns half bytes into their differences from the smallest code.
__device__ inline uint32_t sign_of_halves(int32_t dtype) {
  switch (dtype) {
    case i4:
      return 0x88888888;
    default:
      return 0;
  }
}

/// 16 codes in tiles: eight neighbouring lanes have four of each of two rows, whose chunks lie in
/// different banks, before and after.
template <class B>
struct Sixteen {
  static constexpr int of_row = B::dim / 16, panels = of_row / 4;
  static constexpr int count = B::keys * of_row / B::threads;  // of a thread
  static_assert(count * B::threads == B::keys * of_row && of_row % 4 == 0);
  int row, number;  // of the row's

  __device__ explicit Sixteen(int i) {
    const int n = threadIdx.x + i * B::threads, eight = n / 8;
    row = eight / panels * 2 + n / 4 % 2;
    number = eight % panels * 4 + n % 4;
  }

  /// Where chunk `chunk` of a row of codes of a byte each lies.
  __device__ static uint32_t offset_of_bytes(int row, int chunk) { return row * B::dim + (chunk ^ row % 2 * 4) * 16; }
  __device__ uint32_t offset_of_bytes() const { return offset_of_bytes(row, number); }

  /// The same of half a byte each.
  __device__ uint32_t offset_of_halves() const { return row * (B::dim / 2) + number * 8; }

  __device__ void store(uint32_t tile, const uint2 (&pairs)[4]) const {
    const uint32_t at = tile + B::KeyTile::offset(row, number * 2);
    st_shared_v4_b32(at, {pairs[0].x, pairs[0].y, pairs[1].x, pairs[1].y});
    st_shared_v4_b32(at ^ 16, {pairs[2].x, pairs[2].y, pairs[3].x, pairs[3].y});
  }
};

/// A tile of codes to numbers; offset[key]: subtracted from integer codes, as unsigned ones.
template <class B>
__device__ inline void widen(int32_t dtype, uint32_t codes, uint32_t tile, const float *offset) {
  using To = Widened<typename B::Element>;
  const auto each = [&](auto f) {  // of words of four bytes
#pragma unroll 1
    for (int i = 0; i < Sixteen<B>::count; i++) {
      const Sixteen<B> place(i);
      const uint4 x = ld_shared_v4_b32(codes + place.offset_of_bytes());
      place.store(tile, {f(x.x), f(x.y), f(x.z), f(x.w)});
    }
  };
  switch (dtype) {
    case e4m3:
      return each([](uint32_t bytes) { return To::e4m3(bytes); });
    case e5m2:
      return each([](uint32_t bytes) { return To::e5m2(bytes); });
    case i8:
#pragma unroll 1
      for (int i = 0; i < Sixteen<B>::count; i++) {
        const Sixteen<B> place(i);
        const uint4 x = ld_shared_v4_b32(codes + place.offset_of_bytes());
        const typename To::Integers numbers(offset[place.row]);
        constexpr uint32_t sign = 0x80808080;
        place.store(tile, {numbers(x.x ^ sign), numbers(x.y ^ sign), numbers(x.z ^ sign), numbers(x.w ^ sign)});
      }
      return;
    default: {
      const uint32_t sign = sign_of_halves(dtype);
#pragma unroll 1
      for (int i = 0; i < Sixteen<B>::count; i++) {
        const Sixteen<B> place(i);
        const float2 x = ld_shared_v2_f32(codes + place.offset_of_halves());
        const typename To::Integers numbers(offset[place.row]);
        const uint2 first = bytes_of_halves(__float_as_uint(x.x) ^ sign);
        const uint2 second = bytes_of_halves(__float_as_uint(x.y) ^ sign);
        place.store(tile, {numbers(first.x), numbers(first.y), numbers(second.x), numbers(second.y)});
      }
    }
  }
}

}  // namespace fa::kernels::mma_quantised
