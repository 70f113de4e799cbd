// Classes of instructions by their modifiers.
#include "check/properties.h"

#include "check/propagation.h"

namespace fa::emu::check {
namespace {

int32_t number_of_groups(const ptx::Function &function, const ptx::Instruction &instruction) {
  auto operands = function.operands_of(instruction);
  return operands.empty() ? 0 : static_cast<int32_t>(operands[0].value);
}

InstructionProperties tensor_class(const ptx::Opcode &opcode) {
  struct Name {
    const char *modifier;
    InstructionKind kind;
  };
  for (const Name &name :
       {Name{"ld", InstructionKind::tensor_load}, Name{"st", InstructionKind::tensor_store},
        Name{"wait::ld", InstructionKind::tensor_wait_load}, Name{"wait::st", InstructionKind::tensor_wait_store},
        Name{"fence::before_thread_sync", InstructionKind::tensor_fence_before},
        Name{"fence::after_thread_sync", InstructionKind::tensor_fence_after}})
    if (opcode.has(name.modifier)) return {name.kind};
  return {};
}

/// .sys and no scope at all are as wide as the device.
Scope scope_of(const ptx::Opcode &opcode) {
  return opcode.has("cta") ? Scope::cta : opcode.has("cluster") ? Scope::cluster : Scope::gpu;
}

/// Memory order of ld, st, atom, red and fences.
void set_order(const ptx::Opcode &opcode, InstructionProperties &properties) {
  const bool atomic = opcode.name == "atom" || opcode.name == "red";
  const bool both = opcode.has("acq_rel");
  const bool reduces = opcode.name == "cp" && opcode.has("reduce");
  if (properties.kind != InstructionKind::strong_access && properties.kind != InstructionKind::fence && !atomic &&
      !reduces)
    return;
  properties.scope = reduces ? Scope::gpu : scope_of(opcode);
  properties.acquires = both || opcode.has("acquire");
  properties.releases = both || opcode.has("release");
}

InstructionProperties classify(const ptx::Module &module, const ptx::Function &function,
                               const ptx::Instruction &instruction) {
  const ptx::Opcode &opcode = module.opcodes[instruction.opcode];
  if (opcode.name == "mov") return {InstructionKind::move};
  if (opcode.name == "cp" && opcode.has("async") && !opcode.has("bulk")) {
    if (opcode.has("mbarrier")) return {InstructionKind::mbarrier};
    if (opcode.has("commit_group")) return {InstructionKind::copy_commit};
    if (opcode.has("wait_group")) return {InstructionKind::copy_wait, number_of_groups(function, instruction)};
    if (opcode.has("wait_all")) return {InstructionKind::copy_wait, -1};
  }
  if (opcode.name == "mbarrier") return {InstructionKind::mbarrier};
  if (opcode.name == "membar" && !opcode.has("proxy")) return {InstructionKind::fence};
  if (opcode.name == "fence" && opcode.has("mbarrier_init")) return {InstructionKind::mbarrier_init_fence};
  if (opcode.name == "fence" && opcode.has("tensormap::generic")) return {InstructionKind::map_fence};
  if (opcode.name == "fence" && !opcode.has("proxy")) return {InstructionKind::fence};
  if (opcode.name == "griddepcontrol" && opcode.has("wait")) return {InstructionKind::dependency_wait};
  if (opcode.name == "tcgen05") return tensor_class(opcode);
  if (opcode.name == "wgmma") {
    if (opcode.has("mma_async")) return {InstructionKind::wgmma};
    if (opcode.has("fence")) return {InstructionKind::wgmma_fence};
    if (opcode.has("commit_group")) return {InstructionKind::wgmma_commit};
    if (opcode.has("wait_group")) return {InstructionKind::wgmma_wait, number_of_groups(function, instruction)};
  }
  if (opcode.name == "ld" || opcode.name == "st") {
    InstructionProperties result;
    for (const char *strong : {"volatile", "relaxed", "acquire", "release", "mmio"})
      if (opcode.has(strong)) result.kind = InstructionKind::strong_access;
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
  auto operands = function.operands_of(program.source(pc));
  return operands.first(std::min<size_t>(operands.size(), 1));
}

std::vector<InstructionProperties> classify(const Program &program) {
  std::vector<InstructionProperties> result(program.code.size());
  for (const ProgramFunction &share : program.functions) {
    const ptx::Function &function = program.module->functions[share.function];
    for (uint32_t i = 0; i < function.instructions.size(); i++) {
      const ptx::Opcode &opcode = program.module->opcodes[function.instructions[i].opcode];
      InstructionProperties &one = result[share.first + i];
      one = classify(*program.module, function, function.instructions[i]);
      one.matrix = opcode.name == "ldmatrix" && opcode.has("m8n8");
      one.loads = one.matrix || opcode.name == "ld";
      if (opcode.name == "mbarrier" && opcode.has("init")) one.makes = Making::init;
      if (opcode.name == "mbarrier" && opcode.has("inval")) one.makes = Making::inval;
      one.constant = opcode.name == "ld" && opcode.has("nc");
      one.shared_only = opcode.has("shared::cta") || opcode.has("shared::cluster");
      set_order(opcode, one);
      one.propagation = propagation_of(opcode, function.operands_of(function.instructions[i]));
    }
  }
  return result;
}

}  // namespace fa::emu::check
