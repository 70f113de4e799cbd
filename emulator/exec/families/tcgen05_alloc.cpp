// tcgen05.alloc, dealloc, relinquish_alloc_permit (PTX ISA 9.7.16.7). With cta_group::2 a warp of each CTA of a pair
// runs them: the first waits for the second, as it may by 9.7.16.5. The second then gets the same columns for both. The
// blocks of a multiprocessor share its columns.
#include <bit>
#include <cstring>
#include <optional>
#include <utility>

#include "exec/access.h"
#include "exec/dispatch.h"
#include "exec/fault.h"
#include "exec/launch.h"
#include "exec/tensor_memory.h"

namespace fa::emu {
namespace {

using ptx::Type;

void check_count(Warp &warp, const Instruction &instruction, uint32_t count) {
  if (count < 32 || count > TensorMemory::column_count || !std::has_single_bit(count))
    fault(warp, instruction, FaultKind::illegal_instruction, -1,
          "the number of columns is " + std::to_string(count) + ", expected 32, 64, 128, 256 or 512");
}

/// False where the other CTA of a pair has not reached its instruction yet: this one waits.
bool is_together(Warp &warp, const Instruction &instruction, TensorMemory &memory) {
  if (instruction.detail != 2) return true;
  if (memory.beginner != &warp) {
    if (memory.beginner) return warp.pause = Pause::retry, false;  // another warp is at one
    memory.beginner = &warp;
    memory.begun++;
    warp.cta->cluster->events++;
  }
  auto &ctas = warp.cta->cluster->ctas;
  Cta &peer = ctas.size() % 2 == 0 ? ctas[warp.cta->rank ^ 1] : peer_of(warp, instruction);
  if (tensor_memory(warp, instruction, peer, 2).begun < memory.begun) return warp.pause = Pause::retry, false;
  memory.beginner = nullptr;
  return true;
}

/// Nothing where there are none: the warp waits.
std::optional<uint32_t> columns_for(Warp &warp, const Instruction &instruction, TensorMemory &memory, uint32_t count) {
  Cta *peer = instruction.detail == 2 ? &warp.cta->cluster->ctas[warp.cta->rank ^ 1] : nullptr;
  if (const auto promised = std::exchange(memory.promised, {})) {
    if (promised->count != count)
      fault(warp, instruction, FaultKind::illegal_instruction, -1,
            "the blocks of a pair allocate " + std::to_string(count) + " and " + std::to_string(promised->count) +
                " columns, expected as many in both");
    return promised->first;
  }
  const auto first = warp.cta->launch->multiprocessors().allocate(*warp.cta, peer, count);
  if (!first) {
    if (peer) memory.beginner = &warp;  // it is still at this one
    warp.pause = Pause::retry;
    return {};
  }
  if (peer) peer->state<TensorMemory>().promised = {*first, count};
  return first;
}

/// a, imm: where in shared memory the address goes. b: columns. detail: the group.
template <bool observed>
void allocate(Warp &warp, const Instruction &instruction, uint32_t mask) {
  auto &memory = tensor_memory(warp, instruction, *warp.cta, instruction.detail);
  if (instruction.detail == 2 && memory.beginner != &warp) peer_of(warp, instruction);
  uint32_t count = *warp.row<uint32_t>(instruction.b);
  check_count(warp, instruction, count);
  if (memory.relinquished)
    fault(warp, instruction, FaultKind::illegal_instruction, -1,
          "tcgen05.alloc after tcgen05.relinquish_alloc_permit in the same block");
  if (!is_together(warp, instruction, memory)) return;
  const std::optional<uint32_t> given = columns_for(warp, instruction, memory, count);
  if (!given) return;
  const uint32_t first = *given;
  uint32_t one = mask & -mask;
  Resolved where;
  resolve(warp, instruction, one, 4, 4, where);
  if (where.space != ptx::Space::shared)
    fault(warp, instruction, FaultKind::illegal_address, -1, "tcgen05.alloc writes its address to shared memory only");
  if constexpr (observed) observe(warp, instruction, AccessKind::write, one, 4, where);
  std::memcpy(where.at[std::countr_zero(one)], &first, sizeof first);
  memory.allocations.push_back({first, count, &warp, &instruction});
  warp.cta->cluster->events++;
}

/// a: address. b: columns.
void deallocate(Warp &warp, const Instruction &instruction, uint32_t) {
  auto &memory = tensor_memory(warp, instruction, *warp.cta, instruction.detail);
  uint32_t address = *warp.row<uint32_t>(instruction.a), count = *warp.row<uint32_t>(instruction.b);
  check_count(warp, instruction, count);
  if (!is_together(warp, instruction, memory)) return;
  size_t gone =
      std::erase_if(memory.allocations, [&](const auto &one) { return one.first == address && one.count == count; });
  if (gone == 0)
    fault(warp, instruction, FaultKind::illegal_instruction, -1,
          "tcgen05.dealloc of " + std::to_string(count) + " columns at " + std::to_string(address) +
              ", which no tcgen05.alloc has given out");
  warp.cta->launch->multiprocessors().deallocate(*warp.cta, address, count);
  if (Observer *observer = warp.cta->cluster->observer.get())
    observer->tensor_access(
        warp, instruction,
        {AccessKind::write, warp.cta->rank, 0, TensorMemory::lane_count, TensorAddress(address).column, count, 0, 0});
  warp.cta->cluster->events++;
}

void relinquish(Warp &warp, const Instruction &instruction, uint32_t) {
  auto &memory = tensor_memory(warp, instruction, *warp.cta, instruction.detail);
  if (is_together(warp, instruction, memory)) memory.relinquished = true;
}

bool decode(Decoder &d) {
  bool allocating = d.has("alloc"), giving_back = d.has("dealloc");
  if (!allocating && !giving_back && !d.has("relinquish_alloc_permit")) return false;
  if (!d.has("cta_group::1") && !d.has("cta_group::2")) d.fail("expected .cta_group::1 or .cta_group::2");
  d.out().detail = d.has("cta_group::2") ? 2 : 1;
  d.converge_warp();
  d.pausing();
  if (allocating) {
    d.address(0);
    d.out().b = d.source(1, Type::u32);
    return d.run(allocate<false>, allocate<true>);
  }
  if (!giving_back) return d.run(relinquish);
  d.out().a = d.source(0, Type::b32);
  d.out().b = d.source(1, Type::u32);
  return d.run(deallocate);
}

const Registration registration{{"tcgen05", decode}};

}  // namespace
}  // namespace fa::emu
