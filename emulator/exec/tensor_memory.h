// Tensor memory (PTX ISA 9.7.16.1): 128 lanes of 512 columns of 32 bits, handed out by columns, which the CTAs of a
// multiprocessor share. No CTA reaches the columns of another: each keeps its cells itself.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "exec/cta.h"

namespace fa::emu {

struct TensorMemory : State {
  static constexpr uint32_t lane_count = 128, column_count = 512;
  static constexpr uint32_t pitch = column_count + 16;  // lanes apart by no power of two: kind to the cache

  struct Allocation {
    uint32_t first, count;
    const Warp *warp;
    const Instruction *instruction;
  };
  std::vector<Allocation> allocations;
  bool relinquished = false;  // this CTA may allocate no more
  int group = 0;              // of CTAs, 1 or 2, that the kernel's instructions name; 0: not known yet
  // alloc, dealloc and relinquish_alloc_permit with cta_group::2: how many have begun here, and which warp is at one.
  uint32_t begun = 0;
  const Warp *beginner = nullptr;
  struct Promise {
    uint32_t first, count;
  };
  std::optional<Promise> promised;  // columns that the other CTA of a pair has got for both

  TensorMemory() : cells_(lane_count * pitch, 0xffffffff) {}

  uint32_t *at(uint32_t lane, uint32_t column) { return cells_.data() + lane * pitch + column; }
  float *floats(uint32_t lane, uint32_t column) { return reinterpret_cast<float *>(at(lane, column)); }

  bool allocated(uint32_t first, uint32_t count) const;

  void at_exit(Cta &cta) override;

 private:
  std::vector<uint32_t> cells_;
};

/// An address: the lane above, the column in the lower 16 bits.
struct TensorAddress {
  uint32_t lane, column;
  explicit TensorAddress(uint32_t bits) : lane(bits >> 16), column(bits & 0xffff) {}
};

/// The tensor memory of a CTA; a fault if its kernel uses instructions of both cta_group::1 and ::2.
TensorMemory &tensor_memory(Warp &warp, const Instruction &instruction, Cta &cta, int group);
/// A fault unless these columns are allocated.
void require_columns(const Warp &warp, const Instruction &instruction, const TensorMemory &memory, uint32_t first,
                     uint32_t count, const char *what);
/// The other CTA of a pair: ranks 2 i and 2 i + 1. A fault in a cluster of an odd size, or where it has ended.
Cta &peer_of(Warp &warp, const Instruction &instruction);

}  // namespace fa::emu
