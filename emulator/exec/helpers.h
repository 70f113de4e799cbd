// Threads of run() besides the one that called it: the emulator's, not the program's.
#pragma once

#include <atomic>
#include <cstddef>

namespace fa::emu {

/// How many live, of all launches. Each counts itself, from its beginning until just before its end: never too many.
extern std::atomic<size_t> helper_threads;

}  // namespace fa::emu
