// Building a program, step by step.
#include "exec/builder.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "exec/allocate.h"
#include "exec/late_copy.h"
#include "exec/special.h"
#include "exec/target.h"
#include "memory/windows.h"

namespace fa::emu {
namespace {

using ptx::Space;
using ptx::Type;

constexpr uint64_t up(uint64_t value, uint64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

}  // namespace

Builder::Builder(std::shared_ptr<const ptx::Module> module, const std::vector<uint64_t> &addresses,
                 const BuildOptions &options)
    : module_(std::move(module)), options_(options), program_(std::make_shared<Program>()), places_(addresses) {
  places_.resize(module_->variables.size());
}

std::shared_ptr<const Program> Builder::build(ptx::Index entry) {
  program_->module = module_;
  program_->observed = options_.observed;
  program_->name = module_->functions[entry].name;
  reach(entry);
  place_variables();
  constant(all_lanes, 4);
  for (uint32_t f = 0; f < program_->functions.size(); f++) decode_function(f);
  if (options_.observed) program_->first_use.push_back(static_cast<uint32_t>(program_->uses.size()));
  return program_;
}

uint32_t Builder::function_number(ptx::Index function) const {
  for (uint32_t f = 0; f < program_->functions.size(); f++)
    if (program_->functions[f].function == function) return f;
  return UINT32_MAX;
}

void Builder::reach(ptx::Index entry) {
  auto add = [&](ptx::Index function) {
    if (!module_->functions[function].defined || function_number(function) != UINT32_MAX) return;
    program_->functions.push_back({function, 0, 0, 0, 0});
    callees_.emplace_back();
  };
  add(entry);
  for (size_t f = 0; f < program_->functions.size(); f++) {
    const ptx::Function &function = module_->functions[program_->functions[f].function];
    for (const ptx::Instruction &instruction : function.instructions) {
      if (module_->opcodes[instruction.opcode].name != "call") continue;
      bool direct = false;
      for (const ptx::Operand &operand : function.operands_of(instruction)) {
        if (operand.kind != ptx::OperandKind::function) continue;
        direct = true;
        add(operand.index);
        if (uint32_t callee = function_number(operand.index); callee != UINT32_MAX) callees_[f].push_back(callee);
      }
      if (direct) continue;
      program_->recursive = true;
      for (ptx::Index other = 0; other < module_->functions.size(); other++)
        if (!module_->functions[other].entry) add(other);
    }
  }
}

bool Builder::is_entry_parameter(ptx::Index variable) const {
  const auto &parameters = module_->functions[program_->functions[0].function].parameters;
  return std::find(parameters.begin(), parameters.end(), variable) != parameters.end();
}

void Builder::place_variables() {
  uint64_t at = 0;
  for (ptx::Index parameter : module_->functions[program_->functions[0].function].parameters) {
    const ptx::Variable &variable = module_->variables[parameter];
    at = up(at, variable.align);
    places_[parameter] = at;
    at += variable.size;
  }
  program_->parameter_bytes = static_cast<uint32_t>(at);
  place_shared();
  place_locals();
}

/// Static variables that the reached code mentions, then the dynamic ones, all of them at one place.
void Builder::place_shared() {
  std::vector<ptx::Index> dynamic;
  uint64_t at = 0;
  std::vector<bool> placed(module_->variables.size());
  for (const ProgramFunction &share : program_->functions) {
    for (const ptx::Operand &operand : module_->functions[share.function].operands) {
      if (operand.kind != ptx::OperandKind::variable) continue;
      const ptx::Variable &variable = module_->variables[operand.index];
      if (variable.space != Space::shared || placed[operand.index]) continue;
      placed[operand.index] = true;
      if (variable.size == 0) {
        dynamic.push_back(operand.index);
        continue;
      }
      at = up(at, variable.align);
      places_[operand.index] = at;
      at += variable.size;
    }
  }
  program_->static_shared_bytes = static_cast<uint32_t>(at);
  at = up(at, 16);
  for (ptx::Index variable : dynamic) at = up(at, module_->variables[variable].align);
  for (ptx::Index variable : dynamic) places_[variable] = at;
  program_->dynamic_shared_offset = static_cast<uint32_t>(at);
}

void Builder::place_locals() {
  for (ProgramFunction &share : program_->functions) {
    const ptx::Function &function = module_->functions[share.function];
    uint64_t at = 0;
    auto place = [&](ptx::Index number) {
      const ptx::Variable &variable = module_->variables[number];
      if (variable.space != Space::local && variable.space != Space::param) return;
      at = up(at, std::max(variable.align, 1u));
      places_[number] = at;
      at += variable.size;
    };
    if (!function.entry)
      for (const auto *list : {&function.parameters, &function.results})
        for (ptx::Index number : *list) place(number);
    share.parameter_bytes = static_cast<uint32_t>(at);
    for (ptx::Index number : function.variables) place(number);
    share.local_bytes = static_cast<uint32_t>(up(at, 16));
  }
  std::vector<bool> active(program_->functions.size());
  uint32_t deepest = deepest_locals(0, active);
  program_->local_bytes = deepest + (program_->recursive ? options_.stack_bytes : 0);
}

uint32_t Builder::deepest_locals(uint32_t function, std::vector<bool> &active) {
  if (active[function]) {
    program_->recursive = true;
    return 0;
  }
  active[function] = true;
  uint32_t below = 0;
  for (uint32_t callee : callees_[function]) below = std::max(below, deepest_locals(callee, active));
  active[function] = false;
  return program_->functions[function].local_bytes + below;
}

Slot Builder::constant(uint64_t value, uint32_t bytes) {
  int kind = bytes <= 2 ? 0 : bytes == 4 ? 1 : bytes == 8 ? 2 : 3;
  if (bytes <= 2) value &= 0xffff;
  if (bytes == 4) value &= 0xffffffff;
  auto [found, added] = constants_[kind].try_emplace(value);
  if (!added) return found->second;
  uint32_t width = std::max(bytes, 2u);
  size_t at = program_->constants.size() * sizeof(RowBlock);
  program_->constants.resize(program_->constants.size() + width * lanes / sizeof(RowBlock));
  uint8_t *row = program_->constants.front().bytes + at;
  for (uint32_t lane = 0; lane < lanes; lane++) std::memcpy(row + lane * width, &value, std::min(width, 8u));
  return found->second = Slot::at(static_cast<uint32_t>(at), Slot::constant);
}

Slot Builder::warp_row(ptx::Index special, uint32_t offset, bool wide) {
  if (special != ptx::none && is_wide(special)) wide = true;
  uint64_t key = (special == ptx::none ? uint64_t{1} << 62 | offset : special) << 1 | wide;
  auto [found, added] = warp_rows_.try_emplace(key);
  if (!added) return found->second;
  found->second = Slot::at(program_->warp_row_bytes, Slot::warp);
  program_->warp_row_bytes += lanes * (wide ? 8 : 4);
  program_->warp_rows.push_back({special, offset, wide, found->second});
  return found->second;
}

ptx::Index Builder::scratch_register(Type type) {
  registers_.push_back(type);
  return static_cast<ptx::Index>(registers_.size() - 1);
}

void Builder::decode_function(uint32_t number) {
  ProgramFunction &share = program_->functions[number];
  const ptx::Function &function = module_->functions[share.function];
  first_ = program_->code.size();
  size_t first_list = program_->lists.size();
  share.first = static_cast<uint32_t>(first_);
  registers_ = function.registers;
  uses_.clear();
  first_use_.clear();
  late_.clear();
  landings_.clear();
  // One more than the text has: the return at the end, which the text may leave out.
  program_->code.resize(first_ + function.instructions.size() + 1);
  for (uint32_t i = 0; i < function.instructions.size(); i++) decode(function, i);
  first_use_.push_back(static_cast<uint32_t>(uses_.size()));
  program_->code.back().flow = Flow::ret;
  program_->code.back().guard = constant(all_lanes, 4);
  share.end = static_cast<uint32_t>(program_->code.size());
  finish_function(number, first_list);
}

void Builder::decode(const ptx::Function &function, uint32_t number) {
  const ptx::Instruction &source = function.instructions[number];
  const ptx::Opcode &opcode = module_->opcodes[source.opcode];
  if (std::string needs = missing_target(opcode, module_->target); !needs.empty())
    throw BuildFailure{source.line, std::string(opcode.text) + " needs .target " + needs + ", and the module has " +
                                        std::string(module_->target)};
  Instruction &out = program_->code[first_ + number];
  first_use_.push_back(static_cast<uint32_t>(uses_.size()));
  out.guard = constant(all_lanes, 4);
  if (source.guard != ptx::none) {
    use(source.guard, false);
    out.guard = Slot::of_register(source.guard);
    out.guard_negated = source.guard_negated;
  }
  size_t uses_before = uses_.size();
  for (Decode decode_form : decoders_of(opcode.name)) {
    Decoder decoder(*this, function, number, out);
    if (decode_form(decoder)) return;
    uses_.resize(uses_before);
  }
  throw BuildFailure{source.line, "no instruction that the emulator knows: " + std::string(opcode.text)};
}

void Builder::finish_function(uint32_t number, size_t first_list) {
  ProgramFunction &share = program_->functions[number];
  first_use_.push_back(static_cast<uint32_t>(uses_.size()));  // the appended return has none
  AllocationInput input;
  input.code = std::span<const Instruction>(program_->code).subspan(first_);
  input.first_pc = share.first;
  input.first_use = first_use_;
  input.uses = uses_;
  input.registers = registers_;
  input.tables = program_->tables;
  input.late = late_;
  input.landings = landings_;
  std::vector<uint32_t> copies;
  if (!late_.empty()) {
    const auto &instructions = module_->functions[share.function].instructions;
    for (uint32_t i = 0; i < instructions.size(); i++)
      if (module_->opcodes[instructions[i].opcode].name == "mov") copies.push_back(i);
  }
  input.copies = copies;
  Allocation allocation = allocate(input);
  share.frame_bytes = allocation.frame_bytes;
  for (uint32_t at : allocation.used_early) program_->code[first_ + at].lands_at_once = true;
  auto settle = [&](Slot &slot) {
    if (slot.unplaced()) slot = allocation.slots[slot.bits >> 2];
  };
  for (size_t pc = first_; pc < program_->code.size(); pc++) {
    Instruction &instruction = program_->code[pc];
    for (Slot *slot :
         {&instruction.dst, &instruction.a, &instruction.b, &instruction.c, &instruction.guard, &instruction.members})
      settle(*slot);
    if (instruction.flow == Flow::call) settle(program_->calls[instruction.target].pointer);
  }
  for (size_t i = first_list; i < program_->lists.size(); i++) settle(program_->lists[i]);
  wait_in_late_copies(allocation.late_copies);
  count_straight_lines();
  if (!options_.observed) return;
  for (size_t i = 0; i + 1 < first_use_.size(); i++)
    program_->first_use.push_back(static_cast<uint32_t>(program_->uses.size()) + first_use_[i]);
  program_->uses.insert(program_->uses.end(), uses_.begin(), uses_.end());
}

void Builder::wait_in_late_copies(const std::vector<uint32_t> &copies) {
  for (uint32_t at : copies) {
    Instruction &copy = program_->code[first_ + at];
    copy.target = static_cast<uint32_t>(program_->late_copies.size());
    program_->late_copies.push_back(std::exchange(copy.run, copy_late_result));
    copy.flow = Flow::pausing;
  }
}

/// From the last instruction of the function back to the first.
void Builder::count_straight_lines() {
  auto all_members = [&](const Instruction &instruction) {
    uint32_t members = 0;
    if (instruction.members.bank() != Slot::constant) return false;
    std::memcpy(&members, program_->constants.front().bytes + instruction.members.offset(), sizeof members);
    return members == all_lanes;
  };
  uint16_t straight = 0, together = 0;
  auto one_more = [](uint16_t count) { return static_cast<uint16_t>(std::min(count + 1, UINT16_MAX)); };
  for (size_t pc = program_->code.size(); pc-- > first_;) {
    Instruction &instruction = program_->code[pc];
    bool guarded = instruction.guard.bank() != Slot::constant || instruction.guard_negated;
    bool plain = !guarded && instruction.flow == Flow::plain;
    bool meets = !guarded && instruction.flow == Flow::converging &&
                 (instruction.converge == Converge::warp || all_members(instruction));
    straight = plain ? one_more(straight) : 0;
    together = plain || meets ? one_more(together) : 0;
    instruction.straight = straight;
    instruction.straight_together = together;
  }
}

Built build(std::shared_ptr<const ptx::Module> module, ptx::Index entry, const std::vector<uint64_t> &addresses,
            const BuildOptions &options) {
  Built built;
  try {
    built.program = Builder(module, addresses, options).build(entry);
  } catch (const BuildFailure &failure) {
    built.error = ptx::Error{failure.line, failure.message, std::string(module->text_of_line(failure.line))};
  }
  return built;
}

}  // namespace fa::emu
