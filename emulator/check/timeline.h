// The activity of warps over time, for a picture. Time is counted in instructions: each warp has a clock that its
// instructions move on by one, and that jumps to the other side's where it waits, as if all warps ran side by side.
#pragma once

#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "exec/launch.h"

namespace fa::emu::check {

enum class Role : uint8_t { other, memory, copy, product, wait };
std::string_view name_of(Role role);

/// The kind of an instruction for a timeline.
struct Kind {
  Role role = Role::other;
  bool waits_for_groups = false;  // that the warp has committed
  bool polls = false;             // an mbarrier
};

/// An activity that took a warp's time, or, asynchronous, went on at the same time.
struct Span {
  Role role = Role::other;
  bool asynchronous = false;
  uint32_t warp = 0;
  uint32_t pc = 0;  // of the first instruction
  uint32_t instructions = 1;
  uint64_t begin = 0, end = 0;
};

struct BlockTimeline {
  uint32_t block[3] = {0, 0, 0};
  uint64_t cluster = 0;
  uint32_t rank = 0;
  std::vector<Span> spans;
  uint64_t left_out = 0;  // further spans
};

/// The timeline of a launch's first blocks. Thread-safe.
class Timeline {
 public:
  static constexpr uint64_t max_clusters = 8;
  static constexpr size_t max_spans = 20000;  // of a block

  explicit Timeline(const Program &program);
  const Kind &kind_of(uint32_t pc) const { return kinds_[pc]; }
  void add(BlockTimeline block);
  /// In the order of blocks.
  std::vector<BlockTimeline> blocks() const;

 private:
  std::vector<Kind> kinds_;  // by program counter
  mutable std::mutex mutex_;
  std::vector<BlockTimeline> blocks_;
};

/// Follows one cluster.
class Recorder {
 public:
  explicit Recorder(Launch &launch) : timeline_(*launch.timeline) {}
  ~Recorder() { finish(); }
  Recorder(const Recorder &) = delete;
  Recorder &operator=(const Recorder &) = delete;

  void begin(const Cluster &cluster);
  void instruction(const Warp &warp, uint32_t pc);
  void release(const Warp &warp, uint64_t key);
  void acquire(const Warp &warp, uint64_t key);
  void passed(const Warp &warp);
  /// An asynchronous operation begins; key 0: the warp's own commit groups track it.
  void issue(const Warp &warp, uint32_t pc, uint64_t key, Role role);

 private:
  struct Track {
    uint64_t clock = 0;
    bool open = false;   // the last span may yet grow
    uint32_t polls = 0;  // instructions that a polling loop around an mbarrier may yet have
    uint32_t poll_pc = 0;
    Span last;
    std::vector<Span> grouped;  // asynchronous operations that its own wait ends
  };

  Track &track_of(const Warp &warp);
  void close(Track &track, uint32_t rank);
  void record(uint32_t rank, const Span &span);
  void finish();

  Timeline &timeline_;
  bool watched_ = false;
  uint32_t warps_per_cta_ = 1;
  std::vector<Track> tracks_;
  std::vector<BlockTimeline> blocks_;
  std::unordered_map<uint64_t, uint64_t> released_;  // by key: the latest clock
  struct Pending {
    uint32_t rank = 0;
    Span span;
  };
  std::unordered_map<uint64_t, std::vector<Pending>> pending_;  // by key
};

}  // namespace fa::emu::check
