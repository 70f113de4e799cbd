// The symbol that ggml looks for in a library named by GGML_BACKEND_PATH.
#include <cstdio>
#include <exception>
#include <string>

#include "backend.h"
#include "host.h"

extern "C" __attribute__((visibility("default"))) ggml_backend_reg_t ggml_backend_init();

ggml_backend_reg_t ggml_backend_init() try {
  fa_ggml::Host &host = fa_ggml::host();
  std::string problem = fa_ggml::find_host(__builtin_return_address(0), &host);
  if (problem.empty()) problem = fa_ggml::compare_with_headers(host);
  if (problem.empty()) return fa_ggml::registration();
  const char *version = host.ggml_version ? host.ggml_version() : "of unknown version";
  std::fprintf(
      stderr,
      "libfa: ggml: not used by ggml %s: %s. Build libggml-fa.so with the headers of this ggml (-DFA_GGML_INCLUDE)\n",
      version, problem.c_str());
  return nullptr;
} catch (const std::exception &error) {
  std::fprintf(stderr, "libfa: ggml: not used: %s\n", error.what());
  return nullptr;
}
