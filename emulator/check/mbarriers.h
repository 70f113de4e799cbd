// Phases of mbarriers: one that ends before all who wait for the phase before have seen that leaves them waiting for
// ever, as a phase's parity is all that a wait shows (PTX ISA 9.7.13.15.16).
#pragma once

#include <unordered_map>
#include <vector>

#include "check/clocks.h"
#include "check/reporter.h"

namespace fa::emu::check {

class Mbarriers {
 public:
  Mbarriers(Reporter &reporter, Clocks &clocks) : reporter_(reporter), clocks_(clocks) {}
  void begin() { passed_.clear(), made_.clear(); }
  /// A warp makes an mbarrier, or ends it.
  void makes(uint32_t agent, uint32_t pc, uint64_t key) { made_[key] = {agent, clocks_.now(agent), pc}; }
  void ends(uint64_t key) { made_.erase(key); }
  /// fence.mbarrier_init: of those that the warp has made. fence.proxy.async: of all that it knows.
  void fence(uint32_t agent);
  void fence_of_proxy(uint32_t agent);
  /// The async proxy is to signal an mbarrier.
  void used_by_proxy(const Warp &warp, uint32_t pc, uint64_t key);
  /// A warp has seen that a phase is over.
  void passed(const Warp &warp, uint32_t agent, uint32_t pc, uint64_t key);
  void ends_phase(const Warp &warp, uint32_t pc, uint64_t key);
  void resets(uint64_t key) { passed_.erase(key); }

 private:
  struct Passed {
    uint32_t agent, clock, pc, warp, rank;
  };

  struct Made {
    uint32_t agent = 0, clock = 0, pc = 0;
    bool fenced = false;
  };

  Reporter &reporter_;
  Clocks &clocks_;
  std::unordered_map<uint64_t, std::vector<Passed>> passed_;  // in the phase that goes on
  std::unordered_map<uint64_t, Made> made_;
};

}  // namespace fa::emu::check
