// Checks of shared memory: races between and inside warps, bytes that asynchronous operations still read or write,
// bytes never written, and generic writes that the async proxy reads without a fence.
#pragma once

#include <vector>

#include "check/clocks.h"
#include "check/reporter.h"
#include "check/shadow.h"

namespace fa::emu::check {

/// Who accesses: a lane of a warp, now.
struct Accessor {
  const Warp *warp = nullptr;
  uint32_t agent = 0;
  uint32_t lane = 0;
  uint32_t pc = 0;
  bool strong = false;        // an atomic, an access that is meant to communicate, or an asynchronous reduction
  bool *unwritten = nullptr;  // where to note that some bytes were never written, rather than to report it
};

class SharedMemory {
 public:
  SharedMemory(Reporter &reporter, Clocks &clocks) : reporter_(reporter), clocks_(clocks) {}
  void begin(const Cluster &cluster);

  /// address: 32 bits with the CTA's rank; completion: the key of Access::key, for landings.
  void access(const Accessor &who, AccessKind kind, uint32_t address, uint32_t bytes, bool async_proxy, uint64_t key);
  /// Whether all these bytes were written; and as if they never had been.
  bool is_written(uint32_t address, uint32_t bytes);
  void forget(uint32_t address, uint32_t bytes);
  /// When the CTA ends: what is still in flight, and what other blocks of the cluster do that may come after.
  void end(const Cta &cta);

 private:
  void read(const Accessor &who, Shadow &shadow, Cell &cell, uint32_t address);
  void write(const Accessor &who, Shadow &shadow, Cell &cell, uint32_t address);
  void issue_read(const Accessor &who, Cell &cell, uint32_t address, bool async_proxy);
  void issue_write(const Accessor &who, Shadow &shadow, Cell &cell, uint32_t address);
  void land(const Accessor &who, Shadow &shadow, Cell &cell);
  void end_read(const Accessor &who, Shadow &shadow, Cell &cell);

  void check_remote(const Cta &cta, const Cell &cell, uint32_t address);
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

}  // namespace fa::emu::check
