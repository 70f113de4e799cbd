// From program counters back to the text.
#include "exec/program.h"

#include <algorithm>
#include <atomic>

#include "exec/state.h"

namespace fa::emu {
namespace {

const ProgramFunction &share_of(const Program &program, uint32_t pc) {
  for (const ProgramFunction &share : program.functions)
    if (pc >= share.first && pc < share.end) return share;
  return program.functions.front();
}

}  // namespace

const ptx::Function &Program::function_at(uint32_t pc) const {
  return module->functions[share_of(*this, pc).function];
}

const ptx::Instruction &Program::source(uint32_t pc) const {
  const ProgramFunction &share = share_of(*this, pc);
  const auto &instructions = module->functions[share.function].instructions;
  // The last one is the return that the decoder appends.
  static const ptx::Instruction nothing;
  if (instructions.empty()) return nothing;
  return instructions[std::min<size_t>(pc - share.first, instructions.size() - 1)];
}

std::string_view Program::opcode(uint32_t pc) const {
  return module->opcodes[source(pc).opcode].text;
}

size_t next_state_number() {
  static std::atomic<size_t> next{0};
  return next++;
}

std::string Program::place(uint32_t pc) const {
  const ptx::Instruction &at = source(pc);
  std::string line = module->name_of(at.source);
  return "line " + std::to_string(at.line) + " (" + std::string(opcode(pc)) + (line.empty() ? "" : ", ") + line + ")";
}

}  // namespace fa::emu
