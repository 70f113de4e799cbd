// The GPUs of this machine: what the driver reports of each, and what the library makes of it.
#pragma once

#include <string>
#include <vector>

namespace fa::tool {

struct Gpu {
  std::string name;  // "" where the driver does not tell, as all of these
  std::string arch;  // "sm_80"
  int multiprocessors = 0;
  double memory_gib = 0;
  std::string kernel;              // that serves f16 there, "" when none does
  std::string unavailable_reason;  // then the library's
};

struct Gpus {
  std::string driver;     // the version of CUDA that it is for, "13.0"; "" without one
  std::vector<Gpu> list;  // by CUDA's numbers
  std::string why_none;   // the library's reason where the list is empty, else ""
};

/// Prepares an attention on each GPU, so that what keeps one from serving just now is seen, too.
Gpus find_gpus();

}  // namespace fa::tool
