// The compiled kernels of this build, as kernels/built.inc lists them, and the rule for where each runs.
#pragma once

#include <algorithm>
#include <span>

#include "common/quantised_params.h"
#include "core/engine.h"
#include "cuda/device.h"

namespace fa::cuda {

/// One line of built.inc: a fatbin of machine code and PTX. Those of one architecture and family are consecutive.
struct Image {
  const char *name;  // of its line of the dispatch table: "cuda.sm_80.mma"
  const kernels::Arch *arch;
  const char *family_name;  // "mma"
  const kernels::Family *family;
  kernels::Dtype dtype;                             // of q, k and v; f32: of any
  int dim;                                          // head dimensions up to this one
  const unsigned char *data;                        // nullptr: in a file
  const char *operation = "";                       // that its family is of: "forward"
  const char *build_symbol = "";                    // that only images of this build have
  const kernels::QuantisedFamily *codes = nullptr;  // the family, where it reads quantised keys and values

  constexpr kernels::TileConfig tile_of(kernels::Entry entry) const { return family->tile(*arch, dim, entry); }

  /// Not every family has every entry point.
  constexpr bool has(kernels::Entry entry) const { return tile_of(entry).rows > 0; }
};

/// The most images of an op.
constexpr int max_images = 0
#define FA_FAMILY(...) +1
#include "families.inc"
#undef FA_FAMILY
    ;

/// The kernels of an op for one operation: the images that support its attention, best first, and the one whose kernels
/// calls of all of these need (combine; delta and dsinks), nullptr where FA_IMAGE_FILTER left it out. The last image
/// supports every call, unless a kernel was forced by name or FA_IMAGE_FILTER left that image out. Empty where this
/// build lacks the operation.
struct KernelSet {
  const Image *images[max_images] = {};
  int count = 0;
  const Image *shared = nullptr;
  bool alone = false;  // a kernel was forced by name

  const Image *const *begin() const { return images; }
  const Image *const *end() const { return images + count; }

  /// The number of an image; behind the others the shared one's.
  int index_of(const Image *image) const { return static_cast<int>(std::find(begin(), end(), image) - begin()); }
};

/// All of them, in the order of the list.
std::span<const Image> images();

enum class Runs { no, with_newer_driver, yes };

/// Whether a toolkit's code for an architecture runs on a device: machine code as far as its reach goes, or PTX that
/// the driver compiles if it is as new as the toolkit, which is the newest where it is not known yet.
Runs runs_on(const kernels::Arch &arch, int cuda_version, const Device &device);

/// The version of CUDA that compiled an image. A build without embedded images reads it from the image's file: 0, with
/// the reason in *why, where there is no such file; it may come later. A version that was found is remembered.
int cuda_version_of(const Image &image, MessageBuffer *why);

/// The bytes of an image in a file, in FA_KERNEL_PATH's folder if that is set: read again by every call, for
/// the caller to free. nullptr after an error that core/status.h describes: no such file, or cut off.
char *read_image(const Image &image);

}  // namespace fa::cuda
