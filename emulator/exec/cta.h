// A CTA and a cluster of them: all state of running blocks. They are plain objects that any thread may step: nothing of
// them lives on a host thread's stack.
#pragma once

#include <bit>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <random>
#include <unordered_map>
#include <vector>

#include "exec/observer.h"
#include "exec/positions.h"
#include "exec/warp.h"
#include "memory/device_memory.h"

namespace fa::emu {

struct Launch;
struct Cluster;

struct Cta {
  Cluster *cluster = nullptr;
  Launch *launch = nullptr;
  uint32_t id[3] = {0, 0, 0};
  uint32_t rank = 0;  // in the cluster
  uint32_t threads = 0;
  uint32_t shared_base = 0;  // address of its first byte: the rank above, shared_begin below
  uint32_t shared_bytes = 0;
  uint32_t multiprocessor = 0;
  uint8_t *shared = nullptr;
  std::vector<Warp> warps;
  uint32_t warps_alive = 0;
  const memory::Range *last_range = nullptr;  // of global memory: most accesses are in the range of the one before
  States states;

  template <class T>
  T &state() {
    return states.get<T>();
  }
  uint32_t threads_alive() const;

  std::vector<RowBlock> shared_storage, row_storage;
  std::vector<uint8_t> local_storage;
};

/// An asynchronous operation in flight: land() makes its effect visible. It is run as late as the program allows: when
/// nothing else can run, or at a random moment.
struct AsyncOperation {
  std::function<void()> land;
  uint32_t order = 0;  // operations of the same order (not 0) land one after another
  bool last = false;   // lands when no other can: nothing in the cluster waits for it
};

/// How often an instruction was executed, by warps and by their lanes.
struct ExecutionCount {
  uint64_t warps = 0, lanes = 0;
};

/// The result of Cluster::step.
enum class Step : uint8_t { finished, running, stuck };

/// The unit of scheduling: CTAs that see each other's shared memory. A grid without clusters has clusters of one.
struct Cluster {
  Launch *launch = nullptr;
  uint64_t number = 0;
  std::vector<Cta> ctas;
  uint64_t events = 0;  // wakes, arrivals, landings, exits: whether anything but time passed
  std::deque<AsyncOperation> async;
  States states;
  std::mt19937_64 random;
  std::unique_ptr<Observer> observer;
  std::vector<ExecutionCount> counts;  // by program counter; without those of straight lines
  std::vector<ExecutionCount> passes;  // by program counter, of straight lines: how many more than of the one before
  uint64_t executed = 0;               // warp instructions since begin

  template <class T>
  T &state() {
    return states.get<T>();
  }

  /// These lanes execute all instructions from one to before another.
  void count_straight(uint32_t first, uint32_t end, uint32_t mask) {
    uint64_t active = static_cast<uint32_t>(std::popcount(mask));
    passes[first].warps++, passes[first].lanes += active;
    passes[end].warps--, passes[end].lanes -= active;
  }
  /// They did not after all.
  void uncount_straight(uint32_t first, uint32_t end, uint32_t mask) {
    uint64_t active = static_cast<uint32_t>(std::popcount(mask));
    passes[first].warps--, passes[first].lanes -= active;
    passes[end].warps++, passes[end].lanes += active;
  }
  /// Prepares cluster number n of the launch to run from the start, where its blocks' multiprocessors have `share` of
  /// their room left; storage is reused.
  void begin(Launch &new_launch, uint64_t n, uint64_t share);
  /// Its blocks leave their multiprocessors.
  void leave();
  /// Runs every warp once or more, until about this many instructions are executed or nothing can go on.
  Step step(uint64_t budget);
  /// Lands one operation in flight; false otherwise.
  bool land_one();
  /// Where every warp is that has not ended, for reports of deadlocks.
  std::string where() const;
  /// The same by block.
  void collect_positions(std::vector<BlockPosition> &into) const;

 private:
  void begin_cta(Cta &cta, uint32_t rank);
  bool round(uint64_t &budget);

  std::vector<Warp *> order_;  // that have not ended
  uint64_t share_ = 0;         // of a multiprocessor, that a block takes

 public:
  std::unordered_map<uint32_t, uint64_t> polls;  // by program counter: jumps back, by warps, in loops that only wait
  std::vector<uint64_t> skipped;                 // by program counter: warps of which no lane ran it, as its guard said
  uint64_t clock = 0;                            // of a paced launch
  bool waits = false;                            // of a paced launch: it could not go on when it last had its turn
};

}  // namespace fa::emu
