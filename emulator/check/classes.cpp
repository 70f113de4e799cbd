// Classes of instructions by their modifiers.
#include "check/classes.h"

#include "check/spread.h"

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
    if (opcode.has(name.modifier)) return {name.what};
  return {};
}

/// .sys and no scope at all are as wide as the device.
Scope scope_of(const ptx::Opcode &opcode) {
  return opcode.has("cta") ? Scope::cta : opcode.has("cluster") ? Scope::cluster : Scope::gpu;
}

/// Memory order of ld, st, atom, red and fences.
void set_order(const ptx::Opcode &opcode, Classified &what) {
  const bool atomic = opcode.name == "atom" || opcode.name == "red";
  const bool both = opcode.has("acq_rel");
  const bool reduces = opcode.name == "cp" && opcode.has("reduce");
  if (what.what != Class::strong_access && what.what != Class::fence && !atomic && !reduces) return;
  what.scope = reduces ? Scope::gpu : scope_of(opcode);
  what.acquires = both || opcode.has("acquire");
  what.releases = both || opcode.has("release");
}

Classified classify(const ptx::Module &module, const ptx::Function &function, const ptx::Instruction &instruction) {
  const ptx::Opcode &opcode = module.opcodes[instruction.opcode];
  if (opcode.name == "mov") return {Class::move};
  if (opcode.name == "cp" && opcode.has("async") && !opcode.has("bulk")) {
    if (opcode.has("mbarrier")) return {Class::mbarrier};
    if (opcode.has("commit_group")) return {Class::copy_commit};
    if (opcode.has("wait_group")) return {Class::copy_wait, number_of_groups(function, instruction)};
    if (opcode.has("wait_all")) return {Class::copy_wait, -1};
  }
  if (opcode.name == "mbarrier") return {Class::mbarrier};
  if (opcode.name == "membar" && !opcode.has("proxy")) return {Class::fence};
  if (opcode.name == "fence" && opcode.has("mbarrier_init")) return {Class::mbarrier_init_fence};
  if (opcode.name == "fence" && opcode.has("tensormap::generic")) return {Class::map_fence};
  if (opcode.name == "fence" && !opcode.has("proxy")) return {Class::fence};
  if (opcode.name == "griddepcontrol" && opcode.has("wait")) return {Class::dependency_wait};
  if (opcode.name == "tcgen05") return tensor_class(opcode);
  if (opcode.name == "wgmma") {
    if (opcode.has("mma_async")) return {Class::wgmma};
    if (opcode.has("fence")) return {Class::wgmma_fence};
    if (opcode.has("commit_group")) return {Class::wgmma_commit};
    if (opcode.has("wait_group")) return {Class::wgmma_wait, number_of_groups(function, instruction)};
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
  auto operands = function.operands_of(program.source(pc));
  return operands.first(std::min<size_t>(operands.size(), 1));
}

std::vector<Classified> classify(const Program &program) {
  std::vector<Classified> result(program.code.size());
  for (const ProgramFunction &share : program.functions) {
    const ptx::Function &function = program.module->functions[share.function];
    for (uint32_t i = 0; i < function.instructions.size(); i++) {
      const ptx::Opcode &opcode = program.module->opcodes[function.instructions[i].opcode];
      Classified &one = result[share.first + i];
      one = classify(*program.module, function, function.instructions[i]);
      one.matrix = opcode.name == "ldmatrix" && opcode.has("m8n8");
      one.loads = one.matrix || opcode.name == "ld";
      if (opcode.name == "mbarrier" && opcode.has("init")) one.makes = Making::init;
      if (opcode.name == "mbarrier" && opcode.has("inval")) one.makes = Making::inval;
      one.constant = opcode.name == "ld" && opcode.has("nc");
      one.shared_only = opcode.has("shared::cta") || opcode.has("shared::cluster");
      set_order(opcode, one);
      one.spread = spread_of(opcode, function.operands_of(function.instructions[i]));
    }
  }
  return result;
}

}  // namespace fa::emu::check
