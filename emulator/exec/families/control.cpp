// Control flow: bra, brx.idx, call, ret, exit, trap; and instructions without effect here.
#include <algorithm>

#include "exec/builder.h"
#include "exec/builtin.h"
#include "exec/dispatch.h"
#include "exec/fault.h"
#include "exec/spin.h"

namespace fa::emu {
namespace {

using ptx::OperandKind;
using ptx::Type;

void nothing(Warp &, const Instruction &, uint32_t) {}

uint32_t target_of(Decoder &d, const ptx::Operand &operand) {
  if (operand.kind != OperandKind::label) d.fail("there is no label " + std::string(operand.text));
  return d.builder().first_pc() + operand.index;
}

/// Whether a loop reads memory that other threads may write meanwhile: it may be one that waits for them.
bool may_wait(Decoder &d, size_t first, size_t last) {
  const ptx::Function &function = d.function();
  for (size_t i = first; i < last; i++) {
    const ptx::Opcode &opcode = d.builder().module().opcodes[function.instructions[i].opcode];
    if (opcode.name == "atom") return true;
    if (opcode.name != "ld") continue;
    for (const char *strong : {"volatile", "relaxed", "acquire", "mmio"})
      if (opcode.has(strong)) return true;
  }
  return false;
}

/// Whether a loop does nothing else.
bool only_waits(Decoder &d, size_t first, size_t last) {
  const ptx::Function &function = d.function();
  for (size_t i = first; i < last; i++)
    if (has_effect(d.builder().module().opcodes[function.instructions[i].opcode])) return false;
  return true;
}

/// detail: 1 a jump back in a loop that may wait, 2 in one that does nothing else.
bool decode_bra(Decoder &d) {
  d.expect_operands(1, 1);
  d.out().target = target_of(d, d.operand(0));
  const Instruction *first = &d.builder().program().code[d.builder().first_pc()];
  const size_t begin = d.operand(0).index, end = static_cast<size_t>(&d.out() - first);
  d.out().detail = !may_wait(d, begin, end) ? 0 : only_waits(d, begin, end) ? 2 : 1;
  d.out().flow = Flow::branch;
  return d.run(nothing);
}

/// The second operand names a .branchtargets, which the parser keeps as an instruction.
bool decode_brx(Decoder &d) {
  d.expect_operands(2, 2);
  const ptx::Operand &table = d.operand(1);
  const ptx::Function &function = d.function();
  bool found = table.kind == OperandKind::label && table.index < function.instructions.size();
  if (!found) d.fail("there is no .branchtargets " + std::string(table.text));
  const ptx::Instruction &list = function.instructions[table.index];
  if (d.builder().module().opcodes[list.opcode].name != "branchtargets") d.fail("the label is no .branchtargets");
  std::vector<uint32_t> targets;
  for (const ptx::Operand &label : function.operands_of(list)) targets.push_back(target_of(d, label));
  d.out().a = d.source(0, Type::u32);
  d.out().target = static_cast<uint32_t>(d.builder().program().tables.size());
  d.out().flow = Flow::branch_table;
  d.builder().program().tables.push_back(std::move(targets));
  return d.run(nothing);
}

bool decode_branchtargets(Decoder &d) {
  return d.run(nothing);
}

bool decode_exit(Decoder &d) {
  d.out().flow = Flow::exit;
  return d.run(nothing);
}

bool decode_ret(Decoder &d) {
  d.out().flow = Flow::ret;
  return d.run(nothing);
}

void trap(Warp &warp, const Instruction &instruction, uint32_t mask) {
  fault(warp, instruction, FaultKind::trap, __builtin_ctz(mask), "the kernel executed trap");
}

bool decode_trap(Decoder &d) {
  return d.run(trap);
}

const ptx::Variable &variable_of(Decoder &d, const ptx::Operand &operand) {
  if (operand.kind != OperandKind::variable) d.fail("parameters of a call must be .param variables");
  return d.builder().module().variables[operand.index];
}

/// Copies between the variables of a call and the callee's parameters.
std::vector<ParameterCopy> copies(Decoder &d, std::span<const ptx::Operand> actual,
                                  const std::vector<ptx::Index> *formal) {
  if (formal && formal->size() != actual.size()) d.fail("a call with a wrong number of parameters");
  std::vector<ParameterCopy> result;
  uint32_t builtin_offset = 0;
  for (size_t i = 0; i < actual.size(); i++) {
    const ptx::Variable &variable = variable_of(d, actual[i]);
    uint32_t callee = formal ? static_cast<uint32_t>(d.builder().place((*formal)[i])) : builtin_offset;
    uint32_t bytes = static_cast<uint32_t>(variable.size);
    if (formal && d.builder().module().variables[(*formal)[i]].size != bytes)
      d.fail("a parameter of a call has another size than the function's");
    result.push_back({static_cast<uint32_t>(d.builder().place(actual[i].index)), callee, bytes});
    builtin_offset += (bytes + 7) / 8 * 8;
  }
  return result;
}

/// The same for a call through a pointer. Functions with parameters of the same sizes and alignments have the same
/// layout of them (Builder::place_locals): bytes are those so far.
std::vector<ParameterCopy> copies_to_pointee(Decoder &d, std::span<const ptx::Operand> actual, uint32_t &bytes) {
  std::vector<ParameterCopy> result;
  for (const ptx::Operand &operand : actual) {
    const ptx::Variable &variable = variable_of(d, operand);
    uint32_t align = std::max(variable.align, 1u), size = static_cast<uint32_t>(variable.size);
    bytes = (bytes + align - 1) / align * align;
    result.push_back({static_cast<uint32_t>(d.builder().place(operand.index)), bytes, size});
    bytes += size;
  }
  return result;
}

/// call (results), function, (arguments); a pointer is followed by its prototype.
bool decode_call(Decoder &d) {
  CallSite site;
  std::span<const ptx::Operand> results, arguments;
  const ptx::Operand *callee = nullptr;
  for (size_t i = 0; i < d.count(); i++) {
    const ptx::Operand &operand = d.operand(i);
    if (operand.kind == OperandKind::list)
      (callee ? arguments : results) = d.children(operand);
    else if (!callee)
      callee = &operand;
  }
  if (!callee) d.fail("a call of nothing");
  if (callee->kind == OperandKind::reg) {
    site.pointer = d.source(*callee, Type::u64);
    site.arguments = copies_to_pointee(d, arguments, site.parameter_bytes);
    site.results = copies_to_pointee(d, results, site.parameter_bytes);
  } else if (callee->kind == OperandKind::function) {
    const ptx::Function &function = d.builder().module().functions[callee->index];
    site.function = d.builder().function_number(callee->index);
    if (site.function == UINT32_MAX) {
      site.builtin = builtin_of(function.name);
      if (function.name == "malloc" || function.name == "free") d.builder().program().uses_heap = true;
      if (!site.builtin) d.fail("function " + std::string(function.name) + " is declared, but nothing defines it");
    }
    site.arguments = copies(d, arguments, site.builtin ? nullptr : &function.parameters);
    site.results = copies(d, results, site.builtin ? nullptr : &function.results);
  } else {
    d.fail("there is no function " + std::string(callee->text));
  }
  d.out().flow = Flow::call;
  d.out().target = static_cast<uint32_t>(d.builder().program().calls.size());
  d.builder().program().calls.push_back(std::move(site));
  return d.run(nothing);
}

const Registration registration{{"bra", decode_bra},   {"brx", decode_brx}, {"branchtargets", decode_branchtargets},
                                {"exit", decode_exit}, {"ret", decode_ret}, {"trap", decode_trap},
                                {"call", decode_call}};

}  // namespace
}  // namespace fa::emu
