// Columns: who has them.
#include "exec/tensor_memory.h"

#include "exec/fault.h"
#include "exec/launch.h"

namespace fa::emu {

bool TensorMemory::allocated(uint32_t first, uint32_t count) const {
  uint32_t end = first + count;
  while (first < end) {
    uint32_t before = first;
    for (const Allocation &one : allocations)
      if (one.first <= first && first < one.first + one.count) first = one.first + one.count;
    if (first == before) return false;
  }
  return true;
}

void TensorMemory::at_exit(Cta &cta) {
  if (!allocations.empty()) cta.launch->multiprocessors().abandon(cta);
  if (!cta.launch->options.check) return;
  for (const Allocation &one : allocations)
    cta.launch->findings.add(Violation::tensor_not_freed, *one.warp, *one.instruction, -1,
                             "tensor memory is not given back: columns " + std::to_string(one.first) + " to " +
                                 std::to_string(one.first + one.count - 1) +
                                 " are still allocated when the block ends, and no tcgen05.dealloc has them");
}

TensorMemory &tensor_memory(Warp &warp, const Instruction &instruction, Cta &cta, int group) {
  auto &memory = cta.state<TensorMemory>();
  if (group != 0 && memory.group != 0 && memory.group != group)
    fault(warp, instruction, FaultKind::illegal_instruction, -1,
          "cta_group::" + std::to_string(group) + " in a kernel that has used cta_group::" +
              std::to_string(memory.group) + ": all tcgen05 instructions of a kernel must name the same");
  if (group != 0) memory.group = group;
  return memory;
}

void require_columns(const Warp &warp, const Instruction &instruction, const TensorMemory &memory, uint32_t first,
                     uint32_t count, const char *what) {
  if (memory.allocated(first, count)) return;
  std::string have;
  for (const auto &one : memory.allocations)
    have += (have.empty() ? "" : ", ") + std::to_string(one.first) + " to " + std::to_string(one.first + one.count - 1);
  fault(warp, instruction, FaultKind::illegal_address, -1,
        std::string(what) + " has columns " + std::to_string(first) + " to " + std::to_string(first + count - 1) +
            " of tensor memory; allocated are " + (have.empty() ? "none" : have));
}

Cta &peer_of(Warp &warp, const Instruction &instruction) {
  auto &ctas = warp.cta->cluster->ctas;
  if (ctas.size() % 2 != 0)
    fault(warp, instruction, FaultKind::illegal_instruction, -1,
          "cta_group::2 needs a cluster of an even number of blocks, got " + std::to_string(ctas.size()));
  Cta &peer = ctas[warp.cta->rank ^ 1];
  if (peer.warps_alive == 0)
    fault(warp, instruction, FaultKind::illegal_instruction, -1,
          "cta_group::2, and the other block of the pair, " + std::to_string(peer.rank) + ", has ended");
  return peer;
}

}  // namespace fa::emu
