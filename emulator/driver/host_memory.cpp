// The mappings are Linux's own list, /proc/self/maps, read again for each launch. Memory in them that is known already
// (pinned, registered, managed) is cut out, so that ranges do not overlap; devices' own memory does not count.
#include "driver/host_memory.h"

#include <algorithm>
#include <cstdio>
#include <memory>

#include "memory/windows.h"

namespace fa::emu::driver {
namespace {

using memory::Range;
using memory::RangeKind;
using memory::RangeTable;

bool belongs_to_a_device(uint64_t address) {
  return std::any_of(process().devices.begin(), process().devices.end(),
                     [=](const auto &device) { return device->memory->holds(address); });
}

/// Mappings of which the next one begins where this one ends are one range for kernels, as they are for the host:
/// Linux splits one where its parts differ in permissions or in advice about huge pages.
void add_mapping(Range mapping, std::vector<Range> &mappings) {
  if (!mappings.empty() && mappings.back().end == mapping.begin)
    mappings.back().end = mapping.end;
  else
    mappings.push_back(mapping);
}

/// The parts of a mapping that no known range has, one after another.
void add_rest(Range mapping, const std::vector<Range> &known, std::vector<Range> &out) {
  auto at = std::lower_bound(known.begin(), known.end(), mapping.begin,
                             [](const Range &range, uint64_t begin) { return range.end <= begin; });
  for (; at != known.end() && at->begin < mapping.end; ++at) {
    if (at->begin > mapping.begin) out.push_back({mapping.begin, at->begin, RangeKind::host});
    mapping.begin = std::max(mapping.begin, at->end);
  }
  if (mapping.begin < mapping.end) out.push_back(mapping);
}

}  // namespace

std::shared_ptr<const RangeTable> reachable(const Device &device) {
  std::shared_ptr<const RangeTable> known = device.memory->ranges();
  const std::unique_ptr<FILE, int (*)(FILE *)> maps(
      device.limits.pageable ? std::fopen("/proc/self/maps", "re") : nullptr, std::fclose);
  if (!maps) return known;
  auto all = std::make_shared<RangeTable>(*known);
  std::vector<Range> mappings;
  char line[512];
  while (std::fgets(line, sizeof line, maps.get())) {
    unsigned long begin = 0, end = 0;
    char read = '-';
    if (std::sscanf(line, "%lx-%lx %c", &begin, &end, &read) != 3 || read != 'r') continue;
    if (end >> memory::window_shift || belongs_to_a_device(begin)) continue;
    add_mapping({begin, end, RangeKind::host}, mappings);
  }
  for (const Range &mapping : mappings) add_rest(mapping, known->ranges, all->ranges);
  std::sort(all->ranges.begin(), all->ranges.end(), [](const Range &a, const Range &b) { return a.begin < b.begin; });
  return all;
}

}  // namespace fa::emu::driver
