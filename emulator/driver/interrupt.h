// SIGINT while kernels run: says where each warp is before it has the effect that it has without the emulator.
#pragma once

#include "exec/launch.h"

namespace fa::emu::driver {

/// Takes the signal over, unless the program ignores it. A handler of the program's is called as before.
void watch_interrupts();

/// A launch that can be asked where it is, while this exists.
class Interruptible {
 public:
  explicit Interruptible(Launch &launch);
  ~Interruptible();
  Interruptible(const Interruptible &) = delete;
  Interruptible &operator=(const Interruptible &) = delete;
};

/// "kernel k: 3 of 8 blocks done, 5 running, 1234 warp instructions, 2.5 s".
std::string progress_of(const Launch &launch);

}  // namespace fa::emu::driver
