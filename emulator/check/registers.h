// Registers of a warp: which lanes have been written, and which are in use by a wgmma that is in flight (PTX ISA,
// wgmma: accessing them before wgmma.wait_group is undefined).
#pragma once

#include <deque>
#include <unordered_map>
#include <vector>

#include "check/classes.h"
#include "check/reporter.h"

namespace fa::emu::check {

/// Of one warp.
class Registers {
 public:
  void begin() { *this = {}; }
  void instruction(Reporter &reporter, const Warp &warp, uint32_t pc, const Classified &what, uint32_t mask);

 private:
  /// A frame's registers: lanes that hold a value, by register.
  struct FrameRegisters {
    std::vector<uint32_t> written;
  };
  struct Pending {
    uint32_t pc = 0;
    bool result = false;  // an accumulator; else a source
    uint32_t users = 0;
  };

  std::vector<uint32_t> &written_of(const Warp &warp, uint32_t pc);
  void issue(const Program &program, uint32_t pc);
  void wait(size_t groups);
  void check_pending(Reporter &reporter, const Warp &warp, uint32_t pc, const Classified &what);

  std::unordered_map<const Frame *, FrameRegisters> frames_;
  const Frame *last_frame_ = nullptr;
  std::vector<uint32_t> *last_written_ = nullptr;
  // wgmma in flight, by register of the function that issued it.
  std::unordered_map<uint32_t, Pending> pending_;
  std::vector<uint32_t> open_;                // registers of operations that are not committed
  std::deque<std::vector<uint32_t>> groups_;  // of those that are, oldest first
};

}  // namespace fa::emu::check
