// What tcgen05 instructions start and do not wait for (PTX ISA 9.7.16.6): mma and cp. Those of a thread happen one
// after another, as late as the program allows; tcgen05.commit tells an mbarrier when all before it are done.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "exec/cta.h"

namespace fa::emu {

class TensorOperation {
 public:
  TensorOperation(Warp &warp, const Instruction &instruction) : warp_(warp), instruction_(instruction) {}
  virtual ~TensorOperation() = default;
  virtual void run() = 0;
  /// Reports what it reads of shared memory; key as in Access.
  virtual void observe(AccessKind kind, uint64_t key) const = 0;

  bool done() const { return done_; }
  void finish() { run(), done_ = true; }
  Warp &warp() const { return warp_; }
  const Instruction &instruction() const { return instruction_; }

 protected:
  Warp &warp_;
  const Instruction &instruction_;

 private:
  bool done_ = false;
};

/// Of a CTA: operations that its threads have started, and not committed yet.
struct TensorPipe : State {
  using Operations = std::vector<std::shared_ptr<TensorOperation>>;
  std::map<uint32_t, Operations> open;  // by thread
  Operations all;                       // not known to be done

  void at_exit(Cta &cta) override;
};

void start(uint32_t lane, std::shared_ptr<TensorOperation> operation);
/// One arrival at each of these mbarriers (shared addresses with ranks) when what the thread has started is done.
void commit(Warp &warp, const Instruction &instruction, uint32_t lane, std::vector<uint32_t> mbarriers);

}  // namespace fa::emu
