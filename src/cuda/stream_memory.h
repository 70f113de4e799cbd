// Memory in the order of a stream, for the length of a call without a workspace. In a capture it becomes nodes of the
// graph.
#pragma once

#include "cuda/device.h"

namespace fa::cuda {

class StreamMemory {
 public:
  explicit StreamMemory(CUstream stream) : stream_(stream) {}
  ~StreamMemory();
  StreamMemory(const StreamMemory &) = delete;
  StreamMemory &operator=(const StreamMemory &) = delete;

  /// FA_OK, or an error that core/status.h describes. sized_by: the function that says how large a workspace is; less:
  /// the calls that need less of it.
  fa_status allocate(const Device &device, int64_t bytes, const char *sized_by, const char *less);

  char *data() const { return reinterpret_cast<char *>(address_); }

 private:
  CUstream stream_;
  CUdeviceptr address_ = 0;
};

}  // namespace fa::cuda
