// The global memory that an operation of a stream has touched, for the comparison with other operations.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "check/global_memory.h"

namespace fa::emu::check {

struct Footprint {
  /// Bytes that something else than a kernel reads or writes; strong: as a flag.
  struct Range {
    uint64_t begin = 0, end = 0;
    bool writes = false, strong = false;
  };
  std::vector<std::pair<uint64_t, std::unique_ptr<GlobalShadow::Page>>> pages;  // of a launch, by their number
  std::vector<Range> ranges;
  std::vector<uint64_t> released, acquired;  // flags, sorted; acquired: by loads, which may wait for them
};

}  // namespace fa::emu::check
