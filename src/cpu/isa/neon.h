// AArch64 Advanced SIMD: 4 lanes, 32 registers.
#pragma once

#include <arm_neon.h>

#include <cstdint>

namespace fa::cpu::FA_ISA {
namespace {

struct Simd {
  using Vec = float32x4_t;
  using Mask = uint32x4_t;
  static constexpr int width = 4;
  static constexpr int tile_vectors = 4;
  static constexpr int subtiles = 4, max_subtiles = 4;
  static constexpr int pack = 1;  // operands of the products are f32
  static constexpr int parts = 1;
  static constexpr int decode_rows = 4;
  static constexpr int group_rows = 4;  // that share a load in decode
  static constexpr bool fused = true;   // fma rounds once

  /// Keeps a in a register.
  static void pin(Vec &a) { asm("" : "+w"(a)); }
  static Vec load(const float *p) { return vld1q_f32(p); }
  static void store(float *p, Vec a) { vst1q_f32(p, a); }
  static Vec zero() { return vdupq_n_f32(0); }
  static Vec set1(float a) { return vdupq_n_f32(a); }
  static Vec add(Vec a, Vec b) { return vaddq_f32(a, b); }
  static Vec sub(Vec a, Vec b) { return vsubq_f32(a, b); }
  static Vec mul(Vec a, Vec b) { return vmulq_f32(a, b); }
  static Vec div(Vec a, Vec b) { return vdivq_f32(a, b); }
  static Vec fma(Vec a, Vec b, Vec c) { return vfmaq_f32(c, a, b); }
  static Vec multiply_add(Vec a, Vec b, Vec c) { return fma(a, b, c); }
  static Vec max(Vec a, Vec b) { return vbslq_f32(vcgtq_f32(a, b), a, b); }  // b when either is NaN
  static Vec min(Vec a, Vec b) { return vbslq_f32(vcltq_f32(a, b), a, b); }  // b when either is NaN

  static Mask equal(Vec a, Vec b) { return vceqq_f32(a, b); }
  static Vec select(Mask m, Vec yes, Vec no) { return vbslq_f32(m, yes, no); }

  static Mask between(const int32_t *low, const int32_t *high, int32_t j) {
    const int32x4_t key = vdupq_n_s32(j);
    return vandq_u32(vcleq_s32(vld1q_s32(low), key), vcltq_s32(key, vld1q_s32(high)));
  }
  static Vec distance(const int32_t *a, int32_t j) { return vcvtq_f32_s32(vabdq_s32(vld1q_s32(a), vdupq_n_s32(j))); }

  static void split(Vec x, Vec &n, Vec &r) {
    x = max(set1(-127.0f), x);
    n = vrndnq_f32(x);
    r = vsubq_f32(x, n);
  }
  static Vec scale(Vec a, Vec n) {
    const int32x4_t exponent = vshlq_n_s32(vcvtq_s32_f32(n), 23);
    return vreinterpretq_f32_s32(vaddq_s32(vreinterpretq_s32_f32(a), exponent));
  }

  static Vec load_f16(const uint16_t *p) { return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(p))); }
  static Vec load_bf16(const uint16_t *p) { return vreinterpretq_f32_u32(vshll_n_u16(vld1_u16(p), 16)); }
  /// 2 * width consecutive elements, split into the even and the odd ones.
  static void load_bf16_pair(const uint16_t *p, Vec &even, Vec &odd) {
    const uint32x4_t both = vreinterpretq_u32_u16(vld1q_u16(p));
    even = vreinterpretq_f32_u32(vshlq_n_u32(both, 16));
    odd = vreinterpretq_f32_u32(vandq_u32(both, vdupq_n_u32(0xffff0000)));
  }
  static uint8x8_t load_bytes(const void *p) {  // four
    uint32_t bits;
    __builtin_memcpy(&bits, p, sizeof bits);
    return vreinterpret_u8_u32(vdup_n_u32(bits));
  }
  static Vec load_i8(const int8_t *p) {
    return vcvtq_f32_s32(vmovl_s16(vget_low_s16(vmovl_s8(vreinterpret_s8_u8(load_bytes(p))))));
  }
  /// As halves, whose exponents are 8 more; NaN is the only code of all ones.
  static Vec load_e4m3(const uint8_t *p) {
    const int16x4_t words = vget_low_s16(vreinterpretq_s16_u16(vshll_n_u8(load_bytes(p), 8)));
    const uint16x4_t half = vand_u16(vreinterpret_u16_s16(vshr_n_s16(words, 1)), vdup_n_u16(0xbfff));
    const uint16x4_t nan = vceq_s16(vshl_n_s16(words, 1), vdup_n_s16(static_cast<int16_t>(0xfe00)));
    return vmulq_n_f32(vcvt_f32_f16(vreinterpret_f16_u16(vorr_u16(half, nan))), 0x1p8f);
  }
  static Vec load_e5m2(const uint8_t *p) {
    return vcvt_f32_f16(vreinterpret_f16_u16(vget_low_u16(vshll_n_u8(load_bytes(p), 8))));
  }
  /// 2 * width half bytes taken apart: the low ones, the high ones.
  static void load_i4_pair(const uint8_t *p, Vec &low, Vec &high) {
    const int32x4_t bytes = vmovl_s16(vget_low_s16(vmovl_s8(vreinterpret_s8_u8(load_bytes(p)))));
    low = vcvtq_f32_s32(vshrq_n_s32(vshlq_n_s32(bytes, 28), 28));
    high = vcvtq_f32_s32(vshrq_n_s32(bytes, 4));
  }
  static void load_u4_pair(const uint8_t *p, Vec &low, Vec &high) {
    const uint32x4_t bytes = vmovl_u16(vget_low_u16(vmovl_u8(load_bytes(p))));
    low = vcvtq_f32_u32(vandq_u32(bytes, vdupq_n_u32(15)));
    high = vcvtq_f32_u32(vshrq_n_u32(bytes, 4));
  }
  /// The binary16 at p in all lanes.
  static Vec set1_f16(const void *p) {
    uint16_t bits;
    __builtin_memcpy(&bits, p, sizeof bits);
    return vcvt_f32_f16(vreinterpret_f16_u16(vdup_n_u16(bits)));
  }
  static Vec finite_or_nan(Vec a) { return add(a, sub(a, a)); }
  static Vec load_bool(const uint8_t *p) {
    const uint32x4_t wide = {p[0], p[1], p[2], p[3]};
    return vcvtq_f32_u32(wide);
  }
  static void store_f16(uint16_t *p, Vec a) { vst1_u16(p, vreinterpret_u16_f16(vcvt_f16_f32(a))); }
  static void store_bf16(uint16_t *p, Vec a) {
    const uint32x4_t bits = vreinterpretq_u32_f32(a);
    const uint32x4_t odd = vandq_u32(vshrq_n_u32(bits, 16), vdupq_n_u32(1));
    const uint32x4_t rounded = vaddq_u32(bits, vaddq_u32(odd, vdupq_n_u32(0x7fff)));
    const uint32x4_t quiet = vorrq_u32(bits, vdupq_n_u32(0x400000));
    vst1_u16(p, vshrn_n_u32(vbslq_u32(vceqq_f32(a, a), rounded, quiet), 16));
  }
  /// The low byte of each lane.
  static void store_bytes(uint8_t *p, Vec a) {
    const uint16x4_t words = vmovn_u32(vreinterpretq_u32_f32(a));
    const uint32_t bytes = vget_lane_u32(vreinterpret_u32_u8(vmovn_u16(vcombine_u16(words, words))), 0);
    __builtin_memcpy(p, &bytes, sizeof bytes);
  }

  /// The nearest integers, to even, as the bits of lanes: of numbers below 2^22.
  static Vec nearest(Vec a) { return vreinterpretq_f32_s32(vcvtnq_s32_f32(a)); }
  /// The integers of four vectors as bytes, in order and saturated: 4 * width in a vector.
  static Vec pack_bytes(Vec a, Vec b, Vec c, Vec d) {
    const auto words = [](Vec x) { return vqmovn_s32(vreinterpretq_s32_f32(x)); };
    const int8x8_t ab = vqmovn_s16(vcombine_s16(words(a), words(b)));
    const int8x8_t cd = vqmovn_s16(vcombine_s16(words(c), words(d)));
    return vreinterpretq_f32_s8(vcombine_s8(ab, cd));
  }
  /// The low byte of each of 2 * width words.
  static void store_bytes_of_words(uint8_t *p, Vec a) { vst1_u8(p, vmovn_u16(vreinterpretq_u16_f32(a))); }

  static void transpose(Vec a[4]) {
    const Vec t0 = vtrn1q_f32(a[0], a[1]), t1 = vtrn2q_f32(a[0], a[1]);
    const Vec t2 = vtrn1q_f32(a[2], a[3]), t3 = vtrn2q_f32(a[2], a[3]);
    a[0] = vcombine_f32(vget_low_f32(t0), vget_low_f32(t2));
    a[1] = vcombine_f32(vget_low_f32(t1), vget_low_f32(t3));
    a[2] = vcombine_f32(vget_high_f32(t0), vget_high_f32(t2));
    a[3] = vcombine_f32(vget_high_f32(t1), vget_high_f32(t3));
  }
  static Vec sums(const Vec a[4]) { return vpaddq_f32(vpaddq_f32(a[0], a[1]), vpaddq_f32(a[2], a[3])); }
};

}  // namespace
}  // namespace fa::cpu::FA_ISA
