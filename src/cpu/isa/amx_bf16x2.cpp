#define FA_ISA amx_bf16x2
#include "cpu/isa/amx_bf16x2.h"

#include "cpu/kernel/prefill.h"

namespace fa::cpu::FA_ISA {
extern const Microkernel prefill;
const Microkernel prefill = prefill_microkernel;
}  // namespace fa::cpu::FA_ISA
