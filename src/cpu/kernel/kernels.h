// The whole kernel of one ISA. An ISA's translation unit defines FA_ISA and a Simd, and includes this last.
// Everything stands in an unnamed namespace inside fa::cpu::FA_ISA: nothing compiled for an ISA can be linked in another's place.
#pragma once

#include "cpu/tile.h"

#if defined(__clang__)
#define FA_UNROLL _Pragma("clang loop unroll(full)")
#define FA_UNROLL_2 _Pragma("clang loop unroll_count(2)")
#else
#define FA_UNROLL _Pragma("GCC unroll 16")
#define FA_UNROLL_2 _Pragma("GCC unroll 2")
#endif

#include "cpu/kernel/vector_math.h"
// clang-format off: each builds on those before it.
#include "cpu/kernel/element.h"
#include "cpu/kernel/convert.h"
#include "cpu/kernel/products.h"
#include "cpu/kernel/keys.h"
#include "cpu/kernel/scores.h"
#include "cpu/kernel/prefill.h"
#include "cpu/kernel/decode.h"
#include "cpu/kernel/finish.h"
// clang-format on

namespace fa::cpu::FA_ISA {

extern const Kernels kernels;
const Kernels kernels = {
    Simd::subtiles * lanes, Simd::decode_rows, width, &prefill_scratch_bytes, &decode_scratch_bytes, &prefill, &decode,
    &merge,                 &finish,
};

}  // namespace fa::cpu::FA_ISA
