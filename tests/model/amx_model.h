// The AMX instructions that the kernels use, as plain C++, on tiles of 16 rows of 64 bytes: each follows Intel's
// manual.
#pragma once

#include "model/avx512_model.h"

// NOLINTBEGIN(misc-definitions-in-headers): as the model of AVX-512.
namespace {
namespace model {

struct Tile {
  std::array<std::array<uint32_t, 16>, 16> row;
};

/// A thread's registers.
inline Tile &tile(int number) {
  thread_local std::array<Tile, 8> tiles;
  return tiles[static_cast<size_t>(number)];
}

/// Rows that are `pitch` words apart.
[[gnu::noinline]] inline void tileloadd(int to, const float *from, int64_t pitch) {
  for (int r = 0; r < 16; r++) std::memcpy(tile(to).row[r].data(), from + r * pitch, 64);
}
[[gnu::noinline]] inline void tilestored(int from, float *to, int64_t pitch) {
  for (int r = 0; r < 16; r++) std::memcpy(to + r * pitch, tile(from).row[r].data(), 64);
}
inline void tilezero(int number) {
  tile(number) = {};
}

/// C += A B of pairs of bf16: the lower numbers of pairs and the upper ones have separate sums.
[[gnu::noinline]] inline void tdpbf16ps(int c, int a, int b) {
  for (int m = 0; m < 16; m++) {
    for (int n = 0; n < 16; n++) {
      float lower = 0, upper = 0;
      for (int k = 0; k < 16; k++) {
        const uint32_t x = tile(a).row[m][k], y = tile(b).row[k][n];
        lower = flushed_fma(from_bf16(x & 0xffff), from_bf16(y & 0xffff), lower);
        upper = flushed_fma(from_bf16(x >> 16), from_bf16(y >> 16), upper);
      }
      uint32_t &sum = tile(c).row[m][n];
      sum = bits(flush(flush(from_bits(sum)) + flush(lower + upper)));
    }
  }
}

}  // namespace model
}  // namespace
// NOLINTEND(misc-definitions-in-headers)
