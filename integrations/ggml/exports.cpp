// The symbol that ggml looks for in a library named by GGML_BACKEND_PATH.
#include <exception>
#include <string>

#include "backend.h"
#include "host.h"
#include "plugin/log.h"

extern "C" __attribute__((visibility("default"))) ggml_backend_reg_t ggml_backend_init();

ggml_backend_reg_t ggml_backend_init() try {
  fa_ggml::Host &host = fa_ggml::host();
  std::string problem = fa_ggml::find_host(__builtin_return_address(0), &host);
  if (problem.empty()) problem = fa_ggml::compare_with_headers(host);
  if (problem.empty()) {
    host.marks_nodes = fa_ggml::marks_nodes(host);
    return fa_ggml::registration();
  }
  const std::string version = host.ggml_version ? host.ggml_version() : "of unknown version";
  fa_plugin::print("not used by ggml " + version + ": " + problem +
                   ". Build libggml-fa.so with the headers of this ggml (-DFA_GGML_INCLUDE)");
  return nullptr;
} catch (const std::exception &error) {
  fa_plugin::print(std::string("not used: ") + error.what());
  return nullptr;
}
