// Peak loops for any architecture: 128-bit compiler vectors, contracted to FMA where the baseline has it (NEON).
#include "peak_vectors.h"

namespace fa::bench {

double fma_generic(int64_t rounds) {
  return multiply_add<12, 16>(rounds);
}

uint64_t read_generic(const void *data, size_t bytes) {
  return read_in_order<4, 16>(data, bytes);
}

uint64_t read_streams_generic(const void *data, size_t bytes) {
  typedef uint64_t Words __attribute__((vector_size(16)));
  constexpr int streams = 8;
  const Words *p = static_cast<const Words *>(data);
  const size_t lines = bytes / streams / 64;
  Words a[streams] = {};
  for (size_t i = 0; i < lines; ++i, p += 4) {
#pragma GCC unroll 8
    for (int j = 0; j < streams; ++j) {
      const Words *line = p + 4 * lines * j;
      a[j] ^= line[0] ^ line[1] ^ line[2] ^ line[3];
    }
  }
  for (int j = 1; j < streams; ++j) a[0] ^= a[j];
  return a[0][0] ^ a[0][1];
}

}  // namespace fa::bench
