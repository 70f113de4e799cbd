#include "cuda/toolkit.h"

#include <algorithm>

#ifndef FA_KERNEL_CUDA_VERSION
#define FA_KERNEL_CUDA_VERSION 12000
#endif

namespace fa::cuda {
namespace {

constexpr int oldest_driver = 12000;  // has the functions of driver.inc

struct Release {
  int version;
  const char *driver;
};

/// The first driver of each release (NVIDIA's release notes of the toolkit).
constexpr Release releases[] = {
    {12000, "525 or later"}, {12010, "530 or later"}, {12020, "535 or later"}, {12030, "545 or later"},
    {12040, "550 or later"}, {12050, "555 or later"}, {12060, "560 or later"}, {12080, "570 or later"},
    {12090, "575 or later"}, {13000, "580 or later"}, {13010, "590 or later"},
};

}  // namespace

const int kernel_cuda_version = FA_KERNEL_CUDA_VERSION;

int needed_driver_version(int cuda_version) {
  return std::max(cuda_version / 1000 * 1000, oldest_driver);
}

bool makes_family_code(int cuda_version) {
  return cuda_version >= 12090;
}

int cuda_of_ptx(int major, int minor) {
  // Minor versions are those of CUDA but from 12.6 to 12.9: 12.6 has the PTX of 12.5.
  if (major == 8 && minor > 5) minor++;
  return (major + 4) * 1000 + minor * 10;
}

const char *driver_for(int version) {
  for (const Release &release : releases)
    if (release.version >= version) return release.driver;
  return "the newest";
}

}  // namespace fa::cuda
