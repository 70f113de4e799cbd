// Every allocation of the C++ run time fails once: the call says so, leaks nothing, and works when memory is back.
#include <cstdlib>
#include <new>

#include "call.h"

namespace {

long allocations = 0;
long live = 0;
long fail_at = 0;  // the number of the allocation that fails; 0: none

void *allocate(size_t size, size_t alignment) {
  if (++allocations == fail_at) return nullptr;
  void *memory = alignment <= alignof(std::max_align_t)
                     ? std::malloc(size ? size : 1)
                     : std::aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
  live += memory != nullptr;
  return memory;
}

void release(void *memory) {
  live -= memory != nullptr;
  std::free(memory);
}

void *allocate_or_throw(size_t size, size_t alignment = 1) {
  if (void *memory = allocate(size, alignment)) return memory;
  throw std::bad_alloc();
}

}  // namespace

void *operator new(size_t size) {
  return allocate_or_throw(size);
}
void *operator new[](size_t size) {
  return allocate_or_throw(size);
}
void *operator new(size_t size, std::align_val_t alignment) {
  return allocate_or_throw(size, size_t(alignment));
}
void *operator new[](size_t size, std::align_val_t alignment) {
  return allocate_or_throw(size, size_t(alignment));
}
void *operator new(size_t size, const std::nothrow_t &) noexcept {
  return allocate(size, 1);
}
void *operator new[](size_t size, const std::nothrow_t &) noexcept {
  return allocate(size, 1);
}
void *operator new(size_t size, std::align_val_t alignment, const std::nothrow_t &) noexcept {
  return allocate(size, size_t(alignment));
}
void *operator new[](size_t size, std::align_val_t alignment, const std::nothrow_t &) noexcept {
  return allocate(size, size_t(alignment));
}
void operator delete(void *memory) noexcept {
  release(memory);
}
void operator delete[](void *memory) noexcept {
  release(memory);
}
void operator delete(void *memory, size_t) noexcept {
  release(memory);
}
void operator delete[](void *memory, size_t) noexcept {
  release(memory);
}
void operator delete(void *memory, std::align_val_t) noexcept {
  release(memory);
}
void operator delete[](void *memory, std::align_val_t) noexcept {
  release(memory);
}
void operator delete(void *memory, size_t, std::align_val_t) noexcept {
  release(memory);
}
void operator delete[](void *memory, size_t, std::align_val_t) noexcept {
  release(memory);
}

namespace api_test {
namespace {

/// Runs body with allocation 1, 2, ... failing until it succeeds; returns how many failed it. keeps: it may make
/// objects that the process keeps for good (the driver and devices found, the table of kernels).
template <class Body>
long fail_each_allocation(Body body, bool keeps = false) {
  for (long k = 1; k < 1000; ++k) {
    const long live_before = live;
    allocations = 0;
    fail_at = k;
    const fa_status status = body();
    fail_at = 0;
    EXPECT_TRUE(keeps || live == live_before) << "allocation " << k << " left memory behind";
    if (status == FA_OK) return k - 1;
    EXPECT_EQ(status, FA_ERROR_OUT_OF_MEMORY) << fa_last_error();
    EXPECT_NE(std::strstr(fa_last_error(), "memory"), nullptr) << fa_last_error();
  }
  ADD_FAILURE() << "never succeeded";
  return 0;
}

TEST(Memory, EachAllocationOfCreateMayFail) {
  Call call;
  const auto create = [&] {
    fa_op *op = nullptr;
    const fa_status status = fa_create(&call.desc, &op);
    fa_destroy(op);
    return status;
  };
  fail_each_allocation(create, true);  // a process's first one
  EXPECT_GT(fail_each_allocation(create), 0) << "an op cannot be made of nothing: is operator new replaced?";
}

TEST(Memory, EachAllocationOfForwardMayFail) {
  Call call;
  call.args.num_splits = 2;
  fa_op *op = call.create();
  fail_each_allocation([&] { return fa_forward(op, &call.args); });
  fa_destroy(op);
}

// [F141]
TEST(Memory, ErrorsAllocateNothing) {
  Call call;
  call.desc.head_dim = 0;
  fa_op *op = nullptr;
  const auto none = [](auto body) {
    allocations = 0;
    body();
    return allocations == 0;
  };
  EXPECT_TRUE(none([&] { fa_kernel_info(-1, nullptr); }));
  EXPECT_TRUE(none([&] { fa_last_error(); }));
  EXPECT_TRUE(none([&] { fa_status_string(FA_ERROR_OUT_OF_MEMORY); }));
  EXPECT_TRUE(none([&] { fa_forward(nullptr, &call.args); }));
  EXPECT_EQ(fa_create(&call.desc, &op), FA_ERROR_INVALID_ARGUMENT);
}

TEST(Memory, RefusedForwardAllocatesNothing) {
  Call call;
  fa_op *op = call.create();
  call.args.q.shape[3] = 5;
  allocations = 0;
  EXPECT_EQ(fa_forward(op, &call.args), FA_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(allocations, 0);
  fa_destroy(op);
}

TEST(Memory, ForwardWithAWorkspaceAllocatesNothing) {
  Call call;
  call.args.num_splits = 2;
  fa_op *op = call.create();
  ASSERT_EQ(fa_forward_workspace_size(op, &call.args, &call.args.workspace_size), FA_OK) << fa_last_error();
  ASSERT_LE(call.args.workspace_size, sizeof call.workspace);
  call.args.workspace = call.workspace;
  allocations = 0;
  EXPECT_EQ(fa_forward(op, &call.args), FA_OK) << fa_last_error();
  EXPECT_EQ(allocations, 0);
  fa_destroy(op);
}

}  // namespace
}  // namespace api_test
