// Clocks of warps, and spans of instructions of one role.
#include "check/timeline.h"

#include <algorithm>
#include <utility>

namespace fa::emu::check {
namespace {

constexpr uint32_t longest_poll = 8;  // instructions of a loop around mbarrier.test_wait

Role role_of(const ptx::Opcode &opcode) {
  auto has_any = [&](std::initializer_list<std::string_view> modifiers) {
    return std::any_of(modifiers.begin(), modifiers.end(), [&](std::string_view one) { return opcode.has(one); });
  };
  if (opcode.name == "bar" || opcode.name == "barrier" || opcode.name == "nanosleep") return Role::wait;
  if (has_any({"wait", "wait_group", "wait_all", "test_wait", "try_wait", "wait::ld", "wait::st"})) return Role::wait;
  if (opcode.name == "mma" || opcode.name == "wmma" || opcode.name == "wgmma") return Role::product;
  if (opcode.name == "tcgen05") return opcode.has("mma") ? Role::product : Role::memory;
  if (opcode.name == "cp" || opcode.has("async")) return Role::copy;
  for (std::string_view name : {"ld", "ldu", "st", "ldmatrix", "stmatrix", "atom", "red", "prefetch", "mbarrier"})
    if (opcode.name == name) return Role::memory;
  return Role::other;
}

}  // namespace

std::string_view name_of(Role role) {
  switch (role) {
    case Role::other:
      return "other";
    case Role::memory:
      return "memory";
    case Role::copy:
      return "copy";
    case Role::product:
      return "product";
    case Role::wait:
      return "wait";
  }
  return "other";
}

Timeline::Timeline(const Program &program) : kinds_(program.code.size()) {
  for (uint32_t pc = 0; pc < kinds_.size(); pc++) {
    const ptx::Opcode &opcode = program.module->opcodes[program.source(pc).opcode];
    Kind &kind = kinds_[pc];
    kind.role = role_of(opcode);
    kind.waits_for_groups = opcode.has("wait_group") || opcode.has("wait_all");
    kind.polls = opcode.name == "mbarrier" && kind.role == Role::wait;
  }
}

void Timeline::add(BlockTimeline block) {
  std::lock_guard lock(mutex_);
  blocks_.push_back(std::move(block));
}

std::vector<BlockTimeline> Timeline::blocks() const {
  std::lock_guard lock(mutex_);
  std::vector<BlockTimeline> result = blocks_;
  std::sort(result.begin(), result.end(), [](const BlockTimeline &a, const BlockTimeline &b) {
    return std::pair(a.cluster, a.rank) < std::pair(b.cluster, b.rank);
  });
  return result;
}

void Recorder::begin(const Cluster &cluster) {
  finish();
  watched_ = cluster.number < Timeline::max_clusters;
  if (!watched_) return;
  warps_per_cta_ = static_cast<uint32_t>(cluster.ctas[0].warps.size());
  tracks_.assign(warps_per_cta_ * cluster.ctas.size(), {});
  released_.clear();
  blocks_.clear();
  for (const Cta &cta : cluster.ctas) {
    BlockTimeline block;
    std::copy_n(cta.id, 3, block.block);
    block.cluster = cluster.number;
    block.rank = cta.rank;
    blocks_.push_back(std::move(block));
  }
}

Recorder::Track &Recorder::track_of(const Warp &warp) {
  return tracks_[warp.cta->rank * warps_per_cta_ + warp.index];
}

void Recorder::record(uint32_t rank, const Span &span) {
  BlockTimeline &block = blocks_[rank];
  if (block.spans.size() < Timeline::max_spans)
    block.spans.push_back(span);
  else
    block.left_out++;
}

void Recorder::close(Track &track, uint32_t rank) {
  if (!std::exchange(track.open, false)) return;
  track.last.end = std::max(track.clock, track.last.begin + 1);
  record(rank, track.last);
}

void Recorder::instruction(const Warp &warp, uint32_t pc) {
  if (!watched_) return;
  Track &track = track_of(warp);
  // All of a polling loop is waiting.
  if (track.polls > 0 && (pc == track.poll_pc || --track.polls > 0)) {
    if (pc == track.poll_pc) track.polls = longest_poll;
    return;
  }
  const Kind &kind = timeline_.kind_of(pc);
  const Role role = kind.role;
  const bool again = track.open && role == Role::wait && track.last.pc == pc;
  if (!again && (!track.open || role == Role::wait || track.last.role != role)) {
    close(track, warp.cta->rank);
    track.open = true;
    track.last = {role, false, warp.index, pc, 0, track.clock, track.clock};
  }
  if (!again) track.clock++, track.last.instructions++;
  if (kind.polls) track.polls = longest_poll, track.poll_pc = pc;
  if (!kind.waits_for_groups) return;
  for (Span &span : track.grouped) {
    span.end = std::max(track.clock, span.begin + 1);
    record(warp.cta->rank, span);
  }
  track.grouped.clear();
}

void Recorder::release(const Warp &warp, uint64_t key) {
  if (!watched_) return;
  uint64_t &latest = released_[key];
  latest = std::max(latest, track_of(warp).clock);
}

void Recorder::acquire(const Warp &warp, uint64_t key) {
  if (!watched_) return;
  Track &track = track_of(warp);
  if (auto found = released_.find(key); found != released_.end()) track.clock = std::max(track.clock, found->second);
  auto found = pending_.find(key);
  if (found == pending_.end()) return;
  for (Pending &one : found->second) {
    one.span.end = std::max(track.clock, one.span.begin + 1);
    record(one.rank, one.span);
  }
  pending_.erase(found);
}

void Recorder::passed(const Warp &warp) {
  if (watched_) track_of(warp).polls = 0;
}

void Recorder::issue(const Warp &warp, uint32_t pc, uint64_t key, Role role) {
  if (!watched_) return;
  Track &track = track_of(warp);
  Span span{role, true, warp.index, pc, 1, track.clock, track.clock};
  auto same = [&](const Span &one) { return one.warp == span.warp && one.pc == pc && one.begin == span.begin; };
  if (key == 0) {
    if (track.grouped.empty() || !same(track.grouped.back())) track.grouped.push_back(span);
    return;
  }
  std::vector<Pending> &all = pending_[key];
  // One instruction may have several accesses.
  if (all.empty() || !same(all.back().span)) all.push_back({warp.cta->rank, span});
}

void Recorder::finish() {
  if (!std::exchange(watched_, false)) return;
  uint64_t end = 0;
  for (const Track &track : tracks_) end = std::max(end, track.clock);
  for (uint32_t i = 0; i < tracks_.size(); i++) {
    close(tracks_[i], i / warps_per_cta_);
    for (Span &span : tracks_[i].grouped) span.end = std::max(end, span.begin + 1), record(i / warps_per_cta_, span);
  }
  for (auto &[key, all] : pending_)
    for (Pending &one : all) one.span.end = std::max(end, one.span.begin + 1), record(one.rank, one.span);
  pending_.clear();
  for (BlockTimeline &block : blocks_) {
    std::sort(block.spans.begin(), block.spans.end(), [](const Span &a, const Span &b) {
      return std::tuple(a.begin, a.warp, a.asynchronous, a.pc) < std::tuple(b.begin, b.warp, b.asynchronous, b.pc);
    });
    timeline_.add(std::move(block));
  }
}

}  // namespace fa::emu::check
