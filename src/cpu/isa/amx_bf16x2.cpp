#define FA_ISA amx_bf16x2
#include "cpu/isa/amx_bf16x2.h"

#include "cpu/kernel/decode_tiles.h"

namespace fa::cpu::FA_ISA {
extern const Microkernel prefills[2];
const Microkernel prefills[2] = {decode_tiles_microkernel<Simd>, prefill_microkernel};
}  // namespace fa::cpu::FA_ISA
