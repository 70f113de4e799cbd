// tcgen05.commit and fence (PTX ISA 9.7.16.12, 9.7.16.11). A fence orders accesses that the emulator never reorders.
#include "exec/access.h"
#include "exec/dispatch.h"
#include "exec/fault.h"
#include "exec/launch.h"
#include "exec/tensor_memory.h"
#include "exec/tensor_pipe.h"
#include "memory/windows.h"

namespace fa::emu {
namespace {

using ptx::Type;

/// a, imm: the mbarrier. b: mask of CTAs, with .multicast::cluster. detail: the group.
void commit_lanes(Warp &warp, const Instruction &instruction, uint32_t mask) {
  tensor_memory(warp, instruction, *warp.cta, instruction.detail);
  Resolved where;
  resolve(warp, instruction, mask, 8, 8, where);
  if (where.space != ptx::Space::shared)
    fault(warp, instruction, FaultKind::illegal_address, -1, "tcgen05.commit on an mbarrier outside of shared memory");
  const uint16_t *targets = instruction.b.exists() ? warp.row<uint16_t>(instruction.b) : nullptr;
  size_t cluster_size = warp.cta->cluster->ctas.size();
  for (uint32_t lane = 0; lane < lanes; lane++) {
    if (!(mask >> lane & 1)) continue;
    uint32_t address = static_cast<uint32_t>(where.address[lane]);
    std::vector<uint32_t> mbarriers;
    if (!targets) mbarriers.push_back(address);
    for (uint32_t rank = 0; targets && rank < 16; rank++) {
      if (!(targets[lane] >> rank & 1)) continue;
      if (rank >= cluster_size)
        fault(warp, instruction, FaultKind::illegal_instruction, static_cast<int>(lane),
              "the mask names block " + std::to_string(rank) + " of a cluster of " + std::to_string(cluster_size));
      mbarriers.push_back(rank << memory::rank_shift | (address & ((1u << memory::rank_shift) - 1)));
    }
    commit(warp, instruction, lane, std::move(mbarriers));
  }
}

void fence(Warp &, const Instruction &, uint32_t) {}

bool decode(Decoder &d) {
  if (d.has("fence::before_thread_sync") || d.has("fence::after_thread_sync")) return d.run(fence);
  if (!d.has("commit")) return false;
  if (!d.has("mbarrier::arrive::one")) d.fail("expected .mbarrier::arrive::one");
  bool multicast = d.has("multicast::cluster");
  d.expect_operands(multicast ? 2 : 1, multicast ? 2 : 1);
  d.out().detail = d.has("cta_group::2") ? 2 : 1;
  d.address(0);
  if (multicast) d.out().b = d.source(1, Type::b16);
  return d.run(commit_lanes);
}

const Registration registration{{"tcgen05", decode}};

}  // namespace
}  // namespace fa::emu
