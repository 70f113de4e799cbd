// The mark of the build in every image: a symbol whose name holds the hash of the sources that host and image share
// (archs.inc, params.h, ...). The host looks for it.
#pragma once

#define FA_CONCATENATE(a, b) a##b
#define FA_BUILD_OF(hash) FA_CONCATENATE(fa_build_, hash)

extern "C" __device__ int FA_BUILD_OF(FA_KERNEL_HASH) = 1;
