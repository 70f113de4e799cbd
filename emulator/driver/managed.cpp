#include "driver/managed.h"

#include "driver/fatbin.h"
#include "driver/variables.h"
#include "ptx/parser.h"

namespace fa::emu::driver {

void place_managed(Library &library, Module &module) {
  auto &devices = process().devices;
  std::vector<ptx::Index> added;
  for (ptx::Index v = 0; v < module.ptx->variables.size(); v++) {
    const ptx::Variable &variable = module.ptx->variables[v];
    if (!variable.managed || !in_memory(variable) || variable.size == 0) continue;
    ManagedVariable &place = library.managed[std::string(variable.name)];
    if (!place.address) {
      place.bytes = variable.size;
      place.address = devices[0]->memory->allocate(variable.size, memory::RangeKind::managed, variable.align);
      if (!place.address) refuse(CUDA_ERROR_OUT_OF_MEMORY, "the library's managed variables do not fit into memory");
      for (size_t i = 1; i < devices.size(); i++)
        devices[i]->memory->add_host(reinterpret_cast<void *>(place.address), place.bytes, memory::RangeKind::managed);
      added.push_back(v);
    }
    module.addresses[v] = place.address;
  }
  for (ptx::Index v : added) initialise(module, v);
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
