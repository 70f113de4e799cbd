// Shared by the tests of the CUDA engine: calls whose tensors are where a test wants them, contexts, streams.
#pragma once

#include <fa.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "emulator/tests/client.h"
#include "reference/compare.h"
#include "reference/instance.h"
#include "support/child.h"
#include "support/log.h"

namespace cuda_test {

using emulated::call;
using reference::Case;
using reference::Instance;
using test::in_child;
using test::Log;
using test::Variables;

/// How many GPUs there are: one or more on hardware, two under the emulator.
int device_count();

/// The driver reads the emulator's settings when it is loaded, and is of no use after a fork: children with other
/// settings begin before the process has loaded it. No child would ever see its call fail otherwise.
bool driver_is_loaded();
inline constexpr const char *needs_its_own_process =
    "this process has used the driver, whose calls then fail in no child of it: run this test in a separate process";

/// Whether libcuda.so.1 is the emulator. Throws where there is none, and where FA_EMU_DEVICE asks for the emulator and
/// another one is found. A process that has not loaded the driver has not done so afterwards.
bool is_emulated();
inline constexpr const char *needs_the_emulator =
    "the driver is no emulator, and no other driver fails by request or has devices of other kinds";

/// Tests of the emulator's devices, and of failures that it makes, are skipped with any other driver.
class OnTheEmulator : public testing::Test {
 protected:
  void SetUp() override {
    if (!is_emulated()) GTEST_SKIP() << needs_the_emulator;
  }
};

/// Whether a child can have this device ("sm_80"): any on the emulator, else the machine's own.
bool can_be(const std::string &device);

/// A device's primary context, current for the life of the object; or a new one, which ends with it.
class InContext {
 public:
  enum Kind { primary, own };
  explicit InContext(int device = 0, Kind kind = primary);
  ~InContext();
  InContext(const InContext &) = delete;
  InContext &operator=(const InContext &) = delete;

  /// Ends it early.
  void end();

  CUcontext handle = nullptr;

 private:
  int device_;
  Kind kind_;
};

/// A stream of the current context.
class Stream {
 public:
  Stream() { EXPECT_EQ(call("cuStreamCreate", &handle, 1u), CUDA_SUCCESS); }
  ~Stream() { call("cuStreamDestroy_v2", handle); }
  Stream(const Stream &) = delete;
  Stream &operator=(const Stream &) = delete;
  CUstream handle = nullptr;
};

enum class Where { device, managed, pinned, registered, host };

/// A call of a case, its tensors in the current context's memory or elsewhere. Layouts have no gaps.
class Call {
 public:
  explicit Call(const Case &c, Where where = Where::device);
  ~Call();
  Call(const Call &) = delete;
  Call &operator=(const Call &) = delete;

  /// Copies an array's present contents from the instance to where the call reads it.
  void update(const reference::GuardedInts &array);

  /// Copies tensors' present contents likewise.
  void update(const reference::Tensor &tensor) { copy_in(address_of(tensor), tensor); }

  /// Memory of a kind for as long as the call lives, where it is registered; else the caller's to free.
  void *place(size_t bytes, Where where);

  /// Waits, copies the outputs back and compares them: "" when they are right.
  std::string failure();

  Instance instance;
  fa_forward_args args;

 private:
  void *address_of(const reference::Tensor &tensor) const { return moved_.at(tensor.view().data); }
  void copy_in(void *to, const reference::Tensor &tensor);
  void move(const reference::Tensor &tensor, fa_tensor *view);
  void move(const reference::GuardedInts &array, const int32_t **pointer);

  Where where_;
  std::map<const void *, void *> moved_;  // from where the instance has it
  std::map<void *, size_t> registered_;   // the lengths of mappings
};

/// An op on device 0 unless desc says otherwise, destroyed with the object.
class Op {
 public:
  explicit Op(const fa_desc &desc) { status = fa_create(&desc, &op); }
  ~Op() { fa_destroy(op); }
  Op(const Op &) = delete;
  Op &operator=(const Op &) = delete;
  std::string kernel() const { return fa_op_kernel_name(op); }

  fa_op *op = nullptr;
  fa_status status;
};

/// The case's desc for a device.
fa_desc desc_of(const Case &c, fa_device device = FA_DEVICE_CUDA, int32_t index = 0);

/// Runs a case; "" when its result is right, else why not. *log is the library's log of it.
std::string run(const Case &c, std::string *log);

/// "sm_90a": the architecture of an op's kernel.
std::string arch_of(const Op &op);

/// True when this build has kernels for an architecture ("sm_80"), or that kernel ("cuda.sm_80.mma").
bool is_built(const std::string &name);

/// Small, of two heads a key/value head, with keys that need two blocks of any kernel.
Case small_case();

/// Split in n parts.
Case split_case(int32_t n = 3);

/// "" when fa_last_error() has all words, else the missing words, and the text.
std::string last_error_lacks(const std::vector<std::string> &words);

}  // namespace cuda_test
