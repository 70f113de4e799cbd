// Registers of a warp: which lanes hold a value (propagation.h follows those that hold none), which are in use by a
// wgmma or tcgen05.ld that is in flight (accessing them before wgmma.wait_group or tcgen05.wait::ld is undefined), and
// which a wgmma uses without a wgmma.fence after earlier accesses (PTX ISA 9.7.15.7.1).
#pragma once

#include <deque>
#include <set>
#include <unordered_map>
#include <vector>

#include "check/propagation.h"
#include "check/properties.h"
#include "check/reporter.h"

namespace fa::emu::check {

/// The registers that an instruction reads and writes.
inline std::span<const RegisterUse> uses_of(const Program &program, uint32_t pc) {
  uint32_t first = program.first_use[pc];
  return {program.uses.data() + first, program.first_use[pc + 1] - first};
}

/// The checks of one warp's registers.
class Registers {
 public:
  /// For another block's warp; keeps memory, as the kernel's registers may be thousands.
  void begin();
  /// Whether these lanes have been through the instruction before, so that there is nothing to be seen.
  bool is_settled(const Warp &warp, uint32_t pc, uint32_t mask) const {
    if (pending_count_ > 0 || fences_ > 0 || warp.frame != last_frame_ || warp.frame->caller) return false;
    if (!missing_.empty() || !early_loads_.empty()) return false;
    return pc < last_->settled.size() && (mask & ~last_->settled[pc]) == 0;
  }
  void instruction(Reporter &reporter, const Warp &warp, uint32_t pc, const InstructionProperties &properties,
                   uint32_t mask);

  /// Elements of the vector that the last instruction stores which some lanes have not written, though others of it.
  struct Missing {
    uint32_t reg = 0, lanes = 0;
  };
  const std::vector<Missing> &missing() const { return missing_; }
  /// The tcgen05.ld, by program counter, whose results it uses although no tcgen05.wait::ld has waited for them.
  const std::vector<uint32_t> &early_loads() const { return early_loads_; }
  /// The last instruction, there, has loaded an uninitialised element of a vector that somebody has written into these
  /// lanes of the register.
  void forget(uint32_t reg, uint32_t mask, uint32_t pc);
  /// The same where nobody has written any part of the loaded memory.
  void forget_all(uint32_t reg, uint32_t mask, uint32_t pc, uint32_t address);
  /// These lanes do not run an instruction, as its guard says.
  void skip(Reporter &reporter, const Warp &warp, uint32_t pc, const InstructionProperties &properties, uint32_t mask);
  /// When the warp's block ends.
  void end(Reporter &reporter, const Warp &warp);

 private:
  /// The last write and read of a register, by the number of wgmma.fences before, plus 1; 0: none.
  struct Touch {
    uint32_t block = 0;  // of another one: none of the below
    uint32_t written = 0, read = 0;
    uint32_t pc = 0;             // of the later one
    uint32_t multiplied = 0;     // by a wgmma, the last time
    uint32_t copied_pc = no_pc;  // of a copy to it since
  };
  /// Where an uninitialised value comes from: a load, or the first use of a register.
  struct Origin {
    uint32_t pc = no_pc, reg = ptx::none;
    uint32_t load_pc = no_pc;  // of a register: its load
    uint32_t address = 0;      // of a load
    bool absent = false;       // shfl took the register of a lane that does not take part
    bool operator==(const Origin &) const = default;
  };
  struct Result {
    uint32_t reg = 0, uninitialised = 0;  // lanes
    Origin origin;
  };
  /// An element of a packed register that some lanes do not have, while they have others.
  struct Part {
    uint32_t lanes = 0;
    Origin origin;
  };
  /// A frame's registers: lanes that hold a value, by register.
  struct FrameRegisters {
    std::vector<uint32_t> written;
    /// Lanes, by instruction of the function, that have all that it reads and have been through it.
    std::vector<uint32_t> settled;
    std::unordered_map<uint32_t, Origin> origins;  // of lanes that hold none, by register
    std::unordered_map<uint32_t, std::vector<Part>> parts;
    std::vector<Touch> touched;  // by others than wgmma; kept once a warp has met a wgmma.fence
  };
  struct Pending {
    uint32_t pc = 0;
    bool result = false;  // an accumulator or a load's destination; else a source
    bool loaded = false;  // by tcgen05.ld
    uint32_t users = 0;   // 0: none is in flight
    bool copy = false;    // of an accumulator: no wgmma uses it itself
  };

  FrameRegisters &registers_of(const Warp &warp, uint32_t pc);
  Touch &touch_of(uint32_t reg);
  Pending &pending(uint32_t reg);
  void settle(uint32_t index, uint32_t mask);
  void issue(const Program &program, uint32_t pc);
  void wait(size_t groups);
  void load(const Program &program, uint32_t pc);
  void loaded();
  void touch(const Program &program, uint32_t pc, const InstructionProperties &properties);
  void lose(uint32_t reg, uint32_t lanes_of_it);
  Origin origin_of(uint32_t reg, uint32_t pc) const;
  bool has_parts(std::span<const RegisterUse> uses) const;
  void follow_parts(const PropagationStep &step, std::vector<Result> &results);
  void count(Reporter &reporter, const Warp &warp, uint32_t pc, uint32_t reg, uint32_t lanes_of_it);
  void follow(Reporter &reporter, const Warp &warp, uint32_t pc, const InstructionProperties &properties,
              uint32_t mask);
  uint32_t lanes_with_some(const Program &program, uint32_t pc, const std::vector<uint32_t> &written) const;
  void check_fence(Reporter &reporter, const Warp &warp, uint32_t pc);
  void check_pending(Reporter &reporter, const Warp &warp, uint32_t pc, const InstructionProperties &properties);
  void copy_pending(Reporter &reporter, const Warp &warp, uint32_t pc);
  void overwrite_copy(uint32_t reg);
  std::vector<uint32_t> &group_of(uint32_t reg);
  void use_early(Reporter &reporter, const Warp &warp, uint32_t pc, uint32_t reg);

  uint32_t block_ = 0;   // counts the calls of begin
  FrameRegisters kept_;  // memory of the block before, for the kernel's frame
  std::unordered_map<const Frame *, FrameRegisters> frames_;
  const Frame *last_frame_ = nullptr;
  FrameRegisters *last_ = nullptr;
  // wgmma in flight, by register of the function that issued it.
  std::vector<Pending> pending_;
  uint32_t pending_count_ = 0;                // that have users
  std::vector<uint32_t> open_;                // registers of operations that are not committed
  std::deque<std::vector<uint32_t>> groups_;  // of those that are, oldest first
  std::vector<uint32_t> loads_;               // registers of tcgen05.ld that nothing has waited for
  std::vector<Missing> missing_;
  std::vector<uint32_t> early_loads_;
  std::unordered_map<uint32_t, Origin> unused_;  // loads of nothing, by program counter, that nothing has used so far
  std::set<uint32_t> used_;                      // the others
  uint32_t fences_ = 0;                          // wgmma.fence so far
};

}  // namespace fa::emu::check
