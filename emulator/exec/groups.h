// Groups of lanes and frames of calls: splitting, merging, choosing which runs.
#pragma once

#include "exec/warp.h"

namespace fa::emu {

constexpr uint32_t no_group = UINT32_MAX;

/// Merges groups that have met and chooses the group to run: deepest call first, then lowest program counter. no_group
/// where none is ready.
uint32_t select_group(Warp &warp);

/// The program counter at which the group may meet another, or UINT32_MAX.
uint32_t meeting_point(const Warp &warp, const Group &group);

/// Appends a group of these lanes; the frame gains a holder.
void add_group(Warp &warp, uint32_t pc, uint32_t mask, Frame *frame);

/// Removes a group that has no lanes left, and frames that nothing holds any more.
void remove_group(Warp &warp, uint32_t number);

/// Moves lanes of the group into the function that the instruction calls, the rest to the next instruction.
void enter_call(Warp &warp, uint32_t group, const Instruction &instruction, uint32_t mask);

/// Moves lanes of the group back to their caller.
void return_from_call(Warp &warp, uint32_t group, uint32_t mask);

/// All groups are parked: lets those go on that bar.warp.sync joins from different places; false otherwise.
bool join_anywhere(Warp &warp);

}  // namespace fa::emu
