// CUDA contexts: which one a call works in, and making it the thread's own meanwhile.
#pragma once

#include "cuda/device.h"

namespace fa::cuda {

/// A context and its identity, which no later context has even where it has the same handle.
struct Context {
  CUcontext handle = nullptr;
  unsigned long long id = 0;
};

/// Makes a context of a device the thread's current one for as long as this lives.
class InContext {
 public:
  InContext() = default;
  ~InContext();
  InContext(const InContext &) = delete;
  InContext &operator=(const InContext &) = delete;

  /// Enters wanted; where that is null, stays in the current context if it is one of the device, else enters the
  /// device's primary one, which the process retains from then on. FA_OK, or an error that core/status.h describes.
  fa_status enter(const Device &device, CUcontext wanted);

  const Context &context() const { return context_; }

 private:
  fa_status push(CUcontext handle);

  Context context_;
  int pushed_ = 0;
};

/// Refuses a stream of another context than the current one, which context describes: a library's kernel would run in
/// the stream's. A stream that is being captured is left to the launch. FA_OK, or an error that core/status.h
/// describes.
fa_status check_stream(CUstream stream, const Context &context);

}  // namespace fa::cuda
