// Races on global memory, between clusters above all. One shadow a launch, of the pages that are touched; clusters know
// of each other through strong accesses to the same address: a release that an acquire reads, or relaxed accesses
// (atomics among them) with a fence before the one that writes and behind the one that reads, of scopes that hold both.
#pragma once

#include <array>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "check/shared_memory.h"

namespace fa::emu::check {

/// When an access happened: by the clocks of its warp, inside of its cluster, and by the cluster's, for all others. Of
/// lanes in a row that have accessed a cell together, a share each, the first one is remembered, and share (see
/// Shadow).
struct GlobalEpoch {
  uint32_t cluster = 0;  // its number plus 1; 0: none
  uint32_t cluster_clock = 0;
  uint32_t clock = 0;
  uint32_t pc = 0;
  uint16_t agent = 0;
  uint8_t lane : 5 = 0;
  uint8_t early : 1 = false;    // of a dependent, before it has waited for the launches before
  uint8_t scope : 2 = 0;        // Scope of a strong access
  uint8_t async : 1 = false;    // of the async proxy
  uint8_t pending : 1 = false;  // a write in flight
  uint8_t share : 4 = whole_cell;

  uint32_t lanes() const {
    const uint32_t count = share == whole_cell ? 1 : 16u >> share;
    return static_cast<uint32_t>(((uint64_t{1} << count) - 1) << lane);
  }
};

struct GlobalCell {
  GlobalEpoch write;
  GlobalEpoch reads[2];  // that nothing orders; of more readers two are enough to see a race

  bool shared_out() const {
    return write.share != whole_cell || reads[0].share != whole_cell || reads[1].share != whole_cell;
  }
};

/// Clocks of clusters, by their number plus 1.
using ClusterClocks = std::unordered_map<uint32_t, uint32_t>;

/// Accesses that come before; and of them, those with a proxy fence behind them.
struct ClusterKnowledge {
  ClusterClocks known, fenced;
  void join(const ClusterKnowledge &other);
};

struct Footprint;

class GlobalShadow {
 public:
  static constexpr uint64_t page_bytes = 4096;

  explicit GlobalShadow(Reporter &to) : reporter(to) {}

  /// The recorded accesses of a page.
  struct Page {
    uint32_t granule = 16;  // bytes a cell
    std::vector<GlobalCell> cells = std::vector<GlobalCell>(page_bytes / 16);

    /// Calls f(cell) for each cell of its bytes, as small as they need be, without shares.
    template <class F>
    void visit(uint32_t offset, uint32_t bytes, F &&f) {
      while ((offset | bytes) % granule || is_shared_out(offset, bytes)) refine();
      for (uint32_t at = offset; at < offset + bytes; at += granule) f(cells[at / granule]);
    }
    bool is_shared_out(uint32_t offset, uint32_t bytes) const {
      for (uint32_t at = offset / granule; at <= (offset + bytes - 1) / granule; at++)
        if (cells[at].shared_out()) return true;
      return false;
    }
    void refine();
    /// The cells that have some of its bytes.
    std::vector<const GlobalCell *> cells_of(uint32_t offset, uint32_t bytes) const {
      std::vector<const GlobalCell *> result;
      for (uint32_t at = offset / granule; at <= (offset + bytes - 1) / granule; at++) result.push_back(&cells[at]);
      return result;
    }
  };
  /// A page, locked until another one is.
  class Held {
   public:
    explicit Held(GlobalShadow &shadow) : shadow_(shadow) {}
    Page &page(uint64_t number) {
      if (page_ && number == number_) return *page_;
      if (lock_) lock_.unlock();
      Shard &shard = shadow_.shards_[number % shadow_.shards_.size()];
      lock_ = std::unique_lock(shard.mutex);
      std::unique_ptr<Page> &found = shard.pages[number];
      if (!found) found = std::make_unique<Page>();
      number_ = number;
      page_ = found.get();
      return *page_;
    }

   private:
    GlobalShadow &shadow_;
    std::unique_lock<std::mutex> lock_;
    uint64_t number_ = 0;
    Page *page_ = nullptr;
  };
  void release(uint64_t address, const ClusterKnowledge &knowledge);
  /// waits: by a load, which may wait for a value.
  void acquire(uint64_t address, ClusterKnowledge &knowledge, bool waits);
  /// Hands its pages over, and the flags that were released and waited for; nothing may run any more.
  Footprint take();

  Reporter &reporter;

 private:
  struct Shard {
    std::mutex mutex;
    std::unordered_map<uint64_t, std::unique_ptr<Page>> pages;
    std::unordered_map<uint64_t, ClusterKnowledge> released;
    std::unordered_set<uint64_t> waited_for;
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
  void fence(const Accessor &who, uint32_t mask);
  /// fence.proxy of the async proxy, for global memory.
  void proxy_fence();
  /// fence.proxy.tensormap; and a tensor map of global memory that a copy goes by.
  void map_fence(uint32_t agent);
  void use_map(const Accessor &who);
  /// griddepcontrol.wait; its warp, and all that learn of it, then are behind the launches before.
  void waits_for_prerequisites(uint32_t agent);

 private:
  /// A block's relaxed reads since its last fence, and the knowledge that its last fence releases.
  struct Fences {
    ClusterKnowledge read, released;
  };

  /// Lanes from `first` on that access a cell together, a share each; of one lane, all of its bytes.
  struct Lanes {
    uint32_t first = 0, count = 1, share = whole_cell;
  };
  static Lanes together(const Access &access, uint32_t left, uint32_t lane);
  bool in_order(const Clocks::View &view, const GlobalEpoch &now, const GlobalEpoch &before) const;
  bool quick_read(const Clocks::View &view, const GlobalEpoch &now, GlobalCell &cell) const;
  bool quick_write(const Clocks::View &view, const GlobalEpoch &now, GlobalCell &cell) const;
  bool access_together(const Clocks::View &view, const Accessor &who, const Access &access, const Lanes &lanes,
                       GlobalShadow::Held &held);
  void access_alone(const Accessor &who, const Access &access, GlobalShadow::Held &held);
  GlobalEpoch now(const Accessor &who);
  bool is_early(uint32_t agent);
  void acquire(const Accessor &who, uint64_t flag);
  void release(const Accessor &who, uint32_t mask, uint64_t flag);
  Scope min_scope(const GlobalEpoch &other, uint32_t agent) const;
  bool both_strong(const GlobalEpoch &a, uint32_t agent, uint8_t scope) const;
  bool unfenced(const Accessor &who, const GlobalEpoch &write) const;
  void land(const Access &access);
  void check_pending(const Accessor &who, GlobalCell &cell, uint64_t address, const char *does);
  void check_source(const Accessor &who, const GlobalEpoch &write, uint64_t address);
  bool knows(const Accessor &who, const GlobalEpoch &epoch) const;
  void read(const Accessor &who, GlobalCell &cell, uint64_t address);
  void write(const Accessor &who, GlobalCell &cell, uint64_t address);
  void conflict(const Accessor &who, const GlobalEpoch &other, uint64_t address, const char *does, const char *did,
                bool equal = false);

  GlobalShadow &shadow_;
  Clocks &clocks_;
  uint32_t cluster_ = 0;  // its number plus 1
  uint32_t clock_ = 1;
  uint32_t warps_per_cta_ = 1;
  ClusterKnowledge known_;
  std::unordered_map<uint32_t, Fences> fences_;       // by block
  bool dependent_ = false;                            // it may run together with the launches before
  std::vector<bool> waited_;                          // by agent, of a dependent
  std::vector<std::pair<uint32_t, uint32_t>> waits_;  // agents, and their clocks then
  std::unordered_map<uint32_t, ClusterClocks> maps_;  // changes of tensor maps that a block sees
};

}  // namespace fa::emu::check
