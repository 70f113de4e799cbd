// The plain read of peak.h for programs in other languages: decode_peers.py times it next to calls of libraries.
#include "peak.h"

extern "C" {

/// Reads `bytes` on `threads` threads, an equal share each.
[[gnu::visibility("default")]] void fa_bench_read(const void *data, size_t bytes, int threads) {
  fa::bench::read_seconds({{data, bytes}}, threads);
}

/// Bytes of memory after which a buffer that is cycled through is no longer in any cache.
[[gnu::visibility("default")]] size_t fa_bench_cold_bytes() {
  return fa::bench::cold_bytes();
}
}
