// Happens-before between the warps of a cluster, as vector clocks (FastTrack: Flanagan and Freund, 2009). A warp's
// clock moves on when its lanes meet and when it releases; inside a warp, lanes know of each other through the
// meetings.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

namespace fa::emu::check {

/// Known accesses of a warp: all up to one clock, and those of some lanes up to another.
struct Known {
  uint32_t all = 0;
  uint32_t some = 0;
  uint32_t lanes = 0;  // that `some` is about

  bool covers(uint32_t of_lanes, uint32_t clock) const {
    return clock <= all || (clock <= some && (of_lanes & ~lanes) == 0);
  }
  /// Whether a clock is covered for some lane.
  bool reaches(uint32_t clock) const { return clock <= all || clock <= some; }
  void join(const Known &other);
};

using KnownOfAll = std::vector<Known>;
void join(KnownOfAll &into, const KnownOfAll &from);

/// Agents are the warps, by their number in the cluster, and behind them the completions of asynchronous operations,
/// one a key. Keys are those of Observer::release and acquire.
class Clocks {
 public:
  void begin(uint32_t warps);

  uint32_t now(uint32_t agent) const { return agents_[agent].now; }
  /// The knowledge of an agent, for many queries in a row; until anything changes.
  struct View {
    const Known *known;
    const Known *fenced;
    uint32_t known_count, fenced_count;
    uint32_t agent, now, met;
    bool lanes_differ;  // lanes of the warp know different things of one another

    bool covers(uint32_t other, uint32_t of_lanes, uint32_t clock) const {
      return other < known_count && known[other].covers(of_lanes, clock);
    }
    bool covers_fenced(uint32_t other, uint32_t of_lanes, uint32_t clock) const {
      return other < fenced_count && fenced[other].covers(of_lanes, clock);
    }
  };
  View view(uint32_t agent) const;
  /// Whether this lane's next access comes after the accesses of these lanes of another agent (or its own) at that
  /// clock.
  bool knows(uint32_t agent, uint32_t lane, uint32_t other, uint32_t other_lanes, uint32_t clock) const;
  /// The same with a proxy fence between.
  bool knows_fenced(uint32_t agent, uint32_t other, uint32_t other_lane, uint32_t clock) const;

  /// Whether the agent knows of anything that the other one's warp did at that clock or later.
  bool reaches(uint32_t agent, uint32_t other, uint32_t clock) const;
  /// Whether it knows that the other one's warp has run at all.
  bool has_reached(uint32_t agent, uint32_t other) const {
    const KnownOfAll &reached = agents_[agent].reached;
    return other < reached.size() && reached[other].reaches(1);
  }
  /// The same for tensor memory: with tcgen05.fence on both sides. Completions need the later one only.
  bool reaches_tensor(uint32_t agent, uint32_t other, uint32_t clock) const;
  /// Whether those who have arrived at the key's mbarrier know of it.
  bool arrivals_reach(uint64_t key, uint32_t other, uint32_t clock) const;

  /// live: lanes of the warp that have not exited.
  void meet(uint32_t agent, uint32_t mask, uint32_t live);
  void release(uint32_t agent, uint32_t mask, uint32_t live, uint64_t key);
  void acquire(uint32_t agent, uint64_t key);
  /// A fence, and relaxed accesses around it: values of keys that the block has read before the fence are acquired
  /// behind it, and values that it writes to keys behind it release all before the fence. A barrier of the block may be
  /// between a fence and such an access, which may be another thread's. wide: it orders memory for other blocks, too.
  void fence(uint32_t agent, uint32_t mask, uint32_t live, uint32_t block, bool wide);
  void acquire_at_fence(uint32_t block, uint64_t key, bool wide);
  void release_of_fence(uint32_t block, uint64_t key, bool wide);
  void proxy_fence(uint32_t agent, uint32_t mask, uint32_t live);
  void tensor_fence_before(uint32_t agent);
  void tensor_fence_after(uint32_t agent) { agents_[agent].tensor = agents_[agent].known; }
  /// The progress of the agent and, to its knowledge, of others in their programs. Whoever learns of that does not know
  /// that their accesses to memory are over: it is about arrivals only.
  KnownOfAll progress_of(uint32_t agent);
  void join_progress(uint32_t agent, const KnownOfAll &reached) { join(agents_[agent].reached, reached); }
  void arrive(uint32_t agent, uint32_t mask, uint32_t live, uint64_t key);
  /// Completions signalled by `key` so far are signalled by `other` as well.
  void signals_too(uint64_t key, uint64_t other);
  const KnownOfAll &known(uint32_t agent) const { return agents_[agent].known; }
  /// Whoever acquires the key then also knows of these completions, and how far others have come.
  void signals(uint64_t key, const KnownOfAll &known, const KnownOfAll &reached);
  /// Something completes that the key signals: the agent for its accesses, at its clock of now.
  uint32_t complete(uint64_t key);
  /// The same for operations that complete in a known order: at this clock, no earlier than the last one. Who waits for
  /// it says up to which clock.
  uint32_t complete_at(uint64_t key, uint32_t clock);
  void acquire_up_to(uint32_t agent, uint64_t key, uint32_t clock);

 private:
  uint32_t completions_of(uint64_t key);

  using Matrix = std::array<std::array<uint32_t, 32>, 32>;

  struct Released {
    KnownOfAll known, fenced, reached;
    void join(const Released &other);
  };
  /// Of a block's fences and relaxed accesses, [1] of those that are wide.
  struct Fences {
    Released released[2], read[2];
  };

  struct Agent {
    uint32_t now = 1;
    uint32_t met = 0;  // all lanes know of all accesses up to this clock
    KnownOfAll known, fenced;
    KnownOfAll reached;                   // by others, beyond the known accesses
    KnownOfAll tensor;                    // known as of the last tcgen05.fence::after_thread_sync
    std::vector<uint32_t> tensor_fences;  // clocks of tcgen05.fence::before_thread_sync
    std::unique_ptr<Matrix> lanes;  // [lane][other]: the clock up to which it knows; made by the first partial meeting
  };

  void learn(Agent &self, const Released &released);
  Known own(const Agent &agent, uint32_t mask, uint32_t live) const;

  std::vector<Agent> agents_;
  std::vector<Fences> fences_;  // by block
  uint32_t warps_ = 0;
  std::unordered_map<uint64_t, Released> released_;
  std::unordered_map<uint64_t, uint32_t> completions_;
  std::unordered_map<uint64_t, KnownOfAll> arrived_;
};

}  // namespace fa::emu::check
