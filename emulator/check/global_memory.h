// Races on global memory, between clusters above all. One shadow a launch, of the pages that are touched; clusters know
// of each other through strong accesses (atomics, .acquire, .volatile and the like) to the same address.
#pragma once

#include <array>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "check/shared_memory.h"

namespace fa::emu::check {

/// When an access happened: by the clocks of its warp, inside of its cluster, and by the cluster's, for all others.
struct GlobalEpoch {
  uint32_t cluster = 0;  // its number plus 1; 0: none
  uint32_t cluster_clock = 0;
  uint32_t clock = 0;
  uint32_t pc = 0;
  uint16_t agent = 0;
  uint8_t lane = 0;
  bool strong = false;
};

struct GlobalCell {
  GlobalEpoch write;
  GlobalEpoch reads[2];  // that nothing orders; of more readers two are enough to see a race
};

/// Clocks of clusters, by their number plus 1.
using ClusterClocks = std::unordered_map<uint32_t, uint32_t>;

class GlobalShadow {
 public:
  static constexpr uint64_t page_bytes = 4096;

  explicit GlobalShadow(Reporter &told) : reporter(told) {}

  /// Calls f(cell) for what is remembered of bytes that lie in one page. Locks that page.
  template <class F>
  void visit(uint64_t address, uint32_t bytes, F &&f) {
    uint64_t number = address / page_bytes;
    Shard &shard = shards_[number % shards_.size()];
    std::lock_guard lock(shard.mutex);
    std::unique_ptr<Page> &page = shard.pages[number];
    if (!page) page = std::make_unique<Page>();
    uint32_t offset = static_cast<uint32_t>(address % page_bytes);
    while ((offset | bytes) % page->granule) page->refine();
    for (uint32_t at = offset; at < offset + bytes; at += page->granule) f(page->cells[at / page->granule]);
  }
  void release(uint64_t address, const ClusterClocks &known);
  void acquire(uint64_t address, ClusterClocks &known);

  Reporter &reporter;

 private:
  struct Page {
    uint32_t granule = 16;  // bytes a cell
    std::vector<GlobalCell> cells = std::vector<GlobalCell>(page_bytes / 16);
    void refine();
  };
  struct Shard {
    std::mutex mutex;
    std::unordered_map<uint64_t, std::unique_ptr<Page>> pages;
    std::unordered_map<uint64_t, ClusterClocks> released;
  };
  std::array<Shard, 64> shards_;
};

/// One cluster's view of it.
class GlobalMemory {
 public:
  GlobalMemory(GlobalShadow &shadow, Clocks &clocks) : shadow_(shadow), clocks_(clocks) {}
  void begin(const Cluster &cluster);
  /// who.lane is ignored: all lanes of the access.
  void access(Accessor who, const Access &access);

 private:
  GlobalEpoch now(const Accessor &who) const;
  bool knows(const Accessor &who, const GlobalEpoch &epoch) const;
  void read(const Accessor &who, GlobalCell &cell, uint64_t address);
  void write(const Accessor &who, GlobalCell &cell, uint64_t address);
  void conflict(const Accessor &who, const GlobalEpoch &other, uint64_t address, const char *does, const char *did);

  GlobalShadow &shadow_;
  Clocks &clocks_;
  uint32_t cluster_ = 0;  // its number plus 1
  uint32_t clock_ = 1;
  uint32_t warps_per_cta_ = 1;
  ClusterClocks known_;
};

}  // namespace fa::emu::check
