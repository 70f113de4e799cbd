// The common part of modules and libraries: attributes of functions, variables, files and logs.
#pragma once

#include <string>
#include <vector>

#include "driver/state.h"

namespace fa::emu::driver {

void get_function_attribute(const Kernel &kernel, int attribute, int *value);
/// Refuses values that the device does not support.
void set_function_attribute(Kernel &kernel, int attribute, int value);
void get_global(Module &module, const char *name, CUdeviceptr *address, size_t *bytes);
std::vector<std::string> kernel_names(const ptx::Module &module);
/// A file's bytes, with a zero behind them.
std::vector<char> read_image(const char *path);

/// The buffer that CU_JIT_ERROR_LOG_BUFFER names.
class JitLog {
 public:
  JitLog(unsigned count, const CUjit_option *options, void **values);
  void write(const std::string &reason);

 private:
  char *text_ = nullptr;
  size_t bytes_ = 0;
  void **bytes_place_ = nullptr;
};

}  // namespace fa::emu::driver
