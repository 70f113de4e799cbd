#include "driver/managed.h"

#include <algorithm>

#include "driver/fatbin.h"
#include "driver/variables.h"
#include "ptx/parser.h"

namespace fa::emu::driver {

namespace {

bool is_placed(const Module &module, const ptx::InitialValue &value) {
  auto found = module.ptx->variable_index.find(value.symbol);
  return found == module.ptx->variable_index.end() || module.addresses[found->second] != 0;
}

}  // namespace

void place_managed(Library &library, Module &module) {
  auto &devices = process().devices;
  for (ptx::Index v = 0; v < module.ptx->variables.size(); v++) {
    const ptx::Variable &variable = module.ptx->variables[v];
    if (!variable.managed || !in_memory(variable) || variable.size == 0) continue;
    auto found = library.managed.find(std::string(variable.name));
    if (found == library.managed.end()) {
      ManagedVariable place;
      place.bytes = variable.size;
      place.address = devices[0]->memory->allocate(variable.size, memory::RangeKind::managed, variable.align);
      if (!place.address) refuse(CUDA_ERROR_OUT_OF_MEMORY, "the library's managed variables do not fit into memory");
      for (size_t i = 1; i < devices.size(); i++)
        devices[i]->memory->add_host(reinterpret_cast<void *>(place.address), place.bytes, memory::RangeKind::managed);
      found = library.managed.emplace(variable.name, place).first;
    }
    module.addresses[v] = found->second.address;
  }
}

void initialise_managed(Library &library, Module &module) {
  for (ptx::Index v = 0; v < module.ptx->variables.size(); v++) {
    const ptx::Variable &variable = module.ptx->variables[v];
    auto found = library.managed.find(std::string(variable.name));
    if (!variable.managed || found == library.managed.end() || found->second.initialised) continue;
    if (!std::all_of(variable.values.begin(), variable.values.end(),
                     [&](const ptx::InitialValue &value) { return is_placed(module, value); }))
      continue;
    initialise(module, v);
    found->second.initialised = true;
  }
}

const ManagedVariable &managed_variable(Library &library, const char *name) {
  require(name != nullptr, "no name");
  if (library.managed.empty()) {
    Chosen chosen = choose(library.image.data(), process().devices[0]->limits, settings().driver_version);
    auto parsed = ptx::parse(std::move(chosen.ptx));
    if (parsed.error) refuse(CUDA_ERROR_INVALID_PTX, parsed.error->what());
    Module module;  // of no context: it only lends its addresses
    module.library = &library;
    module.ptx = std::move(parsed.module);
    module.addresses.resize(module.ptx->variables.size());
    place_managed(library, module);
    initialise_managed(library, module);
  }
  auto found = library.managed.find(name);
  if (found == library.managed.end())
    refuse(CUDA_ERROR_NOT_FOUND, std::string("the library has no managed variable ") + name);
  return found->second;
}

Library::~Library() {
  auto &devices = process().devices;
  for (const auto &[name, place] : managed) {
    for (size_t i = 1; i < devices.size(); i++)
      devices[i]->memory->remove_host(reinterpret_cast<void *>(place.address));
    devices[0]->memory->release(place.address);
  }
}

}  // namespace fa::emu::driver
