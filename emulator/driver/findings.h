// The findings of the checks in all launches of a process.
#pragma once

#include <cstdint>
#include <vector>

#include "exec/launch.h"

namespace fa::emu::driver {

struct Judged {
  std::vector<Finding> kept;
  std::vector<bool> is_new;  // of those kept: whether no launch before had it
  uint64_t suppressed = 0;   // by FA_EMU_SUPPRESS
};

/// A launch's findings, less those that are suppressed; they count for the process's summary.
Judged judge(const Launch &launch);
/// The same of findings of an operation that is no launch.
Judged judge(const std::vector<Finding> &findings);
/// On stderr: those in full that no launch before had.
void print(const Launch &launch, const Judged &findings);
void print(const Judged &findings);

/// At the process's end: a summary on stderr, and the exit status that FA_EMU_EXIT asks for.
void watch_exit();
/// In a process that has been forked: the parent's findings are not its own.
void forget_findings();

}  // namespace fa::emu::driver
