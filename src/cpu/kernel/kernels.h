// The whole kernel of one ISA. An ISA's translation unit defines FA_ISA and a Simd, and includes this last.
// Everything is in an unnamed namespace inside fa::cpu::FA_ISA: nothing compiled for an ISA can be linked in
// another's place.
#pragma once

#include "cpu/kernel/decode.h"
#include "cpu/kernel/finish.h"
#include "cpu/kernel/prefill.h"
#include "cpu/tile.h"
#ifndef FA_NO_BACKWARD
#include "cpu/kernel/backward/scheme.h"
#endif

namespace fa::cpu::FA_ISA {

/// Best first: the first that serves is taken.
constexpr Scheme schemes[] = {decode_scheme, prefill_scheme};

#ifdef FA_NO_BACKWARD
constexpr const BackwardScheme *gradients = nullptr;
#else
constexpr const BackwardScheme *gradients = &backward_scheme;
#endif

extern const Kernels kernels;
const Kernels kernels = {schemes, sizeof schemes / sizeof *schemes, &merge, &finish, gradients};

}  // namespace fa::cpu::FA_ISA
