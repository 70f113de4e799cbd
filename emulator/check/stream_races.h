// Conflicts between operations of streams that nothing orders: launches, copies and sets of which two touch the same
// bytes, and one writes. The driver knows their order, as vector clocks; each operation is compared when it ends, with
// all that have ended before. While every operation comes behind all others, footprints are kept as they are, and
// nothing is compared.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "check/footprint.h"
#include "exec/finding.h"

namespace fa::emu::check {

/// By timeline: how many of its operations come before. Those of a timeline come one after another.
using StreamClock = std::vector<uint32_t>;

inline void join(StreamClock &into, const StreamClock &from) {
  if (into.size() < from.size()) into.resize(from.size());
  for (size_t i = 0; i < from.size(); i++) into[i] = std::max(into[i], from[i]);
}
inline bool covers(const StreamClock &known, uint32_t timeline, uint32_t number) {
  return timeline < known.size() && number <= known[timeline];
}

struct StreamOperation {
  StreamClock known;                       // the operations before it
  StreamClock waited;                      // ... behind griddepcontrol.wait; empty: the same
  uint32_t timeline = 0, number = 0;       // its place; numbers begin with 1
  uint64_t handed_over = 0, began = 0;     // by one count
  std::string name;                        // "launch 3 (scale(float*)) in stream 5"
  std::shared_ptr<const Program> program;  // of a launch
  bool tells_host = false;                 // it writes memory that the host may look at while it runs
  const char *does = nullptr;              // instead of "writes" or "reads"
};

/// Thread-safe.
class StreamRaces {
 public:
  /// An operation has ended. The conflicts with others; launch: null where it is none.
  std::vector<Finding> ends(StreamOperation operation, Footprint footprint, const Launch *launch);
  /// All that have ended come before all that will begin.
  void forget();

 private:
  struct Mark {
    uint32_t operation = 0;  // its number in operations_ plus 1; 0: none
    uint32_t pc : 31 = 0;
    uint32_t strong : 1 = 0;
  };
  struct Cell {
    Mark write, reads[2];  // reads since, in no order; of more readers two are enough
  };
  struct Page {
    uint32_t granule = 16;  // bytes a cell
    std::vector<Cell> cells = std::vector<Cell>(GlobalShadow::page_bytes / 16);
    template <class F>
    void visit(uint32_t offset, uint32_t bytes, F &&f) {
      while ((offset | bytes) % granule) refine();
      for (uint32_t at = offset; at < offset + bytes; at += granule) f(cells[at / granule], at);
    }
    void refine();
  };
  struct Known {
    StreamOperation operation;
    Footprint footprint;  // its flags; the rest until it is merged
  };
  struct Comparison;

  void merge_all();
  void merge(uint32_t number, Comparison *comparison);
  void touch(Cell &cell, uint64_t address, const Mark &mark, bool writes, const GlobalEpoch *epoch,
             Comparison *comparison);
  bool in_order(uint32_t other, Comparison &comparison, bool early) const;
  void conflict(Comparison &comparison, uint64_t address, const Mark &mine, bool writes, const GlobalEpoch *epoch,
                const Mark &other, bool other_writes) const;

  std::mutex mutex_;
  std::deque<Known> operations_;
  size_t merged_ = 0;         // of them, those whose footprints are in pages_
  size_t pages_waiting_ = 0;  // of the others
  StreamClock ended_;         // of operations_
  std::unordered_map<uint64_t, Page> pages_;
};

}  // namespace fa::emu::check
