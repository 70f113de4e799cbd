// Drivers of CUDA 12, of which each lacks functions that later ones have, under a libfa whose kernels are of CUDA 12.9.
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <sstream>

#include "cuda/fixture.h"

#ifdef TEST_FA
#include "tool/program.h"
#endif

namespace cuda_test {
namespace {

enum : int { fine = 0, wrong = 1 };

/// From the first that has all functions which libfa cannot do without to the first of CUDA 13. The functions of 12.4
/// and 12.5, graphs' edges of 12.3 and zstd of 12.4 come between.
constexpr const char *drivers[] = {"12000", "12020", "12030", "12040", "12050", "12080", "12090", "13000"};

/// Those whose images the suite has.
std::vector<std::string> devices() {
  std::vector<std::string> list;
  std::istringstream names(TEST_DEVICES);
  for (std::string name; std::getline(names, name, ',');) list.push_back(name);
  return list;
}

/// sm_90 has images for f32 alone; the others for f16, and head dimensions up to 64.
Case case_for(const std::string &device, int32_t splits) {
  Case c = split_case(splits);
  c.q = device == "sm_90" ? FA_F32 : FA_F16;
  c.d = device == "sm_90" ? 64 : 40;
  return c;
}

int complain(const std::string &what) {
  std::fprintf(stderr, "%s\n", what.c_str());
  return wrong;
}

/// A call on a stream, and the same from a graph; both right.
int run(const Case &c) {
  const InContext in;
  const Stream stream;
  const Op op(desc_of(c));
  if (op.status != FA_OK) return complain(fa_last_error());
  Call own(c), captured(c);
  own.args.stream = captured.args.stream = stream.handle;
  if (fa_forward(op.op, &own.args) != FA_OK) return complain(fa_last_error());
  CUgraph graph = nullptr;
  CUgraphExec exec = nullptr;
  if (call("cuStreamBeginCapture_v2", stream.handle, 0) != CUDA_SUCCESS) return complain("no capture");
  if (fa_forward(op.op, &captured.args) != FA_OK) return complain(std::string("captured: ") + fa_last_error());
  if (call("cuStreamEndCapture", stream.handle, &graph) != CUDA_SUCCESS ||
      call("cuGraphInstantiateWithFlags", &exec, graph, 0ull) != CUDA_SUCCESS ||
      call("cuGraphLaunch", exec, stream.handle) != CUDA_SUCCESS)
    return complain("the graph does not run");
  for (const std::string &failure : {own.failure(), captured.failure()})
    if (!failure.empty()) return complain(failure);
  return fine;
}

struct Drivers : testing::Test {
  void SetUp() override {
    if (!std::filesystem::exists(std::getenv("FA_KERNEL_PATH"))) GTEST_SKIP() << "CUDA 12 could not be fetched";
  }
};

// Each driver, with its functions: with and without a second kernel, which depends on the first.
TEST_F(Drivers, EachRunsCalls) {
  for (const std::string &device : devices())
    for (const char *driver : drivers)
      for (const int32_t splits : {0, 3})
        EXPECT_EQ(in_child({{"FA_EMU_DRIVER", driver}, {"FA_EMU_DEVICE", device.c_str()}},
                           [&] { return run(case_for(device, splits)); }),
                  fine)
            << driver << ", " << device << ", " << splits << " splits";
}

// In either form of the function that says so.
TEST_F(Drivers, AStreamOfAnotherContextIsNamed) {
  const std::string device = devices().front();
  for (const char *driver : drivers) {
    const auto body = [&] {
      const Case c = case_for(device, 0);
      const InContext in;
      Call own(c);
      const Op op(desc_of(c));
      const InContext other(0, InContext::own);
      const Stream stream;
      own.args.stream = stream.handle;
      const fa_status status = fa_forward(op.op, &own.args);
      const std::string lacks = last_error_lacks({"args.stream", "another CUDA context"});
      return status == FA_ERROR_INVALID_ARGUMENT && lacks.empty() ? int(fine) : complain(lacks);
    };
    EXPECT_EQ(in_child({{"FA_EMU_DRIVER", driver}, {"FA_EMU_DEVICE", device.c_str()}}, body), fine) << driver;
  }
}

TEST_F(Drivers, OneBeforeCuda12IsRefused) {
  for (const char *driver : {"11040", "11080"}) {
    const auto body = [] {
      const Op op(desc_of(small_case()));
      const std::string lacks = last_error_lacks({"FA_DEVICE_CUDA", "CUDA 11", "for 12.0", "525 or later"});
      return op.status == FA_ERROR_NO_DEVICE && lacks.empty() ? int(fine) : complain(lacks);
    };
    EXPECT_EQ(in_child({{"FA_EMU_DRIVER", driver}}, body), fine) << driver;
  }
}

// A GPU that the build has no machine code for; libfa does not know 130 by name.
TEST_F(Drivers, PtxNeedsOneAsNewAsTheToolkit) {
  for (const char *driver : {"12000", "12080", "12090", "13000"}) {
    const bool knows = std::string(driver) >= "12090";
    const auto body = [&] {
      const Op op(desc_of(case_for("sm_130", 0)));
      if (knows && op.status == FA_OK) return int(fine);
      const std::string lacks = knows ? last_error_lacks({"cannot be opened"})  // an image that the suite does not have
                                      : last_error_lacks({"FA_DEVICE_CUDA", "sm_130", "PTX", "CUDA 12.9",
                                                          "575 or later", "FA_ARCHS naming 130"});
      return op.status == FA_ERROR_NO_DEVICE && lacks.empty() ? int(fine) : complain(lacks);
    };
    EXPECT_EQ(in_child({{"FA_EMU_DRIVER", driver}, {"FA_EMU_DEVICE", "sm_130"}}, body), fine) << driver;
  }
}

#ifdef TEST_FA
std::string info(const std::string &driver, const std::string &device) {
  const test::Finished f =
      test::fa({"info"}, {{"FA_EMU_DRIVER", driver}, {"FA_EMU_DEVICE", device}, {"FA_EMU_QUIET", "1"}});
  EXPECT_EQ(f.code, 0) << f.err;
  return f.out;
}

bool has(const std::string &text, const std::string &words) {
  return text.find(words) != std::string::npos;
}

TEST_F(Drivers, TheToolSaysWhichImagesTheyTake) {
  if (!std::ranges::count(devices(), "sm_80")) GTEST_SKIP() << "FA_ARCHS leaves out 80";
  for (const char *driver : {"12000", "12080"}) {
    const std::string text = info(driver, "sm_80");
    EXPECT_TRUE(has(text, "CUDA 12.9 (driver 525 or later)")) << text;
    EXPECT_TRUE(has(text, "multiprocessors, 80.0 GiB: cuda.sm_80.mma")) << text;
    const std::string newer = info(driver, "sm_130");
    EXPECT_TRUE(has(newer, "no: device 0 (")) << newer;
    EXPECT_TRUE(has(newer, "which is of CUDA 12.9, and the driver, for CUDA 12.")) << newer;
  }
}
#endif

}  // namespace
}  // namespace cuda_test
