#define FA_ISA amx_bf16
#include "cpu/isa/amx_bf16.h"

namespace fa::cpu::FA_ISA {
namespace {
using Simd = AmxBf16;
}
}  // namespace fa::cpu::FA_ISA

#include "cpu/kernel/kernels.h"
