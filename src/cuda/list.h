// The images of this build as a constant, of which the dispatch table is made while compiling.
#pragma once

#include <cstddef>
#include <iterator>

#include "combine/tiles.h"
#include "common/params.h"
#include "cuda/image.h"
#include "mma/tiles.h"
#include "simt/tiles.h"

#ifdef FA_KERNELS_EMBEDDED
#define FA_CUDA_KERNEL(arch, family, dtype, dim) \
  extern "C" const unsigned char fa_image_##arch##_##family##_##dtype##_##dim[];
#include "built.inc"
#undef FA_CUDA_KERNEL
#define FA_IMAGE_DATA(name) name
#else
#define FA_IMAGE_DATA(name) nullptr
#endif

namespace fa::cuda {

#define FA_CUDA_KERNEL(arch, family, dtype, dim) \
  {"cuda." #arch "." #family,                    \
   #arch,                                        \
   #family,                                      \
   kernels::dtype,                               \
   dim,                                          \
   &kernels::family::tile,                       \
   FA_IMAGE_DATA(fa_image_##arch##_##family##_##dtype##_##dim)},
inline constexpr Image list[] = {
#include "built.inc"
    {}};  // there may be none
#undef FA_CUDA_KERNEL
inline constexpr size_t list_length = std::size(list) - 1;

}  // namespace fa::cuda
