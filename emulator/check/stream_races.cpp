// Comparing footprints, cell by cell.
#include "check/stream_races.h"

#include <cstdio>
#include <tuple>

#include "exec/launch.h"

namespace fa::emu::check {
namespace {

constexpr size_t max_pages_waiting = 4096;  // of footprints that are kept as they are
constexpr size_t max_findings = 16;         // of an operation

bool meet(const std::vector<uint64_t> &a, const std::vector<uint64_t> &b) {
  for (auto x = a.begin(), y = b.begin(); x != a.end() && y != b.end();) {
    if (*x == *y) return true;
    *x < *y ? ++x : ++y;
  }
  return false;
}

}  // namespace

/// An operation that has ended, against the others.
struct StreamRaces::Comparison {
  enum Verdict : uint8_t { unknown, ordered, unordered };
  const Known &mine;
  const Launch *launch;
  std::vector<uint8_t> verdicts[2];  // by number, [1] of accesses before griddepcontrol.wait
  std::map<std::tuple<uint32_t, uint32_t, uint32_t, bool>, size_t> found;
  std::vector<Finding> findings;
};

void StreamRaces::Page::refine() {
  const uint32_t parts = granule == 16 ? 4 : 2;
  std::vector<Cell> finer(cells.size() * parts);
  for (size_t i = 0; i < finer.size(); i++) finer[i] = cells[i / parts];
  cells = std::move(finer);
  granule /= parts;
}

void StreamRaces::forget() {
  std::lock_guard lock(mutex_);
  operations_.clear();
  pages_.clear();
  ended_.clear();
  merged_ = pages_waiting_ = 0;
}

std::vector<Finding> StreamRaces::ends(StreamOperation operation, Footprint footprint, const Launch *launch) {
  std::lock_guard lock(mutex_);
  bool behind_all = true;
  for (uint32_t timeline = 0; timeline < ended_.size(); timeline++)
    behind_all &= covers(operation.known, timeline, ended_[timeline]);
  if (ended_.size() <= operation.timeline) ended_.resize(operation.timeline + 1);
  ended_[operation.timeline] = std::max(ended_[operation.timeline], operation.number);
  pages_waiting_ += footprint.pages.size() + footprint.ranges.size();
  if (!behind_all) merge_all();
  operations_.push_back({std::move(operation), std::move(footprint)});
  if (behind_all) {
    if (pages_waiting_ > max_pages_waiting) merge_all();
    return {};
  }
  const std::vector<uint8_t> none(operations_.size());
  Comparison comparison{operations_.back(), launch, {none, none}, {}, {}};
  merge(static_cast<uint32_t>(merged_++), &comparison);
  pages_waiting_ = 0;
  return std::move(comparison.findings);
}

void StreamRaces::merge_all() {
  while (merged_ < operations_.size()) merge(static_cast<uint32_t>(merged_++), nullptr);
  pages_waiting_ = 0;
}

void StreamRaces::merge(uint32_t number, Comparison *comparison) {
  constexpr uint64_t page_bytes = GlobalShadow::page_bytes;
  Footprint &footprint = operations_[number].footprint;
  const auto mark_of = [&](const GlobalEpoch &epoch) {
    Mark mark;
    mark.operation = number + 1;
    mark.pc = epoch.pc & 0x7fffffff;
    mark.strong = epoch.scope == static_cast<uint8_t>(Scope::gpu);
    return mark;
  };
  for (const auto &[page_number, page] : footprint.pages) {
    Page &merged = pages_[page_number];
    for (uint32_t i = 0; i < page->cells.size(); i++) {
      const GlobalCell &cell = page->cells[i];
      const bool first_read = cell.reads[0].cluster != 0 && (cell.reads[0].scope == 0 || cell.reads[1].cluster == 0);
      const GlobalEpoch &epoch = cell.write.cluster ? cell.write : cell.reads[first_read ? 0 : 1];
      if (epoch.cluster == 0) continue;
      const Mark mark = mark_of(epoch);
      merged.visit(i * page->granule, page->granule, [&](Cell &into, uint32_t at) {
        touch(into, page_number * page_bytes + at, mark, cell.write.cluster != 0, &epoch, comparison);
      });
    }
  }
  for (const Footprint::Range &range : footprint.ranges)
    for (uint64_t address = range.begin; address < range.end;) {
      const uint64_t end = std::min(range.end, (address / page_bytes + 1) * page_bytes);
      Mark mark;
      mark.operation = number + 1;
      mark.strong = range.strong;
      // Whole cells where it has them, so that pages stay coarse.
      const uint64_t whole = std::min(end, (address + 15) / 16 * 16), tail = std::max(whole, end / 16 * 16);
      for (const auto &[from, to] : {std::pair(address, whole), std::pair(whole, tail), std::pair(tail, end)})
        if (from < to)
          pages_[address / page_bytes].visit(
              static_cast<uint32_t>(from % page_bytes), static_cast<uint32_t>(to - from), [&](Cell &into, uint32_t at) {
                touch(into, address / page_bytes * page_bytes + at, mark, range.writes, nullptr, comparison);
              });
      address = end;
    }
  footprint.pages.clear();
  footprint.ranges.clear();
}

void StreamRaces::touch(Cell &cell, uint64_t address, const Mark &mark, bool writes, const GlobalEpoch *epoch,
                        Comparison *comparison) {
  const auto compare = [&](const Mark &other, bool other_writes) {
    if (!comparison || other.operation == 0 || other.operation == mark.operation) return true;
    if ((mark.strong && other.strong) || in_order(other.operation - 1, *comparison, epoch && epoch->early)) return true;
    if (writes || other_writes) conflict(*comparison, address, mark, writes, epoch, other, other_writes);
    return false;
  };
  compare(cell.write, true);
  if (writes) {
    for (const Mark &read : cell.reads) compare(read, false);
    cell = {mark, {}};
    return;
  }
  for (Mark &read : cell.reads)
    if (read.operation == 0 || read.operation == mark.operation || compare(read, false)) {
      read = mark;
      return;
    }
}

/// Whether another one that has ended comes before, or cannot be said not to.
bool StreamRaces::in_order(uint32_t number, Comparison &comparison, bool early) const {
  uint8_t &verdict = comparison.verdicts[early][number];
  if (verdict != Comparison::unknown) return verdict == Comparison::ordered;
  const Known &other = operations_[number], &mine = comparison.mine;
  const StreamOperation &a = other.operation, &b = mine.operation;
  const auto behind = [](const StreamOperation &one, const StreamOperation &before, bool waited) {
    const StreamClock &known = waited && !one.waited.empty() ? one.waited : one.known;
    return covers(known, before.timeline, before.number);
  };
  const bool ordered = behind(b, a, !early) || behind(a, b, true) ||
                       // The host may have read the memory that one wrote before it handed the other one over.
                       (a.tells_host && b.handed_over > a.began) || (b.tells_host && a.handed_over > b.began) ||
                       // One may have waited for the other one's flag.
                       meet(other.footprint.released, mine.footprint.acquired) ||
                       meet(mine.footprint.released, other.footprint.acquired);
  verdict = ordered ? Comparison::ordered : Comparison::unordered;
  return ordered;
}

void StreamRaces::conflict(Comparison &comparison, uint64_t address, const Mark &mine, bool writes,
                           const GlobalEpoch *epoch, const Mark &other, bool other_writes) const {
  const auto [at, added] =
      comparison.found.try_emplace({mine.pc, other.operation, other.pc, writes}, comparison.findings.size());
  if (added && comparison.findings.size() == max_findings) at->second = SIZE_MAX;
  if (at->second == SIZE_MAX) return;
  if (added) comparison.findings.emplace_back();
  Finding &finding = comparison.findings[at->second];
  const Launch *launch = comparison.launch;
  uint32_t block[3] = {}, warp = 0;
  if (launch && epoch) {
    const LaunchShape &shape = launch->shape;
    const uint32_t warps = (shape.block[0] * shape.block[1] * shape.block[2] + lanes - 1) / lanes;
    const uint32_t rank = epoch->agent / warps;
    warp = epoch->agent % warps;
    shape.first_block(epoch->cluster - 1, block);
    block[0] += rank % shape.cluster[0];
    block[1] += rank / shape.cluster[0] % shape.cluster[1];
    block[2] += rank / shape.cluster[0] / shape.cluster[1];
    finding.warps |= 1u << warp;
    if (finding.blocks.size() < Finding::max_blocks)
      finding.blocks.insert(block[0] + uint64_t{shape.grid[0]} * (block[1] + uint64_t{shape.grid[1]} * block[2]));
  }
  if (finding.count++ > 0) return;
  const StreamOperation &self = comparison.mine.operation, &before = operations_[other.operation - 1].operation;
  finding.what = Violation::stream_race;
  Fault &first = finding.first;
  first.kind = FaultKind::check;
  char place[32];
  std::snprintf(place, sizeof place, "0x%llx", static_cast<unsigned long long>(address));
  const auto does = [](const StreamOperation &one, bool stores) {
    return std::string(one.does ? one.does : stores ? " writes" : " reads");
  };
  first.message = self.name + does(self, writes) + " global memory at " + place + ", which " + before.name +
                  does(before, other_writes);
  if (before.program) {
    const ptx::Instruction &source = before.program->source(other.pc);
    first.message += " at " + before.program->place(other.pc);
    finding.other = before.program->place(other.pc) + " of " + readable_name(before.program->name);
    finding.other_source = before.program->module->name_of(source.source);
    finding.other_ptx = before.program->module->text_of_line(source.line);
  } else {
    finding.other = "an operation of the driver";
  }
  first.message += epoch && epoch->early && !self.waited.empty()
                       ? ", before griddepcontrol.wait"
                       : ", and no event, wait or edge of a graph orders them";
  if (!launch) {
    first.source = self.name;
    finding.lines.insert(0);
    return;
  }
  const ptx::Instruction &source = launch->program->source(mine.pc);
  finding.lines.insert(source.line);
  first.kernel = launch->program->name;
  first.ptx_line = source.line;
  first.ptx_text = launch->program->module->text_of_line(source.line);
  first.source = launch->program->module->name_of(source.source);
  for (int d = 0; d < 3; d++) first.cta[d] = block[d];
  first.warp = warp;
  first.lane = epoch ? epoch->lane : -1;
}

}  // namespace fa::emu::check
