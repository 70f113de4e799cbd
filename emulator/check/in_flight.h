// A warp's asynchronous operations that commit groups keep track of: cp.async.
#pragma once

#include <array>
#include <deque>
#include <vector>

#include "exec/observer.h"

namespace fa::emu::check {

struct Operation {
  AccessKind ends = AccessKind::async_land;  // its end: async_land or async_end_read
  uint32_t bytes = 0;
  uint32_t mask = 0;
  uint32_t pc = 0;
  std::array<uint64_t, 32> address{};  // in shared memory
};

class InFlight {
 public:
  void begin() { open_.clear(), groups_.clear(); }
  void issue(const Operation &operation) { open_.push_back(operation); }
  void commit() { groups_.push_back(std::move(open_)), open_.clear(); }
  /// Hands over the operations that are complete when this many groups may stay in flight; -1: none may, committed or
  /// not.
  template <class F>
  void wait(int32_t groups, F &&completed) {
    if (groups < 0) commit();
    while (static_cast<int64_t>(groups_.size()) > std::max(groups, 0)) {
      for (const Operation &operation : groups_.front()) completed(operation);
      groups_.pop_front();
    }
  }

 private:
  std::vector<Operation> open_;
  std::deque<std::vector<Operation>> groups_;
};

}  // namespace fa::emu::check
