// Lanes that arrive together, and those that cannot.
#include "exec/converge.h"

#include <bit>
#include <cstdio>

#include "exec/cta.h"
#include "exec/fault.h"
#include "exec/launch.h"

namespace fa::emu {

uint32_t same_members(const Warp &warp, const Instruction &instruction, uint32_t mask, uint32_t &members) {
  const uint32_t *row = warp.row<uint32_t>(instruction.members);
  members = row[std::countr_zero(mask)];
  if (instruction.members.bank() == Slot::constant) return mask;
  uint32_t same = 0;
  for (uint32_t lane = 0; lane < lanes; lane++) same |= uint32_t{row[lane] == members} << lane;
  return mask & same;
}

void outside_its_mask(const Warp &warp, const Instruction &instruction, uint32_t mask, uint32_t members) {
  Launch &launch = *warp.cta->launch;
  if (!launch.options.check) return;
  char text[160];
  std::snprintf(text, sizeof text,
                "lanes %08x execute it with the member mask %08x, which lacks lanes %08x of them: undefined", mask,
                members, mask & ~members);
  launch.findings.add(Violation::member_mask, warp, instruction, std::countr_zero(mask & ~members), text);
}

void partly_guarded(const Warp &warp, const Instruction &instruction, uint32_t missing) {
  fault(warp, instruction, FaultKind::divergence, std::countr_zero(missing),
        "a lane that should take part in a .sync instruction is guarded off");
}

void cannot_meet(const Warp &warp) {
  const Program &program = *warp.cta->launch->program;
  std::string where;
  for (uint32_t g = 0; g < warp.group_count; g++) {
    char lanes_text[16];
    snprintf(lanes_text, sizeof lanes_text, "%08x", warp.groups[g].mask);
    where += std::string(where.empty() ? "" : ", ") + "lanes " + lanes_text + " at line " +
             std::to_string(program.source(warp.groups[g].pc).line);
  }
  fault(warp, program.code[warp.groups[0].pc], FaultKind::divergence, -1,
        "lanes wait for each other at different .sync instructions: " + where);
}

}  // namespace fa::emu
