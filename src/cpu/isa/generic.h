// Any architecture, through GCC's and Clang's vector extensions: 4 lanes, 16 registers assumed.
#pragma once

#include "cpu/element.h"

namespace fa::cpu::FA_ISA {
namespace {

struct Simd {
  typedef float Vec __attribute__((vector_size(16)));
  typedef int32_t Int __attribute__((vector_size(16)));
  using Mask = Int;
  static constexpr int width = 4;
  static constexpr int tile_vectors = 3;
  static constexpr int subtiles = 4, max_subtiles = 4;
  static constexpr int pack = 1;  // operands of the products are f32
  static constexpr int parts = 1;
  static constexpr int decode_rows = 4;
  static constexpr int group_rows = 4;  // that share a load in decode
  static constexpr bool fused = false;  // fma may round twice

  template <class T>
  static T load_as(const void *p) {
    T a;
    __builtin_memcpy(&a, p, sizeof a);
    return a;
  }
  /// Keeps a in a register.
  static void pin(Vec &) {}
  static Vec load(const float *p) { return load_as<Vec>(p); }
  static void store(float *p, Vec a) { __builtin_memcpy(p, &a, sizeof a); }
  static Vec zero() { return Vec{}; }
  static Vec set1(float a) { return Vec{a, a, a, a}; }
  static Vec add(Vec a, Vec b) { return a + b; }
  static Vec sub(Vec a, Vec b) { return a - b; }
  static Vec mul(Vec a, Vec b) { return a * b; }
  static Vec div(Vec a, Vec b) { return a / b; }
  static Vec fma(Vec a, Vec b, Vec c) { return a * b + c; }
  static Vec multiply_add(Vec a, Vec b, Vec c) { return fma(a, b, c); }
  static Vec max(Vec a, Vec b) { return select(a > b, a, b); }  // b when either is NaN
  static Vec min(Vec a, Vec b) { return select(a < b, a, b); }  // b when either is NaN

  static Mask equal(Vec a, Vec b) { return a == b; }
  static Vec select(Mask m, Vec yes, Vec no) { return as_vec((m & as_int(yes)) | (~m & as_int(no))); }

  static Mask between(const int32_t *low, const int32_t *high, int32_t j) {
    const Int key = {j, j, j, j};
    return (load_as<Int>(low) <= key) & (key < load_as<Int>(high));
  }
  static Vec distance(const int32_t *a, int32_t j) {
    const Int d = load_as<Int>(a) - Int{j, j, j, j};
    const Int sign = d >> 31;
    return __builtin_convertvector((d ^ sign) - sign, Vec);
  }

  static void split(Vec x, Vec &n, Vec &r) {
    const Vec integral = set1(0x1.8p23f);  // adding it leaves no bits for a fraction
    x = max(set1(-127.0f), x);
    n = (x + integral) - integral;
    r = x - n;
  }
  static Vec scale(Vec a, Vec n) {
    const Int exponent = as_int(n + set1(0x1.8p23f)) << 23;  // NaN: the addend is 0 in all but its payload
    return as_vec(as_int(a) + exponent);
  }

  static Vec load_f16(const uint16_t *p) {
    return Vec{f16_to_float(p[0]), f16_to_float(p[1]), f16_to_float(p[2]), f16_to_float(p[3])};
  }
  static Vec load_bf16(const uint16_t *p) {
    return Vec{bf16_to_float(p[0]), bf16_to_float(p[1]), bf16_to_float(p[2]), bf16_to_float(p[3])};
  }
  /// 2 * width consecutive elements, split into the even and the odd ones.
  static void load_bf16_pair(const uint16_t *p, Vec &even, Vec &odd) {
    even = Vec{bf16_to_float(p[0]), bf16_to_float(p[2]), bf16_to_float(p[4]), bf16_to_float(p[6])};
    odd = Vec{bf16_to_float(p[1]), bf16_to_float(p[3]), bf16_to_float(p[5]), bf16_to_float(p[7])};
  }
  static Vec load_i8(const int8_t *p) { return __builtin_convertvector(Int{p[0], p[1], p[2], p[3]}, Vec); }
  static Vec load_e4m3(const uint8_t *p) {
    using E4m3 = Element<FA_E4M3>;
    return Vec{E4m3::to_float(p[0]), E4m3::to_float(p[1]), E4m3::to_float(p[2]), E4m3::to_float(p[3])};
  }
  static Vec load_e5m2(const uint8_t *p) {
    using E5m2 = Element<FA_E5M2>;
    return Vec{E5m2::to_float(p[0]), E5m2::to_float(p[1]), E5m2::to_float(p[2]), E5m2::to_float(p[3])};
  }
  /// 2 * width half bytes taken apart: the low ones, the high ones.
  static void load_i4_pair(const uint8_t *p, Vec &low, Vec &high) {
    const Int bytes = {p[0], p[1], p[2], p[3]};
    low = __builtin_convertvector((bytes << 28) >> 28, Vec);
    high = __builtin_convertvector((bytes << 24) >> 28, Vec);
  }
  static void load_u4_pair(const uint8_t *p, Vec &low, Vec &high) {
    const Int bytes = {p[0], p[1], p[2], p[3]};
    low = __builtin_convertvector(bytes & 15, Vec);
    high = __builtin_convertvector(bytes >> 4, Vec);
  }
  static Vec set1_f16(const void *p) { return set1(f16_to_float(load_as<uint16_t>(p))); }
  static Vec finite_or_nan(Vec a) { return a + (a - a); }
  static Vec load_bool(const uint8_t *p) { return __builtin_convertvector(Int{p[0], p[1], p[2], p[3]}, Vec); }
  static void store_f16(uint16_t *p, Vec a) {
    for (int i = 0; i < width; i++) p[i] = float_to_f16(a[i]);
  }
  static void store_bf16(uint16_t *p, Vec a) {
    for (int i = 0; i < width; i++) p[i] = float_to_bf16(a[i]);
  }
  /// The low byte of each lane.
  static void store_bytes(uint8_t *p, Vec a) {
    for (int i = 0; i < width; i++) p[i] = static_cast<uint8_t>(as_int(a)[i]);
  }

  /// The nearest integers, to even, as the bits of lanes: of numbers below 2^22.
  static Vec nearest(Vec a) { return as_vec(as_int(a + set1(0x1.8p23f)) - 0x4b400000); }
  /// The integers of four vectors as bytes, in order and saturated: 4 * width in a vector.
  static Vec pack_bytes(Vec a, Vec b, Vec c, Vec d) {
    const Vec from[4] = {a, b, c, d};
    int8_t bytes[4 * width];
    for (int i = 0; i < 4 * width; i++) {
      const int32_t x = as_int(from[i / width])[i % width];
      bytes[i] = static_cast<int8_t>(x < -128 ? -128 : x > 127 ? 127 : x);
    }
    return load_as<Vec>(bytes);
  }
  /// The low byte of each of 2 * width words.
  static void store_bytes_of_words(uint8_t *p, Vec a) {
    uint16_t words[2 * width];
    __builtin_memcpy(words, &a, sizeof words);
    for (int i = 0; i < 2 * width; i++) p[i] = static_cast<uint8_t>(words[i]);
  }

  static void transpose(Vec a[4]) {
    const Vec t0 = __builtin_shufflevector(a[0], a[1], 0, 4, 1, 5),
              t1 = __builtin_shufflevector(a[0], a[1], 2, 6, 3, 7);
    const Vec t2 = __builtin_shufflevector(a[2], a[3], 0, 4, 1, 5),
              t3 = __builtin_shufflevector(a[2], a[3], 2, 6, 3, 7);
    a[0] = __builtin_shufflevector(t0, t2, 0, 1, 4, 5);
    a[1] = __builtin_shufflevector(t0, t2, 2, 3, 6, 7);
    a[2] = __builtin_shufflevector(t1, t3, 0, 1, 4, 5);
    a[3] = __builtin_shufflevector(t1, t3, 2, 3, 6, 7);
  }
  static Vec sums(const Vec a[4]) {
    Vec t[4] = {a[0], a[1], a[2], a[3]};
    transpose(t);
    return (t[0] + t[1]) + (t[2] + t[3]);
  }

 private:
  static Int as_int(Vec a) { return load_as<Int>(&a); }
  static Vec as_vec(Int a) { return load_as<Vec>(&a); }
};

}  // namespace
}  // namespace fa::cpu::FA_ISA
