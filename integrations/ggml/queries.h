// Queries of prompts, rounded to f16 as ggml rounds them, where libfa computes f16 several times as fast as f32.
#pragma once
#include <cstdint>

namespace fa_ggml {

// Writes n numbers as f16. False where one is not finite as f16, or where this processor has no instructions for it.
bool to_f16(const float *from, int64_t n, uint16_t *to);

}  // namespace fa_ggml
