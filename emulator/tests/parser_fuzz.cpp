// The fuzzer's function: any bytes are a module or an error that names a line of the text.
#include <cstdint>
#include <cstdlib>
#include <string>

#include "ptx/parser.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  auto parsed = fa::emu::ptx::parse(std::string(reinterpret_cast<const char *>(data), size));
  if (parsed.error.has_value() == (parsed.module != nullptr)) std::abort();
  if (parsed.error && parsed.error->what().empty()) std::abort();
  return 0;
}
