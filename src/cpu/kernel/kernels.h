// The whole kernel of one ISA. An ISA's translation unit defines FA_ISA and a Simd, and includes this last.
// Everything is in an unnamed namespace inside fa::cpu::FA_ISA: no code compiled for one ISA can be linked in
// place of another's.
#pragma once

#include "cpu/kernel/append.h"
#include "cpu/kernel/decode.h"
#include "cpu/kernel/decode_tiles.h"
#include "cpu/kernel/finish.h"
#include "cpu/kernel/merge_parts.h"
#include "cpu/kernel/prefill.h"
#include "cpu/kernel/quantise.h"
#include "cpu/tile.h"
#ifndef FA_NO_BACKWARD
#include "cpu/kernel/backward/microkernel.h"
#endif

namespace fa::cpu::FA_ISA {

/// Best first: the engine takes the first that supports a call.
template <class S>
struct Microkernels {
  static constexpr Microkernel list[] = {decode_microkernel, prefill_microkernel};
};
template <HasTiles S>
struct Microkernels<S> {
  static constexpr Microkernel list[] = {decode_microkernel, decode_tiles_microkernel<S>, prefill_microkernel};
};
constexpr const Microkernel (&microkernels)[sizeof Microkernels<Simd>::list / sizeof(Microkernel)] =
    Microkernels<Simd>::list;

#ifdef FA_NO_BACKWARD
constexpr const BackwardMicrokernel *gradients = nullptr;
#else
constexpr const BackwardMicrokernel *gradients = &backward_microkernel;
#endif

extern const IsaKernels kernels;
const IsaKernels kernels = {microkernels,
                            sizeof microkernels / sizeof *microkernels,
                            &merge,
                            &finalize,
                            gradients,
                            &merge_parts,
                            &convert_rows,
                            &rotate_rows,
                            &rotate_whole_rows,
                            &quantise_rows};

}  // namespace fa::cpu::FA_ISA
