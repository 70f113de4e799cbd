// Who has seen a phase end, held against the knowledge when the next one does.
#include "check/mbarriers.h"

namespace fa::emu::check {

void Mbarriers::passed(const Warp &warp, uint32_t agent, uint32_t pc, uint64_t key) {
  std::vector<Passed> &all = passed_[key];
  for (const Passed &one : all)
    if (one.agent == agent) return;
  all.push_back({agent, clocks_.now(agent), pc, warp.index, warp.cta->rank});
}

void Mbarriers::ends_phase(const Warp &warp, uint32_t pc, uint64_t key) {
  auto found = passed_.find(key);
  if (found == passed_.end()) return;
  for (const Passed &one : found->second) {
    if (clocks_.arrivals_reach(key, one.agent, one.clock)) continue;
    reporter_.report(Violation::lost_phase, warp, pc, one.pc, -1, [&] {
      std::string who = "warp " + std::to_string(one.warp);
      if (warp.cta->cluster->ctas.size() > 1) who += " of block " + std::to_string(one.rank);
      return "a phase of an mbarrier ends, and " + who + ", which waits for the one before it at " +
             reporter_.line(one.pc) + ", may not have seen that: it would wait for ever";
    });
  }
  found->second.clear();
}

void Mbarriers::fence(uint32_t agent) {
  for (auto &[key, made] : made_)
    if (made.agent == agent) made.fenced = true;
}

void Mbarriers::fence_of_proxy(uint32_t agent) {
  for (auto &[key, made] : made_)
    if (made.agent == agent || clocks_.reaches(agent, made.agent, made.clock)) made.fenced = true;
}

void Mbarriers::used_by_proxy(const Warp &warp, uint32_t pc, uint64_t key) {
  auto found = made_.find(key);
  if (found == made_.end() || found->second.fenced) return;
  found->second.fenced = true;  // one report
  reporter_.report(Violation::mbarrier_fence, warp, pc, found->second.pc, -1, [&] {
    return "the async proxy is to signal the mbarrier that " + reporter_.line(found->second.pc) +
           " initialises, with neither fence.mbarrier_init nor fence.proxy.async between";
  });
}

}  // namespace fa::emu::check
