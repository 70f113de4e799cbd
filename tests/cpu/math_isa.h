// The elementary functions of each ISA's kernels (cpu/kernel/vector_math.h), over arrays.
#pragma once

#include <cstdint>

namespace test {

struct Math {
  const char *isa;
  int64_t width;  // of a vector: arrays are whole numbers of them
  void (*exp2)(const float *x, float *y, int64_t n);
  void (*exp2_for_bf16)(const float *x, float *y, int64_t n);
  void (*tanh)(const float *x, float *y, int64_t n);
  void (*log)(const float *x, float *y, int64_t n);
  void (*quotient)(const float *x, float scale, float *y, int64_t n);  // of cpu/kernel/code_vectors.h
};

#define TEST_MATH_OF(isa) extern const Math math_##isa
TEST_MATH_OF(generic);
TEST_MATH_OF(avx2);
TEST_MATH_OF(avx512);
TEST_MATH_OF(avx512_model);
TEST_MATH_OF(neon);
#undef TEST_MATH_OF

}  // namespace test
