// Modules: from an image to parsed PTX with its variables in device memory.
#include <algorithm>
#include <cstring>

#include "driver/state.h"
#include "exec/builder.h"
#include "ptx/parser.h"

namespace fa::emu::driver {
namespace {

/// Texts end with a zero; what else an image may be is told by its first bytes.
std::string text_of(const void *image) {
  return std::string(static_cast<const char *>(image));
}

bool in_memory(const ptx::Variable &variable) {
  return (variable.space == ptx::Space::global || variable.space == ptx::Space::constant) && !variable.external;
}

void initialise(Module &module, ptx::Index number) {
  const ptx::Variable &variable = module.ptx->variables[number];
  uint32_t bytes = std::max(ptx::bytes_of(variable.type), 1u);
  uint8_t *at = reinterpret_cast<uint8_t *>(module.addresses[number]);
  for (size_t i = 0; i < variable.values.size(); i++) {
    const ptx::InitialValue &value = variable.values[i];
    uint64_t bits = static_cast<uint64_t>(value.value);
    if (!value.symbol.empty()) {
      auto found = module.ptx->variable_index.find(value.symbol);
      if (found == module.ptx->variable_index.end())
        refuse(CUDA_ERROR_INVALID_PTX,
               "an initial value names " + std::string(value.symbol) + ", which is no variable");
      bits += module.addresses[found->second];
    }
    std::memcpy(at + i * bytes, &bits, std::min(bytes, 8u));
  }
}

void place_variables(Module &module) {
  memory::DeviceMemory &memory = *module.context->device->memory;
  const auto &variables = module.ptx->variables;
  module.addresses.resize(variables.size());
  for (ptx::Index v = 0; v < variables.size(); v++) {
    if (!in_memory(variables[v]) || variables[v].size == 0) continue;
    auto kind = variables[v].managed ? memory::RangeKind::managed : memory::RangeKind::module;
    module.addresses[v] = memory.allocate(variables[v].size, kind, variables[v].align);
    if (module.addresses[v] == 0) refuse(CUDA_ERROR_OUT_OF_MEMORY, "the module's variables do not fit into memory");
  }
  for (ptx::Index v = 0; v < variables.size(); v++)
    if (module.addresses[v]) initialise(module, v);
}

std::vector<Kernel::Parameter> parameters_of(const ptx::Module &module, const ptx::Function &function) {
  std::vector<Kernel::Parameter> parameters;
  uint32_t at = 0;
  for (ptx::Index number : function.parameters) {
    const ptx::Variable &variable = module.variables[number];
    at = (at + variable.align - 1) / variable.align * variable.align;
    parameters.push_back({at, static_cast<uint32_t>(variable.size)});
    at += static_cast<uint32_t>(variable.size);
  }
  return parameters;
}

}  // namespace

Module::~Module() {
  for (uint64_t address : addresses)
    if (address) context->device->memory->release(address);
}

Module *load_module(Context &context, const void *image) {
  require(image != nullptr, "no image");
  ptx::Parsed parsed = ptx::parse(text_of(image));
  if (parsed.error) refuse(CUDA_ERROR_INVALID_PTX, parsed.error->what());
  const DeviceLimits &limits = context.device->limits;
  if (!runs_on(parsed.module->target, limits))
    refuse(CUDA_ERROR_NO_BINARY_FOR_GPU, "PTX for " + std::string(parsed.module->target) + " does not run on sm_" +
                                             std::to_string(limits.capability()));
  auto module = std::make_unique<Module>();
  module->context = &context;
  module->ptx = std::move(parsed.module);
  place_variables(*module);
  Module *result = module.get();
  context.modules.insert(std::move(module));
  process().handles.insert(result);
  return result;
}

Kernel *find_kernel(Module &module, const std::string &name) {
  if (auto found = module.kernels.find(name); found != module.kernels.end()) return found->second.get();
  auto function = module.ptx->function_index.find(name);
  if (function == module.ptx->function_index.end()) return nullptr;
  const ptx::Function &entry = module.ptx->functions[function->second];
  if (!entry.entry || !entry.defined) return nullptr;
  Built built = build(module.ptx, function->second, module.addresses, {settings().run.observed()});
  if (built.error) refuse(CUDA_ERROR_INVALID_PTX, "kernel " + name + ": " + built.error->what());
  auto kernel = std::make_unique<Kernel>();
  kernel->module = &module;
  kernel->function = function->second;
  kernel->name = name;
  kernel->parameters = parameters_of(*module.ptx, entry);
  kernel->program = built.program;
  Kernel *result = kernel.get();
  module.kernels[name] = std::move(kernel);
  process().handles.insert(result);
  return result;
}

void unload(Module *module) {
  process().handles.erase(module);
  for (const auto &[name, kernel] : module->kernels) process().handles.erase(kernel.get());
  auto &modules = module->context->modules;
  auto found = std::find_if(modules.begin(), modules.end(), [&](const auto &one) { return one.get() == module; });
  if (found != modules.end()) modules.erase(found);
}

}  // namespace fa::emu::driver
