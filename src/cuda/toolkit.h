// The CUDA toolkit that kernels were compiled with, and the drivers that run them. Versions are CUDA's: 12040 for 12.4.
#pragma once

namespace fa::cuda {

/// The version of CUDA of all kernels of this build: 13000 for 13.0; 0 where each image names one (FA_KERNELS=load,
/// image.h).
extern const int kernel_cuda_version;

/// The oldest driver's that runs a toolkit's machine code, as drivers of the toolkit's major version do, whatever their
/// minor version.
int needed_driver_version(int cuda_version = kernel_cuda_version);

/// True when a toolkit makes machine code for a family of architectures, which newer members run, too.
bool makes_family_code(int cuda_version);

/// The first toolkit whose PTX has a version, 9.0 of 13.0.
int cuda_of_ptx(int major, int minor);

/// The first driver for a version, as error texts name it: "535 or later".
const char *driver_for(int version);

}  // namespace fa::cuda
