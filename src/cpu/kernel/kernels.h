// The whole kernel of one ISA. An ISA's translation unit defines FA_ISA and a Simd, and includes this last.
// Everything stands in an unnamed namespace inside fa::cpu::FA_ISA: nothing compiled for an ISA can be linked in
// another's place.
#pragma once

#include "cpu/kernel/backward/scheme.h"
#include "cpu/kernel/decode.h"
#include "cpu/kernel/finish.h"
#include "cpu/kernel/prefill.h"
#include "cpu/tile.h"

namespace fa::cpu::FA_ISA {

/// Best first: the first that serves is taken.
constexpr Scheme schemes[] = {decode_scheme, prefill_scheme};

extern const Kernels kernels;
const Kernels kernels = {schemes, sizeof schemes / sizeof *schemes, &merge, &finish, &backward_scheme};

}  // namespace fa::cpu::FA_ISA
