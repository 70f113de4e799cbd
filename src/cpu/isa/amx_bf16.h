// AMX with BF16 (Intel, from Sapphire Rapids on): an instruction multiplies 16 x 32 bf16 by 32 x 16 and adds the
// products to 16 x 16 f32 numbers. Everything else is AVX-512's.
#pragma once

#include "cpu/isa/avx512_bf16.h"

#if defined(FA_MODEL_AVX512)
#include "model/amx_model.h"
#endif

namespace fa::cpu::FA_ISA {
namespace {

/// The eight tile registers of a thread: 16 rows of 64 bytes each between begin() and end().
struct AmxTiles {
  static constexpr int size = 16;  // rows of a tile, and operands of a row

#if defined(FA_MODEL_AVX512)
  static void begin() {}
  static void end() {}
  template <int tile>
  static void load(const float *from, int64_t pitch) {
    model::tileloadd(tile, from, pitch);
  }
  template <int tile>
  static void store(float *to, int64_t pitch) {
    model::tilestored(tile, to, pitch);
  }
  template <int tile>
  static void zero() {
    model::tilezero(tile);
  }
  template <int c, int a, int b>
  static void multiply_add() {
    model::tdpbf16ps(c, a, b);
  }
#else
  static void begin() {
    struct alignas(64) Configuration {
      uint8_t palette = 1, start_row = 0, reserved[14] = {};
      uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
      uint8_t rows[16] = {size, size, size, size, size, size, size, size};
    };
    static constexpr Configuration all_whole;
    asm volatile("ldtilecfg %0" ::"m"(all_whole));
  }
  static void end() { asm volatile("tilerelease"); }

  // Not by the compilers' intrinsics: GCC's do not say that they access memory.

  /// Rows that are `pitch` operands apart.
  template <int tile>
  static void load(const float *from, int64_t pitch) {
    asm volatile("tileloadd (%1,%2,1), %%tmm%c0" ::"i"(tile), "r"(from), "r"(pitch * 4) : "memory");
  }
  template <int tile>
  static void store(float *to, int64_t pitch) {
    asm volatile("tilestored %%tmm%c0, (%1,%2,1)" ::"i"(tile), "r"(to), "r"(pitch * 4) : "memory");
  }
  template <int tile>
  static void zero() {
    asm volatile("tilezero %%tmm%c0" ::"i"(tile));
  }
  /// C += A B: C of f32, rows of A and columns of B in pairs of bf16.
  template <int c, int a, int b>
  static void multiply_add() {
    asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(c), "i"(a), "i"(b));
  }
#endif
};

struct AmxBf16 : Avx512Bf16 {
  using Tiles = AmxTiles;
  static constexpr int subtiles = 4, max_subtiles = 16;  // values are transposed once for all
  static constexpr int decode_rows = 8;                  // more are read faster by decode_tiles.h
};

}  // namespace
}  // namespace fa::cpu::FA_ISA
