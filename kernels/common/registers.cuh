// How many registers the threads of a warpgroup have: warpgroups of a block with different roles share them unevenly.
#pragma once

namespace fa::kernels {

/// Raises the register count of a thread to this number, from those that other warpgroups have given back.
template <int Registers>
__device__ inline void setmaxnreg_inc() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(Registers));
}

/// Lowers the register count of a thread to this number.
template <int Registers>
__device__ inline void setmaxnreg_dec() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(Registers));
}

}  // namespace fa::kernels
