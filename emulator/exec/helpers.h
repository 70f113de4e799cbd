// Threads of run() beside the one that called it: of the emulator, not of the program.
#pragma once

#include <atomic>
#include <cstddef>

namespace fa::emu {

/// How many live, of all launches. Each counts itself, from its beginning until just before its end: never too many.
extern std::atomic<size_t> helper_threads;

}  // namespace fa::emu
