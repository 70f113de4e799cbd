// Checks of shared memory: races between and inside warps, bytes that asynchronous operations still read or write,
// bytes never written, and generic writes that the async proxy reads without a fence.
#pragma once

#include <bit>
#include <vector>

#include "check/clocks.h"
#include "check/properties.h"
#include "check/reporter.h"
#include "check/shadow.h"

namespace fa::emu::check {

/// "shared memory at offset 16 of the cluster's block 1".
std::string shared_place(uint32_t address);

/// Who accesses: a lane of a warp, now.
struct Accessor {
  const Warp *warp = nullptr;
  uint32_t agent = 0;
  uint32_t lane = 0;
  uint32_t pc = 0;
  bool strong = false;  // an atomic, an access that is meant to communicate, or an asynchronous reduction
  const Instruction *instruction = nullptr;  // of plain stores
  const Access *access = nullptr;
  const InstructionProperties *properties = nullptr;  // of instructions that run; null: of completions
  bool *unwritten = nullptr;  // where to note that some bytes were never written, rather than to report it
  /// Whether the lane stores the value that is there already.
  bool stores_the_same() const {
    return access && access->digest &&
           access->digest(*warp, *instruction, lane, nullptr) ==
               access->digest(*warp, *instruction, lane, access->at[lane]);
  }
};

class SharedMemory {
 public:
  SharedMemory(Reporter &reporter, Clocks &clocks) : reporter_(reporter), clocks_(clocks) {}
  void begin(const Cluster &cluster);

  /// address: 32 bits with the CTA's rank; completion: the key of Access::key, for landings.
  void access(const Accessor &who, AccessKind kind, uint32_t address, uint32_t bytes, bool async_proxy, uint64_t key);
  /// The same for all lanes of an access, in their order; who.lane is ignored. Where it is plain that a cell's accesses
  /// are in order, they are remembered for all lanes and bytes at once (shared_rows.cpp); the rest goes through access:
  /// of reads, writes and atomics by slow(lane).
  template <class F>
  void access_rows(Accessor who, const Access &access, F &&slow);
  /// Whether all these bytes were written; and as if they never had been.
  bool is_written(uint32_t address, uint32_t bytes);
  void forget(uint32_t address, uint32_t bytes);
  /// When the CTA ends: operations still in flight, and accesses of other blocks of the cluster that may come after.
  void end(const Cta &cta);

 private:
  /// Lanes that access a cell: all of its bytes each, or a share each.
  struct Lanes {
    uint32_t mask = 0;
    uint32_t share = whole_cell;
  };
  /// Lanes from this one on, of those that are left, that access a cell together.
  static Lanes together(const Access &access, uint32_t left, uint32_t lane);
  /// Takes lanes out of `left` until some have to go through access, one by one, which it returns; without lanes: none
  /// had to. completes: in the name of the completion's key.
  Lanes access_quickly(const Clocks::View &view, Accessor who, const Access &access, bool completes, uint32_t &left);
  class Quick;
  void prefetch(const Access &access, uint32_t agent) const;
  void join_shares(uint32_t address, const Lanes &lanes);

  void read(const Accessor &who, Shadow &shadow, Cell &cell, uint32_t address);
  void write(const Accessor &who, Shadow &shadow, Cell &cell, uint32_t address);
  void issue_read(const Accessor &who, Cell &cell, uint32_t address, bool async_proxy);
  void issue_write(const Accessor &who, Shadow &shadow, Cell &cell, uint32_t address, bool async_proxy);
  /// Whether it is a read of the generic proxy behind which no proxy fence is known.
  bool is_unfenced(const Clocks::View &view, const ReadEpoch &reader) const {
    return reader.clock != 0 && reader.agent < warps_ && !view.covers_fenced(reader.agent, reader.lanes, reader.clock);
  }
  bool unfenced(const Accessor &who, const Cell &cell, bool async_proxy) const;
  void report_unfenced(const Accessor &who, const Cell &cell, uint32_t address, const char *does);
  void report_unfenced_read(const Accessor &who, const ReadEpoch &reader, uint32_t address);
  void land(const Accessor &who, Shadow &shadow, Cell &cell, bool async_proxy);
  void end_read(const Accessor &who, Shadow &shadow, Cell &cell);

  void check_remote(const Cta &cta, const Cell &cell, uint32_t address);
  void check_mbarrier(const Accessor &who, Cell &cell, uint32_t address, const char *does);
  void check_written(const Accessor &who, const Cell &cell, uint32_t address, const char *does);
  void check_order(const Accessor &who, const Cell &cell, uint32_t address, const char *does);
  void check_readers(const Accessor &who, Shadow &shadow, const Cell &cell, uint32_t address);
  void check_reader(const Accessor &who, const ReadEpoch &reader, uint32_t address);
  void check_pending(const Accessor &who, Cell &cell, uint32_t address, bool writes);
  void remember_read(const Accessor &who, Shadow &shadow, Cell &cell);
  std::string name_of_agent(uint32_t agent, uint32_t lane) const;

  Reporter &reporter_;
  Clocks &clocks_;
  std::vector<Shadow> shadows_;  // by rank
  uint32_t warps_per_cta_ = 1, warps_ = 1;
};

template <class F>
void SharedMemory::access_rows(Accessor who, const Access &access, F &&slow) {
  const bool lands = access.kind == AccessKind::async_land || access.kind == AccessKind::async_end_read;
  const bool completes = lands && access.key != 0;
  if (completes) who.agent = clocks_.complete(access.key);
  const Clocks::View view = clocks_.view(who.agent);
  if (access.mask == all_lanes) prefetch(access, who.agent);
  for (uint32_t left = access.mask; left;) {
    const Lanes lanes = access_quickly(view, who, access, completes, left);
    for (uint32_t rest = lanes.mask; rest; rest &= rest - 1) slow(static_cast<uint32_t>(std::countr_zero(rest)));
    if (lanes.share != whole_cell && access.kind == AccessKind::write)
      join_shares(static_cast<uint32_t>(access.address[std::countr_zero(lanes.mask)]), lanes);
  }
}

}  // namespace fa::emu::check
