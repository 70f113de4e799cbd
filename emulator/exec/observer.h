// The interface of checks and counters. Handlers of an observed program report whole warp instructions; programs
// that are not observed are decoded to handlers without these calls, so watching costs nothing when nobody does.
#pragma once

#include <cstdint>

#include "exec/instruction.h"

namespace fa::emu {

struct Cta;
struct Cluster;

enum class AccessKind : uint8_t {
  read,
  write,
  atomic,
  async_issue_read,   // an asynchronous operation has begun to read these bytes: nobody may write them until it has
  async_issue_write,  // ... to write them: nobody may touch them until it has landed
  async_land,         // it has written them
  async_end_read,     // it has read them
};

/// One warp's access to memory. address: of global memory the host's, of shared memory 32 bits with the CTA's rank, of
/// local memory the offset in the thread's.
struct Access {
  ptx::Space space = ptx::Space::global;
  AccessKind kind = AccessKind::read;
  uint32_t bytes = 0;  // a lane, from address on
  uint32_t mask = 0;
  const uint64_t *address = nullptr;  // 32 of them
  bool async_proxy = false;           // TMA, wgmma, tcgen05
  /// Of async_land and async_end_read, and of issues where it is known: the key of the completion's signal, the same
  /// that acquire gets; 0: a commit group, for which the issuing warp itself waits. cp.async without .bulk and wgmma
  /// report issues only: the checks follow commit_group and wait_group of the one by themselves, and hear of the
  /// other's end by products_complete.
  uint64_t key = 0;
  /// Of plain stores: a digest of the value that a lane stores or, given the place, of the value that is there now. at:
  /// that place, by lane.
  uint32_t (*digest)(const Warp &, const Instruction &, uint32_t lane, const uint8_t *at) = nullptr;
  const uint8_t *const *at = nullptr;
  bool reduces = false;  // async_issue_write and async_land: others may reduce the same bytes at the same time
};

/// One access to tensor memory: these lanes of these columns of a CTA. mma and cp report when they are issued (kinds
/// async_issue_) and when their commit signals (async_land, async_end_read); ld and st report issues only: the checks
/// follow tcgen05.wait by themselves. kind write: the columns are given back.
struct TensorAccess {
  AccessKind kind = AccessKind::read;
  uint32_t rank = 0;  // of the CTA
  uint32_t lane = 0, lane_count = 0;
  uint32_t column = 0, column_count = 0;
  uint32_t pipe = 0;  // the thread in whose order mma and cp happen, unique in the cluster; 0: ld, st
  uint64_t key = 0;   // as in Access
};

/// One object a cluster; never used by two threads at once.
class Observer {
 public:
  virtual ~Observer() = default;
  virtual void cta_begins(Cta &) {}
  virtual void cta_ends(Cta &) {}
  /// Before every instruction that has lanes to run for; those that wait may come again.
  virtual void instruction(Warp &, const Instruction &, uint32_t) {}
  /// These lanes do not run an instruction, as its guard says.
  virtual void skipped(Warp &, const Instruction &, uint32_t /*mask*/) {}
  virtual void access(Warp &, const Instruction &, const Access &) {}
  /// The lanes' accesses so far happen before those of whoever acquires the key afterwards. Keys are addresses (of an
  /// mbarrier in shared memory, of a barrier's state, of a flag in global memory).
  virtual void release(Warp &, uint32_t /*mask*/, uint64_t /*key*/) {}
  virtual void acquire(Warp &, uint32_t /*mask*/, uint64_t /*key*/) {}
  /// These lanes have synchronised among themselves (bar.warp.sync and other .sync instructions with memory order).
  virtual void lanes_meet(Warp &, uint32_t /*mask*/) {}
  /// fence.proxy: generic writes become visible to the async proxy.
  virtual void proxy_fence(Warp &, const Instruction &, uint32_t /*mask*/) {}
  /// wgmma.wait_group returns: this many wgmma of the warp's warpgroup, the first ones, are complete for all four
  /// warps.
  virtual void products_complete(Warp &, uint64_t /*count*/) {}
  virtual void tensor_access(Warp &, const Instruction &, const TensorAccess &) {}
  /// A mark of the warp's progress, for signals_too: its operations show their end to others.
  virtual uint64_t progress_mark(Warp &) { return 0; }
  /// Completions signalled by `key` so far are signalled by `other` as well; and that a warp has come up to the mark.
  virtual void signals_too(uint64_t /*key*/, uint64_t /*other*/, uint64_t /*mark*/) {}
  /// These lanes arrive at an mbarrier, or operations that they have started will when they are done.
  virtual void mbarrier_arrives(Warp &, uint32_t /*mask*/, uint64_t /*key*/) {}
  /// They have seen that its phase is over.
  virtual void mbarrier_passed(Warp &, const Instruction &, uint32_t /*mask*/, uint64_t /*key*/) {}
  /// This arrival or completion ends its phase.
  virtual void mbarrier_ends_phase(Warp &, const Instruction &, uint64_t /*key*/) {}
  /// There is a new mbarrier, or none any more.
  virtual void mbarrier_resets(uint64_t /*key*/) {}
};

}  // namespace fa::emu
