// A warp: rows of registers, and groups of lanes that share a program counter. Groups with the same program counter in
// the same frame are merged; the deepest and lowest runs first, so that lanes meet again where control flow does.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "exec/instruction.h"
#include "exec/program.h"
#include "exec/state.h"

namespace fa::emu {

struct Cta;

/// The request of a handler of Flow::pausing.
enum class Pause : uint8_t {
  no,
  yield,    // done; others should run before this group goes on (a wait that was in vain)
  blocked,  // done; goes on when Warp::wake is called
  retry,    // not done: runs again after others have run
};

/// Registers of one active function call.
struct Frame {
  uint8_t *registers = nullptr;
  Frame *caller = nullptr;
  const CallSite *site = nullptr;
  uint32_t function = 0;  // Program::functions
  uint32_t return_pc = 0;
  uint32_t local_base = 0;  // where its local memory begins, in each thread's
  uint32_t depth = 0;
  uint32_t holders = 0;           // groups in it and frames called from it
  std::vector<RowBlock> storage;  // empty for the entry's, whose registers are the CTA's
};

enum class GroupState : uint8_t { ready, yielded, blocked, parked };  // parked: waits for lanes to converge with

struct Group {
  uint32_t pc = 0;
  uint32_t mask = 0;
  Frame *frame = nullptr;
  GroupState state = GroupState::ready;
  uint32_t needed = 0;  // of a parked group: the lanes that it waits for, its own among them
};

struct Warp {
  const uint8_t *bank[3] = {};  // by Slot::Bank; the frame's is that of the group that runs
  Frame *frame = nullptr;       // of the group that runs
  const Slot *lists = nullptr;  // Program::lists
  Cta *cta = nullptr;
  uint32_t index = 0;  // in its CTA
  uint32_t live = 0;   // lanes that have not exited
  Pause pause = Pause::no;
  bool blocked = false;      // every group is: not to be run before wake
  uint8_t *local = nullptr;  // local memory: local_stride bytes a lane
  uint32_t local_stride = 0;

  uint32_t group_count = 0;
  Group groups[lanes];
  Frame entry;
  std::vector<std::unique_ptr<Frame>> frames;  // of calls: in use and spare
  States states;

  /// The row of an operand. Only rows of the frame bank may be written.
  template <class T>
  T *row(Slot slot) const {
    return reinterpret_cast<T *>(const_cast<uint8_t *>(bank[slot.bits & 3]) + slot.offset());
  }
  /// Further operands of an instruction: Instruction::list_count of them.
  const Slot *list(const Instruction &instruction) const { return lists + instruction.list; }
  template <class T>
  T &state() {
    return states.get<T>();
  }

  /// Lets lanes that are blocked go on; groups outside of the mask stay.
  void wake(uint32_t mask);
  bool finished() const { return group_count == 0; }
};

/// Why run_warp came back.
enum class Stop : uint8_t { finished, budget, waiting, blocked };

/// Runs until the warp ends, waits, or has used up its budget of instructions, which becomes the rest. Throws Fault.
Stop run_warp(Warp &warp, uint32_t &budget);

}  // namespace fa::emu
