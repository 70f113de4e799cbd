// Peak loops for AVX-512.
#include "peak_vectors.h"

namespace fa::bench {

double fma_avx512(int64_t rounds) {
  return multiply_add<16, 64>(rounds);
}

uint64_t read_avx512(const void *data, size_t bytes) {
  return read_in_order<8, 64>(data, bytes);
}

}  // namespace fa::bench
