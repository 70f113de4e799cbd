// What `fa bench` calls with: random tensors, and workspaces.
#pragma once

#include <fa.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "npy.h"

namespace fa::tool {

/// Nearly normal numbers.
Array random_array(fa_dtype dtype, std::vector<int64_t> shape, uint64_t seed);

/// An array of four dimensions, contiguous.
fa_tensor tensor_of(Array *array, fa_dtype dtype);

/// A workspace for as long as it lives.
class BenchWorkspace {
 public:
  /// The workspace of a call that needs this many bytes: nullptr for none.
  void *allocate(size_t bytes);

 private:
  std::vector<std::byte> memory_;
};

}  // namespace fa::tool
