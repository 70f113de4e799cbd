// Joining and comparing clocks.
#include "check/clocks.h"

#include <algorithm>
#include <bit>

namespace fa::emu::check {
namespace {

void join(KnownOfAll &into, uint32_t agent, const Known &known) {
  if (into.size() <= agent) into.resize(agent + 1);
  into[agent].join(known);
}

}  // namespace

void join(KnownOfAll &into, const KnownOfAll &from) {
  if (into.size() < from.size()) into.resize(from.size());
  for (size_t i = 0; i < from.size(); i++) into[i].join(from[i]);
}

void Known::join(const Known &other) {
  all = std::max(all, other.all);
  some = std::max(some, other.some);
  lanes |= other.lanes;
  // Knowledge about all lanes need not be repeated for some.
  if (some <= all) some = lanes = 0;
}

void Clocks::begin(uint32_t warps) {
  agents_.clear();
  agents_.resize(warps);
  released_.clear();
  completions_.clear();
  arrived_.clear();
  fences_.clear();
  warps_ = warps;
}

Clocks::View Clocks::view(uint32_t agent) const {
  const Agent &self = agents_[agent];
  return {self.known.data(),
          self.fenced.data(),
          static_cast<uint32_t>(self.known.size()),
          static_cast<uint32_t>(self.fenced.size()),
          agent,
          self.now,
          self.met,
          self.lanes != nullptr};
}

bool Clocks::knows(uint32_t agent, uint32_t lane, uint32_t other, uint32_t other_lanes, uint32_t clock) const {
  const Agent &self = agents_[agent];
  if (agent != other) return other < self.known.size() && self.known[other].covers(other_lanes, clock);
  if (clock <= self.met) return true;
  uint32_t rest = other_lanes & ~(1u << lane);
  if (!self.lanes) return rest == 0;
  for (; rest; rest &= rest - 1)
    if ((*self.lanes)[lane][static_cast<uint32_t>(std::countr_zero(rest))] < clock) return false;
  return true;
}

bool Clocks::knows_fenced(uint32_t agent, uint32_t other, uint32_t other_lane, uint32_t clock) const {
  const Agent &self = agents_[agent];
  return other < self.fenced.size() && self.fenced[other].covers(1u << other_lane, clock);
}

bool Clocks::reaches(uint32_t agent, uint32_t other, uint32_t clock) const {
  const KnownOfAll &known = agents_[agent].known;
  return agent == other || (other < known.size() && known[other].reaches(clock));
}

bool Clocks::reaches_tensor(uint32_t agent, uint32_t other, uint32_t clock) const {
  if (agent == other) return true;
  const KnownOfAll &known = agents_[agent].tensor;
  if (other >= known.size()) return false;
  if (other >= warps_) return known[other].reaches(clock);
  const std::vector<uint32_t> &fences = agents_[other].tensor_fences;
  auto first = std::lower_bound(fences.begin(), fences.end(), clock);
  return first != fences.end() && known[other].reaches(*first);
}

bool Clocks::arrivals_reach(uint64_t key, uint32_t other, uint32_t clock) const {
  auto found = arrived_.find(key);
  return found != arrived_.end() && other < found->second.size() && found->second[other].reaches(clock);
}

void Clocks::tensor_fence_before(uint32_t agent) {
  agents_[agent].tensor_fences.push_back(agents_[agent].now++);
}

KnownOfAll Clocks::progress_of(uint32_t agent) {
  Agent &self = agents_[agent];
  KnownOfAll result = self.known;
  join(result, self.reached);
  join(result, agent, {self.now++, 0, 0});
  return result;
}

void Clocks::arrive(uint32_t agent, uint32_t mask, uint32_t live, uint64_t key) {
  Agent &self = agents_[agent];
  KnownOfAll &arrived = arrived_[key];
  join(arrived, self.known);
  join(arrived, self.reached);
  join(arrived, agent, own(self, mask, live));
  self.now++;
}

void Clocks::signals_too(uint64_t key, uint64_t other) {
  auto found = completions_.find(key);
  if (key != other && found != completions_.end())
    join(released_[other].known, found->second, {agents_[found->second].now, 0, 0});
}

void Clocks::signals(uint64_t key, const KnownOfAll &known, const KnownOfAll &reached) {
  Released &released = released_[key];
  join(released.reached, reached);
  for (uint32_t agent = warps_; agent < known.size(); agent++) join(released.known, agent, known[agent]);
}

void Clocks::meet(uint32_t agent, uint32_t mask, uint32_t live) {
  Agent &self = agents_[agent];
  if ((live & ~mask) == 0) {
    self.met = self.now++;
    return;
  }
  if (!self.lanes) self.lanes = std::make_unique<Matrix>();
  std::array<uint32_t, 32> together{};
  for (uint32_t rest = mask; rest; rest &= rest - 1) {
    const auto &row = (*self.lanes)[static_cast<uint32_t>(std::countr_zero(rest))];
    for (size_t other = 0; other < 32; other++) together[other] = std::max(together[other], row[other]);
  }
  for (uint32_t rest = mask; rest; rest &= rest - 1) together[static_cast<uint32_t>(std::countr_zero(rest))] = self.now;
  for (uint32_t rest = mask; rest; rest &= rest - 1)
    (*self.lanes)[static_cast<uint32_t>(std::countr_zero(rest))] = together;
  self.now++;
}

/// The knowledge of a warp's lanes about their own warp.
Known Clocks::own(const Agent &agent, uint32_t mask, uint32_t live) const {
  if ((live & ~mask) == 0) return {agent.now, 0, 0};
  Known known{agent.met, agent.now, mask};
  if (!agent.lanes) return known;
  for (uint32_t rest = mask; rest; rest &= rest - 1) {
    const auto &row = (*agent.lanes)[static_cast<uint32_t>(std::countr_zero(rest))];
    for (uint32_t other = 0; other < 32; other++)
      if (row[other] > agent.met) known.lanes |= 1u << other;
  }
  return known;
}

void Clocks::release(uint32_t agent, uint32_t mask, uint32_t live, uint64_t key) {
  Agent &self = agents_[agent];
  Released &released = released_[key];
  join(released.known, self.known);
  join(released.fenced, self.fenced);
  join(released.reached, self.reached);
  join(released.known, agent, own(self, mask, live));
  self.now++;
}

void Clocks::acquire(uint32_t agent, uint64_t key) {
  auto found = released_.find(key);
  if (found != released_.end()) learn(agents_[agent], found->second);
}

void Clocks::learn(Agent &self, const Released &released) {
  join(self.known, released.known);
  join(self.fenced, released.fenced);
  join(self.reached, released.reached);
}

void Clocks::Released::join(const Released &other) {
  check::join(known, other.known);
  check::join(fenced, other.fenced);
  check::join(reached, other.reached);
}

void Clocks::fence(uint32_t agent, uint32_t mask, uint32_t live, uint32_t block, bool wide) {
  Agent &self = agents_[agent];
  if (block >= fences_.size()) fences_.resize(block + 1);
  Fences &fences = fences_[block];
  learn(self, fences.read[false]);
  if (wide) learn(self, fences.read[true]);
  Released released{self.known, self.fenced, self.reached};
  join(released.known, agent, own(self, mask, live));
  fences.released[false].join(released);
  if (wide) fences.released[true].join(released);
  self.now++;
}

void Clocks::acquire_at_fence(uint32_t block, uint64_t key, bool wide) {
  auto found = released_.find(key);
  if (found == released_.end()) return;
  if (block >= fences_.size()) fences_.resize(block + 1);
  fences_[block].read[wide].join(found->second);
}

void Clocks::release_of_fence(uint32_t block, uint64_t key, bool wide) {
  if (block < fences_.size()) released_[key].join(fences_[block].released[wide]);
}

void Clocks::proxy_fence(uint32_t agent, uint32_t mask, uint32_t live) {
  Agent &self = agents_[agent];
  join(self.fenced, self.known);
  join(self.fenced, agent, own(self, mask, live));
  self.now++;
}

/// The agent of the key's completions.
uint32_t Clocks::completions_of(uint64_t key) {
  auto [found, added] = completions_.try_emplace(key, static_cast<uint32_t>(agents_.size()));
  if (added) agents_.emplace_back();
  return found->second;
}

uint32_t Clocks::complete(uint64_t key) {
  uint32_t number = completions_of(key);
  agents_[number].now++;
  join(released_[key].known, number, {agents_[number].now, 0, 0});
  return number;
}

uint32_t Clocks::complete_at(uint64_t key, uint32_t clock) {
  uint32_t number = completions_of(key);
  agents_[number].now = clock;
  return number;
}

void Clocks::acquire_up_to(uint32_t agent, uint64_t key, uint32_t clock) {
  const uint32_t number = completions_of(key);  // may add an agent, which moves the others
  join(agents_[agent].known, number, {clock, 0, 0});
}

}  // namespace fa::emu::check
