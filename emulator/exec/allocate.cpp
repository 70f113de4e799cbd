// Liveness over basic blocks, then a linear scan. A lane follows one path through the program and has its own columns,
// so an allocation that is right for a scalar program is right here; a write under a guard leaves other lanes' values
// alive.
#include "exec/allocate.h"

#include <algorithm>
#include <array>

namespace fa::emu {
namespace {

using Bits = std::vector<uint64_t>;

struct Block {
  uint32_t first, end;  // instructions of the function
  std::vector<uint32_t> next;
  Bits in, out;
};

struct Interval {
  uint32_t first = UINT32_MAX, last = 0;
  void cover(uint32_t at) {
    first = std::min(first, at);
    last = std::max(last, at);
  }
};

bool ends_block(const Instruction &instruction) {
  return instruction.flow == Flow::branch || instruction.flow == Flow::branch_table || instruction.flow == Flow::ret ||
         instruction.flow == Flow::exit;
}

/// Without a guard: the guard of the others is a constant.
bool always(const Instruction &instruction) {
  return !instruction.guard.unplaced();
}

std::vector<uint32_t> targets(const AllocationInput &input, const Instruction &instruction) {
  std::vector<uint32_t> result;
  if (instruction.flow == Flow::branch) result = {instruction.target};
  if (instruction.flow == Flow::branch_table) result = input.tables[instruction.target];
  for (uint32_t &target : result) target -= input.first_pc;
  return result;
}

std::vector<Block> blocks_of(const AllocationInput &input) {
  uint32_t size = static_cast<uint32_t>(input.code.size());
  std::vector<bool> leader(size + 1, false);
  leader[0] = true;
  for (uint32_t at = 0; at < size; at++) {
    if (!ends_block(input.code[at])) continue;
    leader[at + 1] = true;
    for (uint32_t target : targets(input, input.code[at])) leader[target] = true;
  }
  std::vector<uint32_t> block_of(size + 1, 0);
  std::vector<Block> blocks;
  for (uint32_t at = 0; at < size; at++) {
    if (leader[at]) blocks.push_back({at, at, {}, {}, {}});
    blocks.back().end = at + 1;
    block_of[at] = static_cast<uint32_t>(blocks.size() - 1);
  }
  for (Block &block : blocks) {
    const Instruction &last = input.code[block.end - 1];
    for (uint32_t target : targets(input, last)) block.next.push_back(block_of[target]);
    bool goes_on = !ends_block(last) || !always(last);
    if (goes_on && block.end < size) block.next.push_back(block_of[block.end]);
  }
  return blocks;
}

void solve(const AllocationInput &input, std::vector<Block> &blocks) {
  size_t words = (input.registers.size() + 63) / 64;
  std::vector<Bits> reads(blocks.size(), Bits(words)), kills(blocks.size(), Bits(words));
  for (size_t b = 0; b < blocks.size(); b++) {
    for (uint32_t at = blocks[b].end; at-- > blocks[b].first;) {
      auto uses = input.uses.subspan(input.first_use[at], input.first_use[at + 1] - input.first_use[at]);
      for (const RegisterUse &use : uses) {
        if (!use.write || !always(input.code[at])) continue;
        kills[b][use.reg / 64] |= uint64_t{1} << use.reg % 64;
        reads[b][use.reg / 64] &= ~(uint64_t{1} << use.reg % 64);
      }
      for (const RegisterUse &use : uses)
        if (!use.write) reads[b][use.reg / 64] |= uint64_t{1} << use.reg % 64;
    }
    blocks[b].in.resize(words);
    blocks[b].out.resize(words);
  }
  for (bool changed = true; changed;) {
    changed = false;
    for (size_t b = blocks.size(); b-- > 0;) {
      Block &block = blocks[b];
      for (uint32_t next : block.next)
        for (size_t w = 0; w < words; w++) block.out[w] |= blocks[next].in[w];
      for (size_t w = 0; w < words; w++) {
        uint64_t in = reads[b][w] | (block.out[w] & ~kills[b][w]);
        changed |= in != block.in[w];
        block.in[w] = in;
      }
    }
  }
}

void cover_all(const Bits &live, uint32_t at, std::vector<Interval> &intervals) {
  for (size_t w = 0; w < live.size(); w++)
    for (uint64_t rest = live[w]; rest; rest &= rest - 1)
      intervals[w * 64 + static_cast<size_t>(__builtin_ctzll(rest))].cover(at);
}

/// Keeps the rows of late writes until they have landed, wherever control may go before. Finds the instructions whose
/// results something uses on such a way, and copies of accumulators there.
void cover_late(const AllocationInput &input, const std::vector<Block> &blocks, std::vector<Interval> &intervals,
                Allocation &result) {
  std::vector<bool> landing(input.code.size()), late(input.registers.size());
  for (uint32_t at : input.landings) landing[at] = true;
  auto uses_late = [&](uint32_t first, uint32_t last) {
    for (uint32_t u = input.first_use[first]; u < input.first_use[last + 1]; u++)
      if (late[input.uses[u].reg]) return true;
    return false;
  };
  std::vector<bool> accumulator(input.registers.size()), late_copy(input.code.size());
  auto find_copies = [&](uint32_t from, uint32_t last) {
    for (auto copy = std::lower_bound(input.copies.begin(), input.copies.end(), from);
         copy != input.copies.end() && *copy <= last; ++copy)
      for (uint32_t u = input.first_use[*copy]; u < input.first_use[*copy + 1]; u++)
        if (!input.uses[u].write && accumulator[input.uses[u].reg]) late_copy[*copy] = true;
  };
  for (size_t first = 0, end = 0; first < input.late.size(); first = end) {
    uint32_t at = input.late[first].at;
    while (end < input.late.size() && input.late[end].at == at) end++;
    for (size_t i = first; i < end; i++) (input.late[i].accumulates ? accumulator : late)[input.late[i].reg] = true;
    bool used = false;
    Interval reach;
    std::vector<bool> seen(blocks.size());
    std::vector<uint32_t> starts{at};
    while (!starts.empty()) {
      uint32_t start = starts.back();
      starts.pop_back();
      auto next_block = std::upper_bound(blocks.begin(), blocks.end(), start,
                                         [](uint32_t value, const Block &block) { return value < block.first; });
      const Block &block = *std::prev(next_block);
      uint32_t stop = start;
      while (stop + 1 < block.end && !landing[stop]) stop++;
      reach.cover(start);
      reach.cover(stop);
      uint32_t after = start == at ? start + 1 : start;
      if (!used && after <= stop) used = uses_late(after, stop);
      find_copies(after, stop);
      if (landing[stop]) continue;
      for (uint32_t next : block.next)
        if (!seen[next]) seen[next] = true, starts.push_back(blocks[next].first);
    }
    for (size_t i = first; i < end; i++) {
      intervals[input.late[i].reg].cover(reach.first);
      intervals[input.late[i].reg].cover(reach.last);
      late[input.late[i].reg] = accumulator[input.late[i].reg] = false;
    }
    if (used) result.used_early.push_back(at);
  }
  for (uint32_t copy : input.copies)
    if (late_copy[copy]) result.late_copies.push_back(copy);
}

std::vector<Interval> intervals_of(const AllocationInput &input, Allocation &result) {
  std::vector<Interval> intervals(input.registers.size());
  for (uint32_t at = 0; at < input.code.size(); at++)
    for (uint32_t u = input.first_use[at]; u < input.first_use[at + 1]; u++) intervals[input.uses[u].reg].cover(at);
  std::vector<Block> blocks = blocks_of(input);
  solve(input, blocks);
  for (const Block &block : blocks) {
    cover_all(block.in, block.first, intervals);
    cover_all(block.out, block.end - 1, intervals);
  }
  cover_late(input, blocks, intervals, result);
  return intervals;
}

/// Rows of one size: spare ones are handed out last in, first out, while they are in the cache.
class Pool {
 public:
  explicit Pool(uint32_t bytes) : bytes_(bytes) {}
  uint32_t take(uint32_t &frame_bytes) {
    if (spare_.empty()) {
      uint32_t at = frame_bytes;
      frame_bytes += bytes_;
      return at;
    }
    uint32_t at = spare_.back();
    spare_.pop_back();
    return at;
  }
  void give(uint32_t at) { spare_.push_back(at); }

 private:
  uint32_t bytes_;
  std::vector<uint32_t> spare_;
};

}  // namespace

uint32_t row_bytes(ptx::Type type) {
  return type == ptx::Type::pred ? 4 : std::max(ptx::bytes_of(type), 2u) * lanes;
}

Allocation allocate(const AllocationInput &input) {
  Allocation result;
  result.slots.resize(input.registers.size());
  std::vector<Interval> intervals = intervals_of(input, result);
  std::vector<ptx::Index> order;
  for (ptx::Index reg = 0; reg < intervals.size(); reg++)
    if (intervals[reg].first != UINT32_MAX) order.push_back(reg);
  std::stable_sort(order.begin(), order.end(),
                   [&](ptx::Index a, ptx::Index b) { return intervals[a].first < intervals[b].first; });
  // Wide rows first, so that all are aligned; predicates, 4 bytes each, have a separate region at the end.
  uint32_t predicate_bytes = 0;
  std::array<Pool, 5> pools{Pool(4), Pool(64), Pool(128), Pool(256), Pool(512)};
  auto pool_of = [](ptx::Type type) {
    uint32_t bytes = row_bytes(type);
    return bytes == 4 ? 0 : bytes == 64 ? 1 : bytes == 128 ? 2 : bytes == 256 ? 3 : 4;
  };
  std::vector<std::vector<ptx::Index>> ending(input.code.size() + 1);
  std::vector<uint32_t> offset(input.registers.size());
  uint32_t done = 0;
  for (ptx::Index reg : order) {
    // Intervals that end before this one begins; at the same instruction both have rows, so handlers may write before
    // they read.
    for (; done < intervals[reg].first; done++)
      for (ptx::Index ended : ending[done]) pools[pool_of(input.registers[ended])].give(offset[ended]);
    int pool = pool_of(input.registers[reg]);
    offset[reg] = pools[pool].take(pool == 0 ? predicate_bytes : result.frame_bytes);
    ending[intervals[reg].last].push_back(reg);
  }
  for (ptx::Index reg : order) {
    bool predicate = input.registers[reg] == ptx::Type::pred;
    result.slots[reg] = Slot::at(offset[reg] + (predicate ? result.frame_bytes : 0), Slot::frame);
  }
  result.frame_bytes += (predicate_bytes + 63) / 64 * 64;
  return result;
}

}  // namespace fa::emu
