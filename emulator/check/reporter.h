// Violations of one launch: each place is told once, however many blocks and lanes are concerned.
#pragma once

#include <mutex>
#include <set>
#include <string>
#include <tuple>

#include "exec/launch.h"

namespace fa::emu::check {

enum class Violation : uint8_t {
  race,
  lane_race,  // inside a warp
  grid_race,  // between CTAs, on global memory
  pending_copy,
  uninitialised_memory,
  uninitialised_register,
  missing_proxy_fence,
  pending_accumulator,
  unwaited_load,   // results of tcgen05.ld, for which the hardware waits by itself
  unwaited_store,  // of tcgen05.st, before a tcgen05.ld of the same lanes
  unwaited,
  missing_wgmma_fence,
  tensor_race,  // on tensor memory
  missing_tensor_fence,
  pending_tensor_operation,
  lost_phase,     // of an mbarrier
  remote_access,  // to shared memory of a block that may have ended
};

class Reporter {
 public:
  explicit Reporter(Launch &launch) : launch_(launch) {}
  Launch &launch() { return launch_; }

  /// other_pc: of the access that this one conflicts with, if there is one. message() is only called for new ones.
  template <class F>
  void report(Violation kind, const Warp &warp, uint32_t pc, uint32_t other_pc, int lane, F message) {
    {
      std::lock_guard lock(mutex_);
      if (!told_.emplace(kind, pc, other_pc).second) return;
    }
    launch_.report(make_fault(warp, launch_.program->code[pc], FaultKind::check, lane, message()));
  }

  /// "line 17 (st.shared.b32)" for messages.
  std::string line(uint32_t pc) const { return launch_.program->place(pc); }

 private:
  Launch &launch_;
  std::mutex mutex_;
  std::set<std::tuple<Violation, uint32_t, uint32_t>> told_;
};

}  // namespace fa::emu::check
