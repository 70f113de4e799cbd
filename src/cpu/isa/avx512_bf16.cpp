#define FA_ISA avx512_bf16
#include "cpu/isa/avx512_bf16.h"

namespace fa::cpu::FA_ISA {
namespace {
using Simd = Avx512Bf16;
}
}  // namespace fa::cpu::FA_ISA

#include "cpu/kernel/kernels.h"
