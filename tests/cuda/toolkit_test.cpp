// Which CUDA an image is of, and which drivers run it, as NVIDIA's release notes have it.
#include "cuda/toolkit.h"

#include <gtest/gtest.h>

namespace fa::cuda {
namespace {

struct Release {
  int cuda, ptx_major, ptx_minor;
};

// The table "PTX Release History" of the PTX ISA. 12.6 has the PTX of 12.5.
constexpr Release releases[] = {
    {12000, 8, 0}, {12010, 8, 1}, {12020, 8, 2}, {12030, 8, 3}, {12040, 8, 4}, {12050, 8, 5},
    {12070, 8, 6}, {12080, 8, 7}, {12090, 8, 8}, {13000, 9, 0}, {13010, 9, 1},
};

TEST(Toolkit, IsKnownByItsPtx) {
  for (const Release &release : releases) EXPECT_EQ(cuda_of_ptx(release.ptx_major, release.ptx_minor), release.cuda);
}

/// Machine code runs on all drivers of its major version.
TEST(Toolkit, NeedsADriverOfItsMajorVersion) {
  EXPECT_EQ(needed_driver_version(12040), 12000);
  EXPECT_EQ(needed_driver_version(12090), 12000);
  EXPECT_EQ(needed_driver_version(13010), 13000);
  EXPECT_EQ(needed_driver_version(0), 12000);  // of images that are not known yet: for the engine's own calls
}

TEST(Toolkit, MakesCodeForAFamilyFrom129On) {
  EXPECT_FALSE(makes_family_code(12080));
  EXPECT_TRUE(makes_family_code(12090));
}

}  // namespace
}  // namespace fa::cuda
