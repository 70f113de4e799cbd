// The state of every byte of a CTA's shared memory: who wrote it last, who has read it since, operations in
// flight. Bytes that are always accessed together share a cell: 16 of them, else 4, else 1. So do 16 bytes that lanes
// in a row access together, a share each: which lane it was follows from the place.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <deque>
#include <vector>

#include "check/readers.h"

namespace fa::emu::check {

/// Small, as there are many: half a line of the cache with Shadow's additions.
struct Cell {
  uint32_t write_clock = 0;  // 0: none
  uint32_t write_pc = 0;
  uint32_t write_agent : 20 = 0;
  uint32_t write_lane : 5 = 0;  // where lanes have shares: of the first one
  uint32_t write_share : 3 = whole_cell;
  uint32_t initialised : 1 = false;
  uint32_t generic : 1 = false;     // written through the generic proxy
  uint32_t atomic : 1 = false;      // written by an atomic or strong operation
  uint32_t shared_out : 1 = false;  // some of its epochs have shares
  uint32_t readers = 0;             // since: number of a set of them in Shadow; 0: none
  uint32_t pending_pc = 0;
  uint16_t pending_reads = 0;
  uint16_t pending_writes : 14 = 0;  // more than one only of reductions
  uint16_t mbarrier : 1 = false;     // there is one, not invalidated
  uint16_t pending_reduces : 1 = 0;  // they are reductions
};

class Shadow {
 public:
  /// agents: how many warps there are that may access it.
  void begin(uint32_t bytes, uint32_t agents) {
    chunks_.assign((bytes + 15) / 16, Node{});
    nodes_.clear();
    nodes_.emplace_back();
    free_nodes_.clear();
    sets_.begin(agents);
  }

  uint64_t bytes() const { return chunks_.size() * 16; }

  /// Calls f(cell, first byte) for every cell of the range. A range that is overwritten whole has one cell afterwards.
  template <class F>
  void visit(uint32_t offset, uint32_t bytes, bool overwrites, F &&f) {
    for (uint32_t at = offset, end = offset + bytes; at < end;) {
      uint32_t chunk = at / 16, stop = std::min(end, chunk * 16 + 16);
      visit(chunks_[chunk], 16, chunk * 16, at, stop, overwrites, f);
      at = stop;
    }
  }

  /// Calls quick(cell) for each cell of 16 or of 4 whole bytes; where there is no such cell or quick returns false,
  /// slow(first byte, bytes).
  template <class Quick, class Slow>
  void visit_quickly(uint32_t offset, uint32_t bytes, Quick &&quick, Slow &&slow) {
    for (uint32_t at = offset, end = offset + bytes; at < end;) {
      uint32_t stop = std::min(end, at / 16 * 16 + 16);
      Cell *cell = cell_of(at, stop - at);
      if (!cell || !quick(*cell)) slow(at, stop - at);
      at = stop;
    }
  }

  /// Calls f(cell, first byte) for every cell there is.
  template <class F>
  void visit_all(F &&f) {
    for (uint32_t chunk = 0; chunk < chunks_.size(); chunk++) visit_leaves(chunks_[chunk], 16, chunk * 16, f);
  }

  /// Lanes have written their shares of these 16 bytes in one instruction, from this one on: from here on they have a
  /// cell, unless something is in flight.
  void join_shares(uint32_t offset, uint32_t lane, uint32_t share) {
    Node &node = chunks_[offset / 16];
    if (node.children == 0) return;
    for (const Node &child : nodes_[node.children])
      if (child.children != 0 || child.cell.pending_reads || child.cell.pending_writes) return;
    join(node);
    node.cell.write_lane = lane & 31;
    node.cell.write_share = share & 7;
    node.cell.shared_out = true;
  }

  ReaderSets &readers() { return sets_; }

  /// Prefetches the cells of an access to these 16 bytes; then those of a read of the agent.
  void prefetch(uint32_t offset) const {
    if (offset / 16 < chunks_.size()) __builtin_prefetch(&chunks_[offset / 16], 1);
  }
  void prefetch_readers(uint32_t offset, uint32_t agent) const {
    if (offset / 16 >= chunks_.size()) return;
    const Node &node = chunks_[offset / 16];
    if (node.children == 0 && node.cell.readers != 0) sets_.prefetch(node.cell.readers, agent);
  }
  /// Nobody has read it.
  void forget_reads(Cell &cell) {
    if (cell.readers == 0) return;
    sets_.free(cell.readers);
    cell.readers = 0;
  }

 private:
  struct alignas(32) Node {
    Cell cell;
    uint32_t children = 0;  // number in nodes_; 0: the cell is for all bytes
  };
  static_assert(sizeof(Node) == 32);

  template <class F>
  void visit(Node &node, uint32_t width, uint32_t begin, uint32_t from, uint32_t to, bool overwrites, F &f) {
    bool whole = from == begin && to == begin + width;
    if (node.children == 0 && whole && !node.cell.shared_out) return f(node.cell, begin);
    if (node.children == 0) split(node, width / 4);
    uint32_t number = node.children, part = width / 4;
    for (uint32_t i = 0; i < 4; i++) {
      uint32_t low = std::max(from, begin + i * part), high = std::min(to, begin + i * part + part);
      if (low < high) visit(nodes_[number][i], part, begin + i * part, low, high, overwrites, f);
    }
    if (whole && overwrites) join(node);
  }

  template <class F>
  void visit_leaves(Node &node, uint32_t width, uint32_t begin, F &f) {
    if (node.children == 0) return f(node.cell, begin);
    for (uint32_t i = 0; i < 4; i++) visit_leaves(nodes_[node.children][i], width / 4, begin + i * (width / 4), f);
  }

  /// The cell of exactly these bytes of a chunk, or null.
  Cell *cell_of(uint32_t at, uint32_t bytes) {
    Node &node = chunks_[at / 16];
    if (bytes == 16) return node.children ? nullptr : &node.cell;
    if (bytes != 4 || at % 4 != 0 || node.children == 0) return nullptr;
    Node &child = nodes_[node.children][at % 16 / 4];
    return child.children || child.cell.shared_out ? nullptr : &child.cell;
  }

  /// part: bytes of a child.
  void split(Node &node, uint32_t part) {
    if (free_nodes_.empty()) {
      node.children = static_cast<uint32_t>(nodes_.size());
      nodes_.emplace_back();
    } else {
      node.children = free_nodes_.back();
      free_nodes_.pop_back();
    }
    for (uint32_t i = 4; i-- > 0;) {
      Node &child = nodes_[node.children][i];
      child = {copy(node.cell, i == 0), 0};
      if (child.cell.shared_out) narrow(child.cell, i * part, part);
    }
  }

  /// A copy of a cell becomes that of some of its bytes.
  void narrow(Cell &cell, uint32_t offset, uint32_t bytes) {
    bool shared_out = false;
    auto narrow_lanes = [&](uint32_t lanes, uint32_t share) {
      uint32_t first = static_cast<uint32_t>(std::countr_zero(lanes)) + (offset >> share);
      uint32_t count = std::max(bytes >> share, 1u);
      return ((1u << count) - 1) << first;
    };
    auto narrow_share = [&](uint32_t share) {
      bool alone = share == whole_cell || bytes <= 1u << share;
      shared_out |= !alone;
      return alone ? whole_cell : share;
    };
    auto narrow_reads = [&](ReadEpoch &epoch) {
      if (epoch.share == whole_cell) return;
      epoch.lanes = narrow_lanes(epoch.lanes, epoch.share);
      epoch.share = narrow_share(epoch.share) & 15;
    };
    if (cell.write_share != whole_cell) {
      cell.write_lane = (cell.write_lane + (offset >> cell.write_share)) & 31;
      cell.write_share = narrow_share(cell.write_share) & 7;
    }
    if (cell.readers) sets_.change(cell.readers, narrow_reads);
    cell.shared_out = shared_out;
  }

  Cell copy(const Cell &cell, bool keeps_readers) {
    Cell result = cell;
    if (cell.readers != 0 && !keeps_readers) result.readers = sets_.copy(cell.readers);
    return result;
  }

  void join(Node &node) {
    uint32_t number = node.children;
    for (Node &child : nodes_[number]) {
      if (child.children) join(child);
      forget_reads(child.cell);
    }
    node.cell = nodes_[number][0].cell;
    node.children = 0;
    free_nodes_.push_back(number);
  }

  std::vector<Node> chunks_;
  std::deque<std::array<Node, 4>> nodes_;  // which stay where they are
  std::vector<uint32_t> free_nodes_;
  ReaderSets sets_;
};

}  // namespace fa::emu::check
