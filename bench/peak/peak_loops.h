// The measuring loops, one translation unit each, compiled with the flags of its instruction set.
// Their inline code is of internal linkage: no code of a newer instruction set reaches the rest of the program.
#pragma once

#include <cstddef>
#include <cstdint>

namespace fa::bench {

double fma_generic(int64_t rounds);
double fma_avx2(int64_t rounds);
double fma_avx512(int64_t rounds);
double dot_bf16_avx512(int64_t rounds);
double dot_bf16_amx(int64_t rounds);

/// Whether this process may run dot_bf16_amx.
bool permits_amx_bf16();

/// Reads `bytes`, down to a multiple of at most 512, and returns something that depends on all of them.
uint64_t read_generic(const void *data, size_t bytes);
/// read_generic, alternating between eight places.
uint64_t read_streams_generic(const void *data, size_t bytes);
uint64_t read_avx2(const void *data, size_t bytes);
uint64_t read_avx512(const void *data, size_t bytes);

}  // namespace fa::bench
