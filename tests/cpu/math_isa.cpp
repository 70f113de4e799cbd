// Compiled once for each ISA: FA_ISA is its name, TEST_ISA the file in src/cpu/isa, TEST_SIMD the structure there where
// it is not called Simd, TEST_MATH the name of the result.
#include "cpu/math_isa.h"

#include TEST_ISA

#ifdef TEST_SIMD
namespace fa::cpu::FA_ISA {
namespace {
using Simd = TEST_SIMD;
}
}  // namespace fa::cpu::FA_ISA
#endif
#include "cpu/kernel/code_vectors.h"
#include "cpu/kernel/vector_math.h"

namespace test {
namespace {

using fa::cpu::FA_ISA::Simd;
using fa::cpu::FA_ISA::Vec;

template <Vec (*function)(Vec)>
void each(const float *x, float *y, int64_t n) {
  for (int64_t i = 0; i < n; i += Simd::width) Simd::store(y + i, function(Simd::load(x + i)));
}

void quotients(const float *x, float scale, float *y, int64_t n) {
  using namespace fa::cpu::FA_ISA;
  const Quotient quotient(scale);
  for (int64_t i = 0; i < n; i += Simd::width) Simd::store(y + i, as_vec(quotient(load_floats(x + i))));
}

}  // namespace

#define TEST_STRING_OF(x) #x
#define TEST_STRING(x) TEST_STRING_OF(x)

extern const Math TEST_MATH;
const Math TEST_MATH = {TEST_STRING(TEST_MATH),
                        Simd::width,
                        each<fa::cpu::FA_ISA::exp2>,
                        each<fa::cpu::FA_ISA::exp2_for_bf16>,
                        each<fa::cpu::FA_ISA::tanh>,
                        each<fa::cpu::FA_ISA::log>,
                        quotients};

}  // namespace test
