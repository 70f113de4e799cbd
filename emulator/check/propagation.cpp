// From sources to results, instruction by instruction.
#include "check/propagation.h"

#include <algorithm>
#include <array>
#include <bit>

#include "exec/launch.h"
#include "exec/shuffle.h"

namespace fa::emu::check {
namespace {

/// Their results depend on the same lane's sources alone, and they do nothing else.
constexpr std::string_view lane_by_lane[] = {
    "abs",  "add",  "addc",  "bfe",  "bfi",  "bfind", "bmsk",  "brev", "clz",   "cnot",     "copysign",
    "cos",  "cvt",  "cvta",  "div",  "dp2a", "dp4a",  "ex2",   "fma",  "fns",   "isspacep", "lg2",
    "lop3", "mad",  "mad24", "madc", "mapa", "max",   "min",   "mov",  "mul",   "mul24",    "neg",
    "not",  "popc", "prmt",  "rcp",  "rem",  "rsqrt", "sad",   "set",  "setp",  "shf",      "shl",
    "shr",  "sin",  "slct",  "sqrt", "sub",  "subc",  "szext", "tanh", "testp", "xor"};

/// The lanes of a fragment's rows, or columns, that one lane has a part of.
constexpr uint32_t row_of(uint32_t lane) {
  return 0xfu << (lane & ~3u);
}
constexpr uint32_t lanes_of_column(uint32_t column) {
  return 0x11111111u << (column / 2);
}

}  // namespace

Propagation propagation_of(const ptx::Opcode &opcode, std::span<const ptx::Operand> operands) {
  if (opcode.name == "mov" && operands.size() == 2) {
    if (operands[1].kind == ptx::OperandKind::vector) return Propagation::pack;
    if (operands[0].kind == ptx::OperandKind::vector) return Propagation::unpack;
  }
  if (std::find(std::begin(lane_by_lane), std::end(lane_by_lane), opcode.name) != std::end(lane_by_lane))
    return Propagation::lane;
  if (opcode.name == "and" || opcode.name == "or") {
    if (!opcode.has("pred")) return Propagation::lane;
    return opcode.name == "and" ? Propagation::conjunction : Propagation::disjunction;
  }
  if (opcode.name == "selp") return Propagation::choice;
  if (opcode.name == "shfl") return Propagation::exchange;
  if (opcode.name == "mma") return Propagation::product;
  for (std::string_view name : {"vote", "match", "redux", "movmatrix"})
    if (opcode.name == name) return Propagation::warp;
  return Propagation::use;
}

std::span<const ptx::Operand> PropagationStep::operands() const {
  const Program &program = *warp.cta->launch->program;
  return program.function_at(pc).operands_of(program.source(pc));
}

std::span<const ptx::Operand> PropagationStep::elements(size_t operand) const {
  const ptx::Operand &one = operands()[operand];
  if (one.kind != ptx::OperandKind::vector) return {&one, 1};
  return warp.cta->launch->program->function_at(pc).children_of(one);
}

uint32_t PropagationStep::missing(const ptx::Operand &operand) const {
  return operand.kind == ptx::OperandKind::reg ? missing(operand.index) : 0;
}

uint32_t PropagationStep::missing_sources() const {
  const Program &program = *warp.cta->launch->program;
  uint32_t result = 0;
  for (uint32_t u = program.first_use[pc]; u < program.first_use[pc + 1]; u++)
    if (!program.uses[u].write) result |= missing(program.uses[u].reg);
  return result;
}

uint32_t PropagationStep::into(uint32_t reg) const {
  const ptx::Instruction &source = warp.cta->launch->program->source(pc);
  uint32_t guard = source.guard == ptx::none ? 0 : missing(source.guard);
  switch (rule) {
    case Propagation::use:
      return 0;
    case Propagation::lane:
    case Propagation::unpack:
      return missing_sources();
    case Propagation::pack: {
      uint32_t all = mask;
      for (const ptx::Operand &element : elements(1)) all &= missing(element);
      return guard | all;
    }
    case Propagation::choice:
      return guard | chosen();
    case Propagation::conjunction:
      return guard | absorbed(false);
    case Propagation::disjunction:
      return guard | absorbed(true);
    case Propagation::exchange:
      return guard | exchanged(reg);
    case Propagation::product:
      return guard | multiplied(reg);
    case Propagation::warp:
      return missing_sources() ? mask : 0;
  }
  return 0;
}

/// selp: the operand that the predicate does not choose has no part in the result.
uint32_t PropagationStep::chosen() const {
  const Instruction &instruction = warp.cta->launch->program->code[pc];
  uint32_t first = *warp.row<uint32_t>(instruction.c) ^ (instruction.detail ? all_lanes : 0);
  return missing(operands()[3]) | (first & missing(operands()[1])) | (~first & missing(operands()[2]));
}

/// and.pred, or.pred: a false, or true, operand decides alone.
uint32_t PropagationStep::absorbed(bool absorbing) const {
  const Instruction &instruction = warp.cta->launch->program->code[pc];
  uint32_t flip = absorbing ? 0 : all_lanes;
  uint32_t a = missing(operands()[1]), b = missing(operands()[2]);
  uint32_t decided_by_a = ~a & (*warp.row<uint32_t>(instruction.a) ^ flip);
  uint32_t decided_by_b = ~b & (*warp.row<uint32_t>(instruction.b) ^ flip);
  return (a | b) & ~decided_by_a & ~decided_by_b;
}

uint32_t PropagationStep::exchanged(uint32_t reg) const {
  const Program &program = *warp.cta->launch->program;
  const Instruction &instruction = program.code[pc];
  const ptx::Opcode &opcode = program.module->opcodes[program.source(pc).opcode];
  uint32_t result = missing(operands()[2]) | missing(operands()[3]);
  if (operands()[0].second == reg) return result;  // whether a lane is in range
  uint32_t data = operands()[1].kind == ptx::OperandKind::reg ? ~lanes_with_values(operands()[1].index) : 0;
  if (only == ptx::none && operands()[1].kind == ptx::OperandKind::reg) data |= ~mask;  // lanes that do not take part
  Shuffle mode = opcode.has("up")     ? Shuffle::up
                 : opcode.has("down") ? Shuffle::down
                 : opcode.has("bfly") ? Shuffle::butterfly
                                      : Shuffle::index;
  const uint32_t *by = warp.row<uint32_t>(instruction.b), *bounds = warp.row<uint32_t>(instruction.c);
  for (uint32_t lane = 0; lane < lanes; lane++)
    result |= (data >> shuffle_source(mode, lane, by[lane], bounds[lane]).lane & 1) << lane;
  return result & mask;
}

/// mma.m16n8: a lane's row of A is a row of D, its column of B a column of D. Registers of A alternate between rows i
/// and i + 8, those of D have first the one, then the other; a register of D has one column or two.
uint32_t PropagationStep::multiplied(uint32_t reg) const {
  const Program &program = *warp.cta->launch->program;
  const ptx::Opcode &opcode = program.module->opcodes[program.source(pc).opcode];
  bool tall = false, known = false;
  for (std::string_view modifier : opcode.modifiers) {
    tall |= modifier.starts_with("m16n8k");
    known |=
        tall || (modifier.starts_with("m8n8k") && modifier != "m8n8k4") || (modifier == "m8n8k4" && opcode.has("f64"));
  }
  // With .block_scale there are scales, too, of rows and columns.
  if (!known || operands().size() != 4) return missing_sources() ? mask : 0;
  std::span<const ptx::Operand> d = elements(0), a = elements(1), b = elements(2), c = elements(3);
  uint32_t result = 0;
  for (size_t j = 0; j < d.size(); j++) {
    if (d[j].kind != ptx::OperandKind::reg || d[j].index != reg) continue;
    bool one_column = d.size() == (tall ? 4u : 2u);
    if (j < c.size()) result |= missing(c[j]);
    for (size_t i = 0; i < a.size(); i++)
      if (!tall || i % 2 == j * 2 / d.size())
        for (uint32_t rest = missing(a[i]); rest; rest &= ~row_of(static_cast<uint32_t>(std::countr_zero(rest))))
          result |= row_of(static_cast<uint32_t>(std::countr_zero(rest)));
    for (const ptx::Operand &element : b)
      for (uint32_t rest = missing(element); rest; rest &= ~row_of(static_cast<uint32_t>(std::countr_zero(rest)))) {
        uint32_t column = static_cast<uint32_t>(std::countr_zero(rest)) / 4;
        if (!one_column || column % 2 == j % 2) result |= lanes_of_column(column);
      }
  }
  return result & mask;
}

}  // namespace fa::emu::check
