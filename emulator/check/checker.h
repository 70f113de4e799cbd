// The observers: the counters' and, behind --check, the one that hands events to each check.
#pragma once

#include <memory>

#include "check/counters.h"
#include "check/global_memory.h"
#include "check/in_flight.h"
#include "check/mbarriers.h"
#include "check/product_reads.h"
#include "check/properties.h"
#include "check/registers.h"
#include "check/shared_memory.h"
#include "check/tensor_memory.h"

namespace fa::emu::check {

/// The shared state of the checkers of a launch's clusters.
struct LaunchChecks {
  explicit LaunchChecks(Launch &launch) : reporter(launch), classes(classify(*launch.program)), global(reporter) {}
  Reporter reporter;
  std::vector<InstructionProperties> classes;
  GlobalShadow global;
};

/// Counts; derived observers watch as well.
class Counting : public Observer {
 public:
  explicit Counting(Launch &launch) : launch_(launch) {}
  void access(Warp &, const Instruction &, const Access &access) override {
    if (launch_.options.count) counters_.access(access);
  }
  void cta_ends(Cta &) override {
    if (launch_.options.count) counters_.flush(launch_);
  }

 private:
  Launch &launch_;
  Counters counters_;
};

class Checker : public Counting {
 public:
  explicit Checker(std::shared_ptr<LaunchChecks> checks);
  void cta_begins(Cta &cta) override;
  void cta_ends(Cta &cta) override;
  void instruction(Warp &warp, const Instruction &instruction, uint32_t mask) override;
  void skipped(Warp &warp, const Instruction &instruction, uint32_t mask) override;
  void access(Warp &warp, const Instruction &instruction, const Access &access) override;
  void release(Warp &warp, uint32_t mask, uint64_t key) override;
  void acquire(Warp &warp, uint32_t mask, uint64_t key) override;
  void lanes_meet(Warp &warp, uint32_t mask) override;
  void proxy_fence(Warp &warp, const Instruction &instruction, uint32_t mask) override;
  void products_complete(Warp &warp, uint64_t count) override;
  void tensor_access(Warp &warp, const Instruction &instruction, const TensorAccess &access) override;
  uint64_t progress_mark(Warp &warp) override;
  void signals_too(uint64_t key, uint64_t other, uint64_t mark) override;
  void mbarrier_arrives(Warp &warp, uint32_t mask, uint64_t key) override;
  void mbarrier_passed(Warp &warp, const Instruction &instruction, uint32_t mask, uint64_t key) override;
  void mbarrier_ends_phase(Warp &warp, const Instruction &instruction, uint64_t key) override;
  void mbarrier_resets(uint64_t key) override { mbarriers_.resets(key); }

 private:
  struct WarpChecks {
    Registers registers;
    InFlight copies;
    uint32_t begun = 0;  // blocks of the cluster that it knows to have begun, a bit each
  };

  /// The knowledge of a warp, and how far it and others had come.
  struct Mark {
    KnownOfAll known, reached;
  };

  uint32_t agent_of(const Warp &warp) const;
  uint32_t pc_of(const Instruction &instruction) const;
  void shared_access(Warp &warp, const Instruction &instruction, const Access &access);
  void check_begun(const Accessor &who, const Access &access);
  void check_lanes(Warp &warp, const Instruction &instruction, const Access &access);
  void read_unwritten(const Accessor &who, const Access &access, uint32_t address);
  void read_unwritten_row(const Accessor &who, uint32_t address);
  void forget_missing(const Accessor &who, const Access &access);
  void complete(const Warp &warp, InFlight &operations, int32_t groups);
  uint32_t warpgroup_of(const Warp &warp) const;
  ProductReads &products_of(const Warp &warp) { return products_[warpgroup_of(warp)]; }

  std::shared_ptr<LaunchChecks> checks_;
  const Instruction *const code_;
  const InstructionProperties *const properties_;
  Clocks clocks_;
  SharedMemory shared_;
  GlobalMemory global_;
  TensorMemory tensor_;
  Mbarriers mbarriers_;
  std::deque<Mark> marks_;  // of progress_mark, by their number
  std::vector<WarpChecks> warps_;
  std::vector<ProductReads> products_;  // by warpgroup
  uint32_t warps_per_cta_ = 1;
};

}  // namespace fa::emu::check
