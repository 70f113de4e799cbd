// AVX-512 with BF16: an instruction multiplies 32 pairs of bf16 and adds them up in 16 f32 lanes.
#pragma once

#include "cpu/isa/avx512.h"

namespace fa::cpu::FA_ISA {
namespace {

struct Avx512Bf16 : Avx512 {
  static constexpr int pack = 2;  // operands of the products are pairs of bf16

  static Vec multiply_add(Vec a, Vec b, Vec c) {
    return _mm512_dpbf16_ps(c, (__m512bh)_mm512_castps_si512(a), (__m512bh)_mm512_castps_si512(b));
  }

  /// Lane i: the pair (low[i], high[i]), rounded to bf16.
  static Vec pair(Vec low, Vec high) {
    const __m512i order = _mm512_set_epi32(0x001f000f, 0x001e000e, 0x001d000d, 0x001c000c, 0x001b000b, 0x001a000a,
                                           0x00190009, 0x00180008, 0x00170007, 0x00160006, 0x00150005, 0x00140004,
                                           0x00130003, 0x00120002, 0x00110001, 0x00100000);
    return _mm512_castsi512_ps(_mm512_permutexvar_epi16(order, (__m512i)_mm512_cvtne2ps_pbh(high, low)));
  }

  static Vec low_of_pair(Vec pairs) { return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_castps_si512(pairs), 16)); }
  static Vec high_of_pair(Vec pairs) {
    return _mm512_castsi512_ps(
        _mm512_and_si512(_mm512_castps_si512(pairs), _mm512_set1_epi32(static_cast<int>(0xffff0000))));
  }

  /// 32 numbers as bf16.
  static Vec rounded(Vec first, Vec second) { return _mm512_castsi512_ps((__m512i)_mm512_cvtne2ps_pbh(second, first)); }

  /// Lane i: the pair (low[i], high[i]) of the first 16 bf16 of each, or of the last.
  static Vec pair_lower(Vec low, Vec high) {
    const __m512i order = _mm512_set_epi32(0x002f000f, 0x002e000e, 0x002d000d, 0x002c000c, 0x002b000b, 0x002a000a,
                                           0x00290009, 0x00280008, 0x00270007, 0x00260006, 0x00250005, 0x00240004,
                                           0x00230003, 0x00220002, 0x00210001, 0x00200000);
    return _mm512_castsi512_ps(_mm512_permutex2var_epi16(_mm512_castps_si512(low), order, _mm512_castps_si512(high)));
  }
  static Vec pair_upper(Vec low, Vec high) {
    const __m512i order = _mm512_set_epi32(0x003f001f, 0x003e001e, 0x003d001d, 0x003c001c, 0x003b001b, 0x003a001a,
                                           0x00390019, 0x00380018, 0x00370017, 0x00360016, 0x00350015, 0x00340014,
                                           0x00330013, 0x00320012, 0x00310011, 0x00300010);
    return _mm512_castsi512_ps(_mm512_permutex2var_epi16(_mm512_castps_si512(low), order, _mm512_castps_si512(high)));
  }

  /// Stores 16 numbers as bf16, and 16 more behind them where asked.
  static void store_bf16_rows(float *p, Vec first, Vec second, bool both) {
    if (both) return store(p, rounded(first, second));
    store_bf16(reinterpret_cast<uint16_t *>(p), first);
  }

  /// Lane i: the pair (low[i], high[i]) of 16 bf16 each.
  static Vec interleave(const uint16_t *low, const uint16_t *high) {
    const __m512i l = _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i *>(low)));
    const __m512i h = _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i *>(high)));
    return _mm512_castsi512_ps(_mm512_or_si512(l, _mm512_slli_epi32(h, 16)));
  }
};

}  // namespace
}  // namespace fa::cpu::FA_ISA
