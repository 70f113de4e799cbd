// Every function as the first call of a process, one allocation after another failing: none aborts or lets an exception
// out, a function without errors does not fail, and once memory is back everything works. Work that a process does
// once, such as looking for a GPU's driver, happens here.
#include <cstdio>

#include "call.h"
#include "engine/allocation.h"
#include "reference/caller.h"
#include "support/child.h"

namespace api_test {
namespace {

/// FA_OK, or an error of memory that is short, which explains itself. A driver that could not be loaded, or that
/// failed, is one that is not there.
bool may_return(fa_status status, fa_device device = FA_DEVICE_AUTO) {
  if (status == FA_OK) return true;
  const bool of_gpu = device == FA_DEVICE_CUDA && (status == FA_ERROR_NO_DEVICE || status == FA_ERROR_DRIVER);
  return (status == FA_ERROR_OUT_OF_MEMORY || of_gpu) && *fa_last_error() != '\0';
}

bool kernels_are_told() {
  for (int32_t i = 0; i < fa_kernel_count(); ++i) {
    fa_kernel info = {};
    info.struct_size = sizeof info;
    if (fa_kernel_info(i, &info) != FA_OK || *info.name == '\0' || *info.compute_dtypes == '\0') return false;
  }
  return fa_kernel_count() > 0;
}

bool creates(fa_device device) {
  Call call;
  call.desc.device = device;
  fa_op *op = nullptr;
  const fa_status status = fa_create(&call.desc, &op);
  fa_destroy(op);
  return may_return(status, device) && (op != nullptr) == (status == FA_OK);
}

bool runs(fa_device device) {
  Call call;
  call.desc.device = device;
  call.args.num_splits = 2;
  fa_op *op = nullptr;
  fa_status status = fa_create(&call.desc, &op);
  size_t bytes = 0;
  if (status == FA_OK) status = fa_forward_workspace_size(op, &call.args, &bytes);
  if (status == FA_OK) status = fa_forward(op, &call.args);
  fa_destroy(op);
  return may_return(status, device);
}

struct First {
  const char *name;
  bool (*call)();
};

const First functions[] = {
    {"fa_kernel_count", [] { return fa_kernel_count() > 0; }},
    {"fa_kernel_info", kernels_are_told},
    {"fa_build_info", [] { return std::strstr(fa_build_info(), "cpu.generic") != nullptr; }},
    {"fa_create", [] { return creates(FA_DEVICE_AUTO); }},
    {"fa_create of the CPU", [] { return creates(FA_DEVICE_CPU); }},
    {"fa_create of a GPU", [] { return creates(FA_DEVICE_CUDA); }},
    {"fa_forward", [] { return runs(FA_DEVICE_AUTO); }},
    {"fa_forward on the CPU", [] { return runs(FA_DEVICE_CPU); }},
    {"fa_forward without an op", [] { return fa_forward(nullptr, nullptr) == FA_ERROR_INVALID_ARGUMENT; }},
    {"fa_forward_workspace_size",
     [] { return fa_forward_workspace_size(nullptr, nullptr, nullptr) == FA_ERROR_INVALID_ARGUMENT; }},
    {"fa_last_error", [] { return fa_last_error() != nullptr; }},
    {"fa_status_string", [] { return *fa_status_string(FA_OK) != '\0'; }},
    {"fa_version", [] { return fa_version() != 0; }},
    {"fa_op_kernel_name", [] { return *fa_op_kernel_name(nullptr) == '\0'; }},
    {"fa_desc_init, fa_forward_args_init, fa_tensor_init",
     [] {
       const Call call;
       return call.desc.struct_size == sizeof call.desc;
     }},
    {"fa_destroy, fa_set_log, fa_shutdown",
     [] {
       fa_destroy(nullptr);
       fa_set_log(nullptr, nullptr);
       fa_shutdown();
       return true;
     }},
};

enum Outcome { all_given, one_failed, wrong };

/// In a separate process: the function with allocation `failing`, and perhaps all after it, failing; then all of
/// them.
Outcome first_call(const First &first, int64_t failing, bool all_after) {
  test::watch_allocations(failing, all_after);
  const bool right = first.call();
  const int64_t allocations = test::stop_watching();
  if (!right) return std::fprintf(stderr, "%s: %s\n", first.name, fa_last_error()), wrong;
  for (const First &next : functions)
    if (!next.call()) return std::fprintf(stderr, "then %s: %s\n", next.name, fa_last_error()), wrong;
  return allocations > failing ? one_failed : all_given;
}

TEST(FirstCall, EachAllocationMayFail) {
  for (const First &first : functions) {
    for (const bool all_after : {false, true}) {
      int outcome = one_failed;
      for (int64_t failing = 0; outcome == one_failed && failing < 2000; ++failing) {
        outcome = test::in_child({}, [&] { return first_call(first, failing, all_after); });
        EXPECT_LT(outcome, wrong) << first.name << ": allocation " << failing << (all_after ? " and all after" : "");
      }
      EXPECT_EQ(outcome, all_given) << first.name;
    }
  }
}

/// Looking for a driver, loading it and reading files change errno, in the C library; here it stays.
// [F195] [F196]
TEST(FirstCall, LeavesTheThreadAsItWas) {
  for (const First &first : functions) {
    for (const std::string &environment : reference::float_environments()) {
      const auto changed = [&] {
        const reference::Caller caller(environment);
        const bool right = first.call();
        const std::string difference = caller.changed();
        if (!difference.empty()) std::fprintf(stderr, "%s: %s\n", first.name, difference.c_str());
        return !right || !difference.empty() ? 1 : 0;
      };
      EXPECT_EQ(test::in_child({{"FA_NUM_THREADS", "99999999999999999999"}}, changed), 0)
          << first.name << " under " << environment;
    }
  }
}

/// A function without a status needs no memory of ours.
TEST(FirstCall, TheTableOfKernelsIsNotAllocated) {
  for (const First &first : functions) {
    const std::string name = first.name;
    if (name != "fa_kernel_count" && name != "fa_build_info") continue;
    const auto allocations = [&] {
      test::watch_allocations();
      return first.call() ? static_cast<int>(test::stop_watching()) : 99;
    };
    EXPECT_EQ(test::in_child({}, allocations), 0) << name;
  }
}

}  // namespace
}  // namespace api_test
