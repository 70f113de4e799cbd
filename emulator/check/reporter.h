// The receiver of the checks' findings.
#pragma once

#include <string>
#include <utility>

#include "exec/launch.h"

namespace fa::emu::check {

class Reporter {
 public:
  explicit Reporter(Launch &launch) : launch_(launch) {}
  Launch &launch() { return launch_; }

  /// other_pc: of the access that this one conflicts with, or no_pc. message() is only called for new causes.
  template <class F>
  void report(Violation kind, const Warp &warp, uint32_t pc, uint32_t other_pc, int lane, F message) {
    launch_.findings.add(kind, warp, pc, other_pc, lane, std::move(message));
  }

  /// "line 17 (st.shared.b32)" for messages.
  std::string line(uint32_t pc) const { return launch_.program->place(pc); }

 private:
  Launch &launch_;
};

}  // namespace fa::emu::check
