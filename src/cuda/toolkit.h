// The CUDA toolkit that this build's kernels were compiled with, and the drivers that run them. Versions are CUDA's:
// 12040 for 12.4.
#pragma once

namespace fa::cuda {

/// The toolkit's: 13000 for 13.0.
extern const int kernel_cuda_version;

/// The oldest driver's that runs the kernels: as machine code, which drivers of the toolkit's major version run,
/// whatever their minor version.
int needed_driver_version();

/// True when a driver compiles the kernels' PTX, which one that is older than the toolkit does not know.
bool compiles_ptx(int driver_version);

/// True when machine code for a family of architectures was made, which newer members run, too.
bool makes_family_code();

/// The first driver for a version, as texts that say what would work name it: "535 or later".
const char *driver_for(int version);

}  // namespace fa::cuda
