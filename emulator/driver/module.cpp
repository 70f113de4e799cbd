// Modules: from an image to parsed PTX with its variables in device memory.
#include <algorithm>
#include <bit>
#include <cstring>

#include "driver/fatbin.h"
#include "driver/function_attributes.h"
#include "driver/managed.h"
#include "driver/ptx_version.h"
#include "driver/variables.h"
#include "exec/builder.h"
#include "memory/windows.h"
#include "ptx/parser.h"

namespace fa::emu::driver {

bool in_memory(const ptx::Variable &variable) {
  return (variable.space == ptx::Space::global || variable.space == ptx::Space::constant) && !variable.external;
}

uint64_t address_of(const Module &module, const ptx::InitialValue &value) {
  const ptx::Module &code = *module.ptx;
  if (auto found = code.variable_index.find(value.symbol); found != code.variable_index.end())
    return module.addresses[found->second];
  if (auto found = code.function_index.find(value.symbol); found != code.function_index.end())
    return memory::function_window | found->second;
  ptx::Error error{value.line, "an initial value names " + std::string(value.symbol) + ", which nothing declares",
                   std::string(code.text_of_line(value.line))};
  refuse(CUDA_ERROR_INVALID_PTX, error.what());
}

void initialise(Module &module, ptx::Index number) {
  const ptx::Variable &variable = module.ptx->variables[number];
  uint32_t bytes = std::max(ptx::bytes_of(variable.type), 1u);
  uint8_t *at = reinterpret_cast<uint8_t *>(module.addresses[number]);
  for (size_t i = 0; i < variable.values.size(); i++) {
    const ptx::InitialValue &value = variable.values[i];
    uint64_t bits = static_cast<uint64_t>(value.value);
    if (!value.symbol.empty()) bits += address_of(module, value);
    bits = (bits & value.mask) >> std::countr_zero(value.mask);
    std::memcpy(at + i * bytes, &bits, std::min(bytes, 8u));
  }
}

namespace {

void place_variables(Module &module) {
  memory::DeviceMemory &memory = *module.context->device->memory;
  const auto &variables = module.ptx->variables;
  module.addresses.resize(variables.size());
  if (module.library) place_managed(*module.library, module);
  for (ptx::Index v = 0; v < variables.size(); v++) {
    if (!in_memory(variables[v]) || variables[v].size == 0 || module.addresses[v]) continue;
    auto kind = variables[v].managed ? memory::RangeKind::managed : memory::RangeKind::module;
    module.addresses[v] = memory.allocate(variables[v].size, kind, variables[v].align);
    if (module.addresses[v] == 0) refuse(CUDA_ERROR_OUT_OF_MEMORY, "the module's variables do not fit into memory");
  }
  for (ptx::Index v = 0; v < variables.size(); v++)
    if (module.addresses[v] && !(module.library && variables[v].managed)) initialise(module, v);
  if (module.library) initialise_managed(*module.library, module);
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
  for (size_t v = 0; v < addresses.size(); v++)
    if (addresses[v] && !(library && ptx->variables[v].managed)) context->device->memory->release(addresses[v]);
}

Module *load_module(Context &context, const void *image, Library *library) {
  require(image != nullptr, "no image");
  const DeviceLimits &limits = context.device->limits;
  Chosen chosen = choose(image, limits, settings().driver_version);
  const int version = written_version(chosen.ptx);
  if (!chosen.compiled) refuse_newer_ptx(version, settings().driver_version);
  ptx::Parsed parsed = ptx::parse(std::move(chosen.ptx));
  if (parsed.error) refuse(CUDA_ERROR_INVALID_PTX, parsed.error->what() + hint_of_newer_ptx(version));
  const ptx::Module &code = *parsed.module;
  if (!runs_on(code.target, limits))
    refuse(CUDA_ERROR_INVALID_PTX,
           "PTX for " + std::string(code.target) + " does not run on sm_" + std::to_string(limits.capability()));
  auto module = std::make_unique<Module>();
  module->context = &context;
  module->library = library;
  module->ptx = std::move(parsed.module);
  module->resources = std::move(chosen.resources);
  place_variables(*module);
  Module *result = module.get();
  context.modules.insert(std::move(module));
  make_alive(result);
  return result;
}

Kernel *find_kernel(Module &module, const std::string &name) {
  if (auto found = module.kernels.find(name); found != module.kernels.end()) return found->second.get();
  auto function = module.ptx->function_index.find(name);
  if (function == module.ptx->function_index.end()) return nullptr;
  const ptx::Function &entry = module.ptx->functions[function->second];
  if (!entry.entry || !entry.defined) return nullptr;
  Built built = build(module.ptx, function->second, module.addresses, {settings().run.observed()});
  if (built.error)
    refuse(CUDA_ERROR_INVALID_PTX, "kernel " + readable_name(name) + ": " + built.error->what() +
                                       hint_of_newer_ptx(written_version(module.ptx->source)));
  auto kernel = std::make_unique<Kernel>();
  kernel->module = &module;
  kernel->function = function->second;
  kernel->name = name;
  kernel->parameters = parameters_of(*module.ptx, entry);
  kernel->program = built.program;
  if (auto known = module.resources.find(name); known != module.resources.end()) kernel->resources = known->second;
  if (module.library)
    if (auto shared = module.library->kernels.find(name); shared != module.library->kernels.end())
      for (const auto &[attribute, value] : shared->second->attributes[module.context->device])
        set_function_attribute(*kernel, attribute, value);
  Kernel *result = kernel.get();
  module.kernels[name] = std::move(kernel);
  make_alive(result);
  return result;
}

void unload(Module *module) {
  for (const auto &[name, kernel] : module->kernels) make_dead(kernel.get());
  erase_owned(module->context->modules, module);
}

const ptx::EntryLimits &Kernel::limits() const {
  return module->ptx->functions[function].limits;
}

Module &module_of(Library &library, Context &context) {
  Module *&module = library.modules[&context];
  if (!module) module = load_module(context, library.image.data(), &library);
  return *module;
}

Kernel &kernel_of(CUfunction function, Context &context) {
  LibraryKernel *shared = find_object<LibraryKernel>(function);
  if (!shared) return object<Kernel>(function);
  Kernel *kernel = find_kernel(module_of(*shared->library, context), shared->name);
  if (!kernel) refuse(CUDA_ERROR_NOT_FOUND, "the library has no kernel " + shared->name);
  return *kernel;
}

}  // namespace fa::emu::driver
