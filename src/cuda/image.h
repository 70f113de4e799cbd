// The compiled kernels of this build, as kernels/built.inc lists them, and the rule for where each runs.
#pragma once

#include <fa.h>

#include <span>

#include "common/images.h"
#include "cuda/device.h"

namespace fa::cuda {

/// One line of built.inc: a fatbin of machine code and PTX. Those of one architecture and family stand together there.
struct Image {
  const char *name;    // of its line of the dispatch table: "cuda.sm_80.mma"
  const char *arch;    // "sm_80"
  const char *family;  // "mma"; "combine" for the kernel that ends split calls
  fa_dtype dtype;      // of q, k and v; FA_F32: of any
  int dim;             // head dimensions up to this one
  kernels::Tile (*tile)(int sm, int dim, kernels::Entry entry);
  const unsigned char *data;  // nullptr: in a file of its own

  /// 80 for "sm_80".
  int sm() const;

  kernels::Tile tile_of(kernels::Entry entry) const { return tile(sm(), dim, entry); }

  /// Not every family has every entry point.
  bool has(kernels::Entry entry) const { return tile_of(entry).rows > 0; }
};

/// All of them, in the order of the list.
std::span<const Image> images();

/// True when code for an architecture runs on a device: machine code of its own major version, or PTX that the driver
/// compiles. Code for "sm_90a" runs on that one only, and "sm_100a" on its family.
bool runs_on(const char *arch, const Device &device);

/// True when a device runs an image as machine code, without compiling.
bool runs_compiled(const char *arch, const Device &device);

/// The bytes of an image that lies in a file, in FA_KERNEL_PATH's folder if that is set: read anew by every call, for
/// the caller to free. nullptr after an error that core/status.h describes: no such file, or cut off.
char *read_image(const Image &image);

}  // namespace fa::cuda
