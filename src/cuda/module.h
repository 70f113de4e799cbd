// Kernels made ready in a context: loaded, resident, allowed the shared memory that they need. Once a context and
// image, for all ops of the process. They are the library's kernels, not the context's functions, so that they outlive
// a reset of the context, after which the driver itself loads them again.
#pragma once

#include "cuda/context.h"
#include "cuda/image.h"

namespace fa::cuda {

/// An image's kernels in a context, by kernels::Entry; null where the family has no such entry.
struct Module {
  CUkernel kernels[fa::kernels::entry_count] = {};

  CUkernel operator[](kernels::Entry entry) const { return kernels[static_cast<int>(entry)]; }
};

/// The share of its shared memory, in percent, that a multiprocessor is asked to set aside for a tile's blocks: all of
/// it where two or more fit only so, as the driver's own choice may leave room for one fewer. 0: the driver's choice.
int carveout_of(const kernels::TileConfig &tile, const Device &device);

/// Stores the module of an image in the current context, which is one of that device, loaded if need be; its kernels
/// stay as long as the process. An error has been described by core/status.h. stream: that of a call, whose capture
/// forbids loading; or nullptr.
fa_status find_module(const Image &image, const Device &device, const Context &context, const CUstream *stream,
                      Module *module);

}  // namespace fa::cuda
