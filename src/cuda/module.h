// Kernels made ready in a context: loaded, resident, allowed the shared memory that they need. Once a context and
// image, for all ops of the process.
#pragma once

#include "cuda/context.h"
#include "cuda/image.h"

namespace fa::cuda {

constexpr int entry_count = 4;

/// An image's kernels in a context, by kernels::Entry; null where the family has no such entry.
struct Module {
  CUfunction functions[entry_count] = {};

  CUfunction operator[](kernels::Entry entry) const { return functions[static_cast<int>(entry)]; }
};

/// The module of an image in the current context, loaded if need be; it stays as long as the process. nullptr after an
/// error that core/status.h describes. stream: that of a call,
/// whose capture forbids loading; nullptr where there is none.
const Module *module_of(const Image &image, const Context &context, const CUstream *stream);

/// Drops what is known of a context's modules: the driver no longer knows them.
void forget_modules(const Context &context);

}  // namespace fa::cuda
