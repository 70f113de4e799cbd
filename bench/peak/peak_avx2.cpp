// Peak loops for AVX2 and FMA.
#include "peak_vectors.h"

namespace fa::bench {

double fma_avx2(int64_t rounds) {
  return multiply_add<12, 32>(rounds);
}

uint64_t read_avx2(const void *data, size_t bytes) {
  return read_in_order<8, 32>(data, bytes);
}

}  // namespace fa::bench
