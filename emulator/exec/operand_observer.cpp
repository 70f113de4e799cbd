// Chunks to accesses.
#include "exec/operand_observer.h"

#include "memory/windows.h"

namespace fa::emu {

void observe_operand(Warp &warp, const Instruction &instruction, AccessKind kind, uint32_t rank, uint64_t key,
                     const OperandSource &source, uint32_t first, uint32_t count) {
  Observer *observer = warp.cta->cluster->observer.get();
  if (!observer) return;
  uint64_t address[lanes];
  uint32_t n = 0;
  auto flush = [&] {
    if (n == 0) return;
    uint32_t mask = n == lanes ? all_lanes : (1u << n) - 1;
    observer->access(warp, instruction, {ptx::Space::shared, kind, 16, mask, address, true, key});
    n = 0;
  };
  visit_chunks(source, first, count, [&](uint32_t at) {
    address[n++] = (rank << memory::rank_shift) | at;
    if (n == lanes) flush();
  });
  flush();
}

}  // namespace fa::emu
