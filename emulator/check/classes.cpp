// Telling instructions apart by their modifiers.
#include "check/classes.h"

namespace fa::emu::check {
namespace {

int32_t number_of_groups(const ptx::Function &function, const ptx::Instruction &instruction) {
  auto operands = function.operands_of(instruction);
  return operands.empty() ? 0 : static_cast<int32_t>(operands[0].value);
}

Classified tensor_class(const ptx::Opcode &opcode) {
  struct Name {
    const char *modifier;
    Class what;
  };
  for (const Name &name :
       {Name{"ld", Class::tensor_load}, Name{"st", Class::tensor_store}, Name{"wait::ld", Class::tensor_wait_load},
        Name{"wait::st", Class::tensor_wait_store}, Name{"fence::before_thread_sync", Class::tensor_fence_before},
        Name{"fence::after_thread_sync", Class::tensor_fence_after}})
    if (opcode.has(name.modifier)) return {name.what, 0, false};
  return {};
}

Classified classify(const ptx::Module &module, const ptx::Function &function, const ptx::Instruction &instruction) {
  const ptx::Opcode &opcode = module.opcodes[instruction.opcode];
  if (opcode.name == "mov") return {Class::move, 0, false};
  if (opcode.name == "cp" && opcode.has("async") && !opcode.has("bulk")) {
    if (opcode.has("mbarrier")) return {Class::mbarrier, 0, false};
    if (opcode.has("commit_group")) return {Class::copy_commit, 0, false};
    if (opcode.has("wait_group")) return {Class::copy_wait, number_of_groups(function, instruction), false};
    if (opcode.has("wait_all")) return {Class::copy_wait, -1, false};
  }
  if (opcode.name == "mbarrier") return {Class::mbarrier, 0, false};
  if (opcode.name == "tcgen05") return tensor_class(opcode);
  if (opcode.name == "wgmma") {
    if (opcode.has("mma_async")) return {Class::wgmma, 0, false};
    if (opcode.has("fence")) return {Class::wgmma_fence, 0, false};
    if (opcode.has("commit_group")) return {Class::wgmma_commit, 0, false};
    if (opcode.has("wait_group")) return {Class::wgmma_wait, number_of_groups(function, instruction), false};
  }
  if (opcode.name == "ld" || opcode.name == "st") {
    Classified result;
    for (const char *strong : {"volatile", "relaxed", "acquire", "release", "mmio"})
      if (opcode.has(strong)) result.what = Class::strong_access;
    result.vector = (opcode.has("shared") || opcode.has("shared::cta")) &&
                    (opcode.has("v2") || opcode.has("v4") || opcode.has("v8"));
    return result;
  }
  return {};
}

}  // namespace

std::span<const ptx::Operand> vector_of(const Program &program, uint32_t pc) {
  const ptx::Function &function = program.function_at(pc);
  for (const ptx::Operand &operand : function.operands_of(program.source(pc)))
    if (operand.kind == ptx::OperandKind::vector) return function.children_of(operand);
  return {};
}

std::vector<Classified> classify(const Program &program) {
  std::vector<Classified> result(program.code.size());
  for (const ProgramFunction &share : program.functions) {
    const ptx::Function &function = program.module->functions[share.function];
    for (uint32_t i = 0; i < function.instructions.size(); i++)
      result[share.first + i] = classify(*program.module, function, function.instructions[i]);
  }
  return result;
}

}  // namespace fa::emu::check
