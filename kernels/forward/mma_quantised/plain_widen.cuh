// Codes to 16-bit numbers in few instructions, exactly but for a power of two.
#pragma once

#include "forward/mma_quantised/plain_block.cuh"
#include "forward/mma_quantised/widen.cuh"

namespace fa::kernels::mma_quantised {

/// A bitwise function of three words; Table: its results for 0xf0, 0xcc, 0xaa.
template <int Table>
__device__ inline uint32_t lop3(uint32_t a, uint32_t b, uint32_t c) {
  uint32_t x;
  asm("lop3.b32 %0, %1, %2, %3, %4;" : "=r"(x) : "r"(a), "r"(b), "r"(c), "n"(Table));
  return x;
}
constexpr int and_or = (0xf0 & 0xcc) | 0xaa, and_xor = (0xf0 & 0xcc) ^ 0xaa, or_xor = 0xf0 | (0xcc ^ 0xaa);

/// Both halves of a b + c, of bf16.
__device__ inline uint32_t multiply_add_bf16(uint32_t a, uint32_t b, uint32_t c) {
  uint32_t x;
  asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(x) : "r"(a), "r"(b), "r"(c));
  return x;
}

/// Both halves of a - b, of f16.
__device__ inline uint32_t subtract_f16(uint32_t a, uint32_t b) {
  uint32_t x;
  asm("sub.rn.f16x2 %0, %1, %2;" : "=r"(x) : "r"(a), "r"(b));
  return x;
}

/// Bytes 0xff where those of e4m3 are NaN.
__device__ inline uint32_t nans_of_e4m3(uint32_t bytes) {
  return (((bytes & 0x7f7f7f7f) + 0x01010101) >> 7 & 0x01010101) * 0xff;
}

/// Words of codes as pairs of T: of four bytes two, of eight half bytes four. Numbers of e4m3 are to be multiplied
/// with e4m3_unit; NaN becomes a finite number.
template <class T>
struct Pairs;

template <>
struct Pairs<__half> {
  static constexpr float e4m3_unit = 256;

  /// 0x6400 + n is the number 1024 + n.
  __device__ static uint2 i8(uint32_t bytes) {
    const uint32_t x = bytes ^ 0x80808080;
    constexpr uint32_t base = 0x64806480;
    return {subtract_f16(__byte_perm(x, 0x64646464, 0x4140), base),
            subtract_f16(__byte_perm(x, 0x64646464, 0x4342), base)};
  }

  /// The same, and 0x5400 + 16 n is the number 64 + n.
  struct HalfBytes {
    uint32_t flip, base;
    __device__ explicit HalfBytes(bool is_signed)
        : flip(is_signed ? 0x54806408 : 0x54006400), base(is_signed ? 0x54806408 : 0x54006400) {}
    __device__ uint4 operator()(uint32_t x) const {
      const auto pair = [&](int selector) {
        return subtract_f16(lop3<and_xor>(__byte_perm(x, 0, selector), 0x00f0000f, flip), base);
      };
      return {pair(0x4040), pair(0x4141), pair(0x4242), pair(0x4343)};
    }
  };

  /// A sign, and seven bits that are one to the right of where f16 has them.
  __device__ static uint2 e4m3(uint32_t bytes) {
    const uint32_t high = lop3<and_or>(bytes >> 1, 0x3f3f3f3f, bytes & 0x80808080), low = bytes << 7 & 0x80808080;
    return {__byte_perm(low, high, 0x5140), __byte_perm(low, high, 0x7362)};
  }

  __device__ static uint2 e5m2(uint32_t bytes) { return Widened<__half>::e5m2(bytes); }
};

template <>
struct Pairs<__nv_bfloat16> {
  static constexpr float e4m3_unit = 1;

  /// 0x4300 + n is the number 128 + n, for n below 128: that of the seven lower bits, less that of the sign.
  __device__ static uint2 i8(uint32_t bytes) {
    const auto pair = [=](int selector) {
      const uint32_t x = __byte_perm(bytes, 0, selector);
      constexpr uint32_t base = 0x43004300, minus_one = 0xbf80bf80;
      return multiply_add_bf16(lop3<and_or>(x, 0x00800080, base), minus_one, lop3<and_or>(x, 0x007f007f, base));
    };
    return {pair(0x4140), pair(0x4342)};
  }

  /// The same, and 0x4180 + 8 n is the number 16 + n.
  struct HalfBytes {
    uint32_t flip, base;
    __device__ explicit HalfBytes(bool is_signed)
        : flip(is_signed ? 0x41c04308 : 0x41804300), base(is_signed ? 0xc1c0c308 : 0xc180c300) {}
    __device__ uint4 operator()(uint32_t x) const {
      const uint32_t half = x >> 1;
      constexpr uint32_t one = 0x3f803f80;
      const auto pair = [&](int selector) {
        return multiply_add_bf16(lop3<and_xor>(__byte_perm(x, half, selector), 0x0078000f, flip), one, base);
      };
      return {pair(0x4440), pair(0x5551), pair(0x6662), pair(0x7773)};
    }
  };

  /// Exponents of e4m3 are 120 below those of bf16.
  __device__ static uint2 e4m3(uint32_t bytes) {
    const auto pair = [=](int selector) {
      const uint32_t x = __byte_perm(bytes, 0, selector);
      constexpr uint32_t power = 0x7b807b80, minus_zero = 0x80008000;
      return multiply_add_bf16(lop3<and_or>(x >> 4, 0x07f007f0, x & 0x80008000), power, minus_zero);
    };
    return {pair(0x1404), pair(0x3424)};
  }

  __device__ static uint2 e5m2(uint32_t bytes) { return Widened<__nv_bfloat16>::e5m2(bytes); }
};

/// A tile of codes to T. No zero is subtracted.
template <class B, class T>
__device__ inline void widen_plain(int32_t dtype, uint32_t codes, uint32_t tile) {
  using To = Pairs<T>;
  constexpr int passes = Sixteen<B>::count, step = B::threads / Sixteen<B>::of_row;  // rows of a pass
  const Sixteen<B> place(0);
  const uint32_t to = tile + B::KeyTile::offset(place.row, place.number * 2);
  const auto store = [&](int i, int n, uint4 pairs) {
    st_shared_v4_b32((to ^ n * 16) + i * step * B::KeyTile::row_bytes, pairs);
  };
  const auto bytes_of = [&](int i) { return ld_shared_v4_b32(codes + place.offset_of_bytes() + i * step * B::dim); };
  const auto each = [&](auto f) {  // of words of four bytes
    unroll<passes>([&](int i) {
      const uint4 x = bytes_of(i);
      const uint2 a = f(x.x), b = f(x.y), c = f(x.z), d = f(x.w);
      store(i, 0, {a.x, a.y, b.x, b.y});
      store(i, 1, {c.x, c.y, d.x, d.y});
    });
  };
  switch (dtype) {
    case i8:
      return each([](uint32_t x) { return To::i8(x); });
    case e5m2:
      return each([](uint32_t x) { return To::e5m2(x); });
    case e4m3: {
      uint32_t ones = 0;  // changes of a byte's first bit where 1 is added: its other bits are ones
      each([&](uint32_t x) {
        ones = lop3<or_xor>(ones, x + 0x01010101, x);
        return To::e4m3(x);
      });
      if ((ones & 0x80808080) == 0) return;
#pragma unroll 1
      for (int i = 0; i < passes; i++) {
        const uint4 x = bytes_of(i);
        const auto with_nans = [](uint32_t x) {
          const uint2 pairs = To::e4m3(x);
          const uint32_t nans = nans_of_e4m3(x);
          return uint2{pairs.x | __byte_perm(nans, 0, 0x1100), pairs.y | __byte_perm(nans, 0, 0x3322)};
        };
        const uint2 a = with_nans(x.x), b = with_nans(x.y), c = with_nans(x.z), d = with_nans(x.w);
        store(i, 0, {a.x, a.y, b.x, b.y});
        store(i, 1, {c.x, c.y, d.x, d.y});
      }
      return;
    }
    default: {
      const typename To::HalfBytes numbers(sign_of_halves(dtype) != 0);
      unroll<passes>([&](int i) {
        const float2 x = ld_shared_v2_f32(codes + place.offset_of_halves() + i * step * (B::dim / 2));
        store(i, 0, numbers(__float_as_uint(x.x)));
        store(i, 1, numbers(__float_as_uint(x.y)));
      });
    }
  }
}

}  // namespace fa::kernels::mma_quantised
