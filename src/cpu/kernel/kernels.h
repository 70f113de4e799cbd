// The whole kernel of one ISA. An ISA's translation unit defines FA_ISA and a Simd, and includes this last.
// Everything stands in an unnamed namespace inside fa::cpu::FA_ISA: nothing compiled for an ISA can be linked in
// another's place.
#pragma once

#include "cpu/kernel/decode.h"
#include "cpu/kernel/finish.h"
#include "cpu/kernel/prefill.h"
#include "cpu/tile.h"

namespace fa::cpu::FA_ISA {

extern const Kernels kernels;
const Kernels kernels = {
    Simd::subtiles * lanes,
    Simd::decode_rows,
    width,
    &prefill_scratch_bytes,
    &decode_scratch_bytes,
    &prefill,
    &prefill_whole,
    &decode,
    &merge,
    &finish,
};

}  // namespace fa::cpu::FA_ISA
