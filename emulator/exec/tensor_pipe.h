// Operations that tcgen05 instructions start and do not wait for (PTX ISA 9.7.16.6): mma and cp. Those of a thread
// happen one after another, as late as the program allows; tcgen05.commit signals an mbarrier when all before it are
// done.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "exec/cta.h"

namespace fa::emu {

class TensorOperation {
 public:
  TensorOperation(Warp &warp, const Instruction &instruction, uint32_t lane)
      : warp_(warp), instruction_(instruction), lane_(lane) {}
  virtual ~TensorOperation() = default;
  virtual void run() = 0;
  /// Reports its reads of shared memory, and its reads and writes of tensor memory. kind: async_issue_read when
  /// it is issued, async_end_read when a commit signals its end; key as in Access.
  virtual void observe(AccessKind kind, uint64_t key) const = 0;

  bool done() const { return done_; }
  void finish() { run(), done_ = true; }
  Warp &warp() const { return warp_; }
  const Instruction &instruction() const { return instruction_; }
  uint32_t lane() const { return lane_; }

 protected:
  /// observe's share of tensor memory: access.kind says whether it reads or writes.
  void observe_tensor(AccessKind kind, uint64_t key, TensorAccess access) const;

  Warp &warp_;
  const Instruction &instruction_;
  uint32_t lane_;  // of the thread that started it

 private:
  bool done_ = false;
};

/// The operations that a CTA's threads have started, and not committed yet.
struct TensorPipe : State {
  using Operations = std::vector<std::shared_ptr<TensorOperation>>;
  std::map<uint32_t, Operations> open;  // by thread
  Operations all;                       // not known to be done

  void at_exit(Cta &cta) override;
};

void start(std::shared_ptr<TensorOperation> operation);
/// One arrival at each of these mbarriers (shared addresses with ranks) when the thread's operations are done.
void commit(Warp &warp, const Instruction &instruction, uint32_t lane, std::vector<uint32_t> mbarriers);

}  // namespace fa::emu
