// Tables of tools (profilers, debuggers): the emulator has no tools, so their hooks stay empty.
#include <cstdint>

#include "driver/export_table.h"

using namespace fa::emu::driver;

namespace {

// Flags, one for a function of the runtime and one for a domain: whether a tool wants to be called.
uint32_t wanted_functions[1024];
uint8_t wanted_domains[14];

CUresult get_functions(void **flags, size_t *count) {
  *flags = wanted_functions;
  *count = std::size(wanted_functions);
  return CUDA_SUCCESS;
}
CUresult get_domains(void **flags, size_t *count) {
  *flags = wanted_domains;
  *count = std::size(wanted_domains);
  return CUDA_SUCCESS;
}

struct Hooks {
  static constexpr const char *name = "TOOLS_RUNTIME_CALLBACK_HOOKS";
  static constexpr ExportId id = {0xa0, 0x94, 0x79, 0x8c, 0x2e, 0x74, 0x2e, 0x74,
                                  0x93, 0xf2, 0x08, 0x00, 0x20, 0x0c, 0x0a, 0x66};
  static constexpr size_t words = 7;
  static constexpr bool sized = true;
};
const ExportTable<Hooks> hooks({{2, address_of(get_functions)}, {6, address_of(get_domains)}});

struct Tls {
  static constexpr const char *name = "TOOLS_TLS";
  static constexpr ExportId id = {0x42, 0xd8, 0x5a, 0x81, 0x23, 0xf6, 0xcb, 0x47,
                                  0x82, 0x98, 0xf6, 0xe7, 0x8a, 0x3a, 0xec, 0xdc};
  static constexpr size_t words = 4;
  static constexpr bool sized = true;
};
const ExportTable<Tls> tls({});

}  // namespace
