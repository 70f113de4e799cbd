// FA_EMU_FAIL by the name of a function: every function of the driver can be made to fail. In separate processes, as
// settings are read once: run as emulator.driver.failing.
#include <sys/wait.h>
#include <unistd.h>

#include "fixture.h"

namespace {

using namespace emulated;

constexpr const char *symbols[] = {
#define EMU_FUNCTION(name, version, symbol, suffix) #symbol,
#include "driver/functions.inc"
#undef EMU_FUNCTION
};

/// The result of f in a process where FA_EMU_FAIL has this value.
template <class F>
int in_child(const std::string &value, F f) {
  const pid_t child = fork();
  if (child == 0) {
    setenv("FA_EMU_FAIL", value.c_str(), 1);
    std::_Exit(f());
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

bool runs_alone() {
  return std::getenv("FA_EMU_FAIL") != nullptr;
}

/// They only translate numbers, or do nothing.
bool cannot_fail(const std::string &name) {
  for (const char *one : {"cuGetErrorName", "cuGetErrorString", "cuProfilerStart", "cuProfilerStop"})
    if (name == one) return true;
  return false;
}

TEST(Failing, EveryFunction) {
  if (!runs_alone()) GTEST_SKIP() << "run as emulator.driver.failing";
  int failed = 0;
  for (const std::string symbol : symbols) {
    const size_t version = symbol.rfind("_v");
    const std::string name = version + 3 == symbol.size() ? symbol.substr(0, version) : symbol;
    if (cannot_fail(name)) continue;
    const int result = in_child(name, [&] {
      using Any = int (*)(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t,
                          uint64_t, uint64_t, uint64_t);
      uint64_t place[64] = {};
      const auto at = reinterpret_cast<uint64_t>(place);
      const auto call = reinterpret_cast<Any>(function(symbol.c_str()));
      return call(at, at, at, at, at, at, at, at, at, at, at, at) == CUDA_ERROR_UNKNOWN ? 0 : 1;
    });
    EXPECT_EQ(result, 0) << symbol << " does not fail with FA_EMU_FAIL=" << name;
    failed++;
  }
  EXPECT_GT(failed, 250);
}

TEST(Failing, ACallByItsNumberAmongThoseOfItsFunction) {
  if (!runs_alone()) GTEST_SKIP() << "run as emulator.driver.failing";
  EXPECT_EQ(in_child("cuDeviceGetAttribute:2",
                     [] {
                       int value = 0, count = 0;
                       if (call("cuInit", 0u) != CUDA_SUCCESS) return 1;
                       if (call("cuDeviceGetCount", &count) != CUDA_SUCCESS) return 2;
                       if (call("cuDeviceGetAttribute", &value, 16, 0) != CUDA_SUCCESS) return 3;
                       if (call("cuDeviceGetAttribute", &value, 16, 0) != CUDA_ERROR_UNKNOWN) return 4;
                       if (call("cuDeviceGetAttribute", &value, 16, 0) != CUDA_SUCCESS) return 5;
                       return 0;
                     }),
            0);
}

TEST(Failing, NoSuchFunction) {
  if (!runs_alone()) GTEST_SKIP() << "run as emulator.driver.failing";
  for (const char *value : {"cuNothing", "cuInit:0", "cuInit:soon", "-1"})
    EXPECT_EQ(in_child(value, [] { return call("cuInit", 0u) == CUDA_ERROR_INVALID_VALUE ? 0 : 1; }), 0) << value;
}

}  // namespace
