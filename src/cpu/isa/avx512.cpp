#define FA_ISA avx512
#include "cpu/isa/avx512.h"

namespace fa::cpu::FA_ISA {
namespace {
using Simd = Avx512;
}
}  // namespace fa::cpu::FA_ISA

#include "cpu/kernel/kernels.h"
