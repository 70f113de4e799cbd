// The interpreter's loop: fetches decoded instructions for one group of lanes, runs handlers, follows control flow.
#include <algorithm>
#include <bit>

#include "exec/barrier.h"
#include "exec/converge.h"
#include "exec/cta.h"
#include "exec/fault.h"
#include "exec/groups.h"
#include "exec/launch.h"
#include "exec/spin.h"

namespace fa::emu {
namespace {

/// How often a group may jump back in a loop that may wait while others are ready: it may be waiting for them.
constexpr uint32_t max_jumps = 16;

template <bool observed>
class Loop {
 public:
  Loop(Warp &warp, uint32_t &budget)
      : warp_(warp),
        cluster_(*warp.cta->cluster),
        code_(warp.cta->launch->program->code.data()),
        counts_(cluster_.counts.data()),
        skipped_(cluster_.skipped.data()),
        budget_(budget) {}

  Stop run() {
    for (;;) {
      if (warp_.group_count == 0) return Stop::finished;
      number_ = select_group(warp_);
      if (number_ == no_group) {
        Stop stop = nothing_ready();
        if (stop != Stop::budget) return stop;
        continue;
      }
      if (group_runs_out()) return Stop::budget;
    }
  }

 private:
  /// No group is ready: says why; Stop::budget where some are now.
  Stop nothing_ready() {
    bool yielded = false, blocked = false;
    for (uint32_t g = 0; g < warp_.group_count; g++) {
      GroupState &state = warp_.groups[g].state;
      blocked |= state == GroupState::blocked;
      if (state != GroupState::yielded) continue;
      state = GroupState::ready;
      yielded = true;
    }
    if (yielded) return Stop::waiting;
    if (join_anywhere(warp_)) return Stop::budget;
    if (!blocked) cannot_meet(warp_);
    warp_.blocked = true;
    return Stop::blocked;
  }

  /// Runs the chosen group until another may have to be chosen; true if the budget is spent.
  bool group_runs_out() {
    Group &group = warp_.groups[number_];
    warp_.frame = group.frame;
    warp_.bank[Slot::frame] = group.frame->registers;
    active_ = group.mask;
    pc_ = group.pc;
    uint32_t meeting = warp_.group_count > 1 ? meeting_point(warp_, group) : UINT32_MAX;
    const bool together = active_ == warp_.live;
    while (pc_ != meeting) {
      if (budget_ == 0) {
        save();
        if (warp_.group_count > 1) warp_.groups[number_].state = GroupState::yielded;
        return true;
      }
      const Instruction &instruction = code_[pc_];
      uint32_t straight = together ? instruction.straight_together : instruction.straight;
      if (straight > 0) {
        run_straight(std::min({straight, budget_, meeting - pc_}));
        continue;
      }
      budget_--;
      uint32_t mask = active_ & (*warp_.row<uint32_t>(instruction.guard) ^ instruction.guard_flip());
      counts_[pc_].warps++;
      counts_[pc_].lanes += static_cast<uint32_t>(std::popcount(mask));
      if constexpr (observed)
        if (mask != active_ && instruction.guard.bank() == Slot::frame)
          cluster_.observer->skipped(warp_, instruction, active_ & ~mask);
      if constexpr (observed)
        if (mask && instruction.flow != Flow::pausing && instruction.flow != Flow::converging)
          cluster_.observer->instruction(warp_, instruction, mask);
      if (instruction.flow == Flow::plain) {
        if (mask)
          instruction.run(warp_, instruction, mask);
        else
          skipped_[pc_]++;
        pc_++;
      } else if (!special(instruction, mask)) {
        return false;
      }
    }
    save();
    return false;
  }

  /// Instructions of which all lanes of the group run the handlers, and nothing more.
  void run_straight(uint32_t count) {
    const Instruction *at = code_ + pc_, *const end = at + count;
    cluster_.count_straight(pc_, pc_ + count, active_);
    try {
      for (; at != end; at++) {
        if constexpr (observed) cluster_.observer->instruction(warp_, *at, active_);
        at->run(warp_, *at, active_);
      }
    } catch (...) {  // those behind it were not run
      cluster_.uncount_straight(static_cast<uint32_t>(at - code_) + 1, pc_ + count, active_);
      throw;
    }
    pc_ += count;
    budget_ -= count;
  }

  void save() { warp_.groups[number_].pc = pc_; }

  /// Everything but plain instructions; false: choose a group again (the program counter is saved).
  bool special(const Instruction &instruction, uint32_t mask) {
    switch (instruction.flow) {
      case Flow::plain:
      case Flow::converging:
      case Flow::pausing:
        return mask == 0 ? (pc_++, true) : synchronised(instruction, mask);
      case Flow::branch:
        return branch(instruction, mask);
      case Flow::branch_table:
        return mask == 0 ? (pc_++, true) : branch_table(instruction, mask);
      case Flow::call:
        if (mask == 0) return pc_++, true;
        save();
        enter_call(warp_, number_, instruction, mask);
        return false;
      case Flow::ret:
        if (mask == 0) return pc_++, true;
        if (warp_.frame->caller) {
          save();
          return return_from_call(warp_, number_, mask), false;
        }
        return exit(mask);
      case Flow::exit:
        return mask == 0 ? (pc_++, true) : exit(mask);
    }
    return false;
  }

  bool synchronised(const Instruction &instruction, uint32_t mask) {
    if (instruction.converge == Converge::no) return run_pausing(instruction, mask);
    if (instruction.converge == Converge::warp) {
      uint32_t missing = warp_.live & ~mask;
      if (missing) return park(instruction, warp_.live, mask);
      return run_pausing(instruction, mask);
    }
    for (uint32_t rest = mask; rest;) {
      uint32_t members = 0;
      uint32_t part = same_members(warp_, instruction, rest, members);
      if (members & warp_.live & ~part) return park(instruction, members, part);
      rest &= ~part;
    }
    for (uint32_t rest = mask; rest;) {
      uint32_t members = 0;
      uint32_t part = same_members(warp_, instruction, rest, members);
      if constexpr (observed) {
        if (part & ~members) outside_its_mask(warp_, instruction, part, members);
        cluster_.observer->instruction(warp_, instruction, part);
      }
      instruction.run(warp_, instruction, part);
      rest &= ~part;
    }
    pc_++;
    return true;
  }

  bool park(const Instruction &instruction, uint32_t needed, uint32_t mask) {
    if ((needed & warp_.live & ~active_) == 0) partly_guarded(warp_, instruction, needed & ~mask);
    counts_[pc_].warps--;
    counts_[pc_].lanes -= static_cast<uint32_t>(std::popcount(mask));
    Group &group = warp_.groups[number_];
    group.pc = pc_;
    group.state = GroupState::parked;
    group.needed = needed;
    return false;
  }

  bool run_pausing(const Instruction &instruction, uint32_t mask) {
    if constexpr (observed) cluster_.observer->instruction(warp_, instruction, mask);
    instruction.run(warp_, instruction, mask);
    Pause pause = warp_.pause;
    if (pause == Pause::no) return pc_++, true;
    warp_.pause = Pause::no;
    Group &group = warp_.groups[number_];
    if (pause == Pause::retry) {  // it is counted when it is done
      counts_[pc_].warps--;
      counts_[pc_].lanes -= static_cast<uint32_t>(std::popcount(mask));
    }
    group.pc = pause == Pause::retry ? pc_ : pc_ + 1;
    group.state = pause == Pause::blocked ? GroupState::blocked : GroupState::yielded;
    if (pause == Pause::yield) waited_in_vain();
    return false;
  }

  bool branch(const Instruction &instruction, uint32_t taken) {
    uint32_t rest = active_ & ~taken, number = number_;
    if (taken == 0) return pc_++, true;
    if (rest == 0) {
      pc_ = instruction.target;
    } else {
      warp_.groups[number].mask = rest;
      warp_.groups[number].pc = pc_ + 1;
      number = warp_.group_count;
      add_group(warp_, instruction.target, taken, warp_.frame);
    }
    if (instruction.detail == 2) cluster_.polls[static_cast<uint32_t>(&instruction - code_)]++;
    if (instruction.detail) turn_back(number);
    if (warp_.group_count == 1) return true;
    if (rest == 0) save();
    return false;
  }

  /// A group may be waiting: for others of the warp, which have a turn now, or for other warps.
  void turn_back(uint32_t number) {
    SpinWatch &watch = warp_.state<SpinWatch>();
    if (++watch.turns % max_jumps != 0) return;
    if (others_are_ready(number)) {
      warp_.groups[number].state = GroupState::yielded;
    } else if (watch.turns >= SpinWatch::turns_until_look) {
      watch.look();
      budget_ = 0;
    }
  }

  /// A short quantum often ends between two tries: it takes a look to see that nothing comes of them.
  void waited_in_vain() {
    SpinWatch &watch = warp_.state<SpinWatch>();
    if (++watch.waits >= SpinWatch::turns_until_look) watch.look();
  }

  bool others_are_ready(uint32_t number) const {
    for (uint32_t g = 0; g < warp_.group_count; g++)
      if (g != number && warp_.groups[g].state == GroupState::ready) return true;
    return false;
  }

  bool branch_table(const Instruction &instruction, uint32_t mask) {
    const auto &table = warp_.cta->launch->program->tables[instruction.target];
    const uint32_t *index = warp_.row<uint32_t>(instruction.a);
    int first = std::countr_zero(mask);
    if (index[first] >= table.size())
      fault(warp_, instruction, FaultKind::illegal_instruction, first, "brx.idx beyond its table");
    uint32_t same = 0;
    for (uint32_t lane = 0; lane < lanes; lane++) same |= uint32_t{index[lane] == index[first]} << lane;
    uint32_t taken = mask & same;
    uint32_t skips = active_ & ~mask, others = mask & ~taken;
    if (skips) add_group(warp_, pc_ + 1, skips, warp_.frame);
    if (others) add_group(warp_, pc_, others, warp_.frame);
    warp_.groups[number_].mask = taken;
    warp_.groups[number_].pc = table[index[first]];
    return false;
  }

  bool exit(uint32_t mask) {
    warp_.live &= ~mask;
    cluster_.events++;
    Group &group = warp_.groups[number_];
    group.mask &= ~mask;
    group.pc = pc_ + 1;
    if (group.mask == 0) remove_group(warp_, number_);
    threads_left(*warp_.cta);
    return false;
  }

  Warp &warp_;
  Cluster &cluster_;
  const Instruction *code_;
  ExecutionCount *counts_;
  uint64_t *skipped_;
  uint32_t &budget_;
  uint32_t number_ = 0, pc_ = 0, active_ = 0;
};

}  // namespace

Stop run_warp(Warp &warp, uint32_t &budget) {
  if (warp.cta->cluster->observer) return Loop<true>(warp, budget).run();
  return Loop<false>(warp, budget).run();
}

}  // namespace fa::emu
