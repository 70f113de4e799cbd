// What is remembered of every byte of a CTA's shared memory: who wrote it last, who has read it since, what is in
// flight. Bytes that are always accessed together share a cell: 16 of them, else 4, else 1.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <deque>
#include <vector>

namespace fa::emu::check {

/// Reads of one warp at one clock.
struct ReadEpoch {
  uint32_t clock = 0;
  uint32_t lanes = 0;
  uint32_t pc = 0;
  uint32_t agent = 0;
};

struct Cell {
  uint32_t write_clock = 0;  // 0: none
  uint32_t write_pc = 0;
  uint32_t write_agent = 0;
  uint8_t write_lane = 0;
  bool initialised = false;
  bool generic = false;  // written through the generic proxy
  bool atomic = false;   // written by an atomic or strong operation
  ReadEpoch read;        // the only reader since, where there are no more
  uint32_t readers = 0;  // else number of a set of them in Shadow
  uint32_t pending_pc = 0;
  uint16_t pending_reads = 0;
  uint16_t pending_writes : 15 = 0;  // more than one only of reductions
  uint16_t pending_reduces : 1 = 0;  // they are reductions
};

class Shadow {
 public:
  void begin(uint32_t bytes) {
    chunks_.assign((bytes + 15) / 16, Node{});
    nodes_.clear();
    nodes_.emplace_back();
    free_nodes_.clear();
    for (auto &set : sets_) set.clear();
    free_sets_.clear();
    for (uint32_t s = static_cast<uint32_t>(sets_.size()); s-- > 1;) free_sets_.push_back(s);
    if (sets_.empty()) sets_.emplace_back();
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

  std::vector<ReadEpoch> &readers(uint32_t set) { return sets_[set]; }
  uint32_t new_readers() {
    if (free_sets_.empty()) {
      sets_.emplace_back();
      return static_cast<uint32_t>(sets_.size() - 1);
    }
    uint32_t set = free_sets_.back();
    free_sets_.pop_back();
    return set;
  }
  /// Nobody has read it.
  void forget_reads(Cell &cell) {
    cell.read = {};
    if (cell.readers == 0) return;
    sets_[cell.readers].clear();
    free_sets_.push_back(cell.readers);
    cell.readers = 0;
  }

 private:
  struct Node {
    Cell cell;
    uint32_t children = 0;  // number in nodes_; 0: the cell stands for all bytes
  };

  template <class F>
  void visit(Node &node, uint32_t width, uint32_t begin, uint32_t from, uint32_t to, bool overwrites, F &f) {
    bool whole = from == begin && to == begin + width;
    if (node.children == 0 && whole) return f(node.cell, begin);
    if (node.children == 0) split(node);
    uint32_t number = node.children, part = width / 4;
    for (uint32_t i = 0; i < 4; i++) {
      uint32_t low = std::max(from, begin + i * part), high = std::min(to, begin + i * part + part);
      if (low < high) visit(nodes_[number][i], part, begin + i * part, low, high, overwrites, f);
    }
    if (whole && overwrites) join(node);
  }

  void split(Node &node) {
    if (free_nodes_.empty()) {
      node.children = static_cast<uint32_t>(nodes_.size());
      nodes_.emplace_back();
    } else {
      node.children = free_nodes_.back();
      free_nodes_.pop_back();
    }
    for (uint32_t i = 0; i < 4; i++) nodes_[node.children][i] = {copy(node.cell, i == 0), 0};
  }

  Cell copy(const Cell &cell, bool keeps_readers) {
    Cell result = cell;
    if (cell.readers == 0 || keeps_readers) return result;
    result.readers = new_readers();
    sets_[result.readers] = sets_[cell.readers];
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
  std::vector<std::vector<ReadEpoch>> sets_;
  std::vector<uint32_t> free_sets_;
};

}  // namespace fa::emu::check
