// Findings of the checks, grouped by cause: an unrolled loop makes one mistake dozens of times, in many warps and
// blocks.
#pragma once

#include <map>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "exec/fault.h"

namespace fa::emu {

struct Program;

/// How much a finding weighs, the least first.
enum class Severity : uint8_t {
  formal,   // the PTX ISA forbids it, and no hardware is known on which it goes wrong
  warning,  // right with the values of this run
  error,
};
std::string_view name_of(Severity severity);

enum class Violation : uint8_t {
  race,
  lane_race,  // inside a warp
  grid_race,  // between CTAs, on global memory
  pending_copy,
  uninitialised_memory,
  uninitialised_register,
  missing_proxy_fence,
  pending_accumulator,
  unwaited,
  missing_wgmma_fence,
  tensor_race,  // on tensor memory
  missing_tensor_fence,
  pending_tensor_operation,
  lost_phase,        // of an mbarrier
  remote_access,     // to shared memory of a block that may have ended
  tensor_not_freed,  // columns that nobody has given back
  register_pool,     // setmaxnreg in part of a warpgroup
  unused_memory,     // never written, and read for nothing
  equal_values,      // a race of stores that store the same
  unwaited_load,     // of tcgen05.ld's results, for which the hardware waits by itself
  unwaited_store,    // of tcgen05.st, before a tcgen05.ld of the same lanes
  cluster_request,   // clusterlaunchcontrol after one has failed
  constant_written,  // ld.global.nc of data that the kernel writes
  member_mask,       // of a .sync instruction, without the lane that executes it
  mbarrier_fence,    // a new mbarrier that the async proxy may not see
  mbarrier_reuse,    // memory of an mbarrier that is not invalidated
  serialised,        // a copy of a wgmma's result, for which ptxas waits
  stream_race,       // between operations of streams
  reader_fence,      // of generic reads that the async proxy overwrites
};

/// Its name in suppressions, JSON and summaries, and its severity.
struct ViolationClass {
  std::string_view name;
  Severity severity = Severity::error;
};
const ViolationClass &class_of(Violation what);

/// One cause: a class, where it is in the source, and where the other party is.
struct Finding {
  Violation what{};
  Fault first;        // of the first block that met it
  std::string other;  // Program::place of the other party; empty where nobody else is involved
  std::string other_source, other_ptx;
  uint64_t count = 0;
  uint32_t warps = 0;         // a bit each, of all blocks together
  std::set<uint64_t> blocks;  // by their number in the grid; not all where they are many
  std::set<uint32_t> lines;   // of the PTX

  static constexpr size_t max_blocks = 4096;
};

constexpr uint32_t no_pc = UINT32_MAX;

/// The findings of one launch. Thread-safe.
class Findings {
 public:
  /// other_pc: of the access that this one conflicts with, or no_pc. message() is called where it is the first.
  template <class F>
  void add(Violation what, const Warp &warp, uint32_t pc, uint32_t other_pc, int lane, F message) {
    std::lock_guard lock(mutex_);
    Group *group = count(what, warp, pc, other_pc);
    if (group) describe(*group, warp, pc, other_pc, lane, message());
  }
  void add(Violation what, const Warp &warp, const Instruction &instruction, int lane, std::string message);
  /// One that was found behind the launch, behind all others.
  void add(Finding finding);

  /// In the order of blocks, which does not depend on the schedule.
  std::vector<Finding> all() const;
  /// How many more there are.
  size_t left_out() const;

 private:
  /// Where an instruction is, as people see it: a line of the source between two barriers, or else the opcode in
  /// straight-line code.
  using Place = std::tuple<uint32_t, uint32_t, uint32_t, uint32_t>;
  struct Group {
    Finding finding;
    uint64_t cluster = 0, arrival = 0;  // of the first
  };

  Group *count(Violation what, const Warp &warp, uint32_t pc, uint32_t other_pc);
  void describe(Group &group, const Warp &warp, uint32_t pc, uint32_t other_pc, int lane, std::string message);
  Place place_of(const Program &program, uint32_t pc);

  mutable std::mutex mutex_;
  std::map<std::tuple<Violation, uint32_t, uint32_t>, size_t> known_;  // by program counters
  std::map<std::tuple<Violation, Place, Place>, size_t> grouped_;
  std::vector<Group> groups_;
  // By program counter: where its straight-line code begins, and how many barriers are before it in the text.
  std::vector<uint32_t> straight_, barriers_;
  uint64_t arrivals_ = 0;
};

}  // namespace fa::emu
