// Devices unlike their generation's usual board: MIG slices, pageable access, no pools, no contexts to be had.
#include <sys/mman.h>

#include "fixture.h"

namespace {

using namespace emulated;

/// The devices of emulator.driver.variants.
enum : int { usual, slice, pageable, ats, without_pools, busy, apart };

int attribute(int number, int device) {
  int value = -1;
  EXPECT_EQ(call("cuDeviceGetAttribute", &value, number, device), CUDA_SUCCESS) << number;
  return value;
}

/// A new context, current for the life of the object: a fault ends with it.
class Own {
 public:
  explicit Own(int device) {
    EXPECT_EQ(call("cuInit", 0u), CUDA_SUCCESS);
    EXPECT_EQ(call("cuCtxCreate_v2", &context_, 0u, device), CUDA_SUCCESS);
  }
  ~Own() { call("cuCtxDestroy_v2", context_); }
  Own(const Own &) = delete;
  Own &operator=(const Own &) = delete;

 private:
  CUcontext context_ = nullptr;
};

/// Runs step, here out[i] = 2 * out[i] + 1, on n values at an address: the kernel's own error.
CUresult step_at(const void *out, unsigned n) {
  return launch(kernel(step_ptx(), "step"), {}, {n}, 0, reinterpret_cast<CUdeviceptr>(out), 2u, 1u);
}

TEST(Variants, ASliceHasFewerMultiprocessorsAndLessMemory) {
  ASSERT_EQ(call("cuInit", 0u), CUDA_SUCCESS);
  EXPECT_EQ(attribute(16, usual), 108);
  EXPECT_EQ(attribute(16, slice), 14);
  EXPECT_EQ(attribute(38, usual), 40 << 20);
  EXPECT_EQ(attribute(38, slice), 5 << 20);
  size_t bytes = 0;
  EXPECT_EQ(call("cuDeviceTotalMem_v2", &bytes, int{usual}), CUDA_SUCCESS);
  EXPECT_EQ(bytes, size_t{64} << 20);
  EXPECT_EQ(call("cuDeviceTotalMem_v2", &bytes, int{slice}), CUDA_SUCCESS);
  EXPECT_EQ(bytes, size_t{10} << 20);
  const Own own(slice);
  CUdeviceptr address = 0;
  EXPECT_EQ(call("cuMemAlloc_v2", &address, (size_t{10} << 20) + 1), CUDA_ERROR_OUT_OF_MEMORY);
}

TEST(Variants, SharedMemoryIsLimited) {
  ASSERT_EQ(call("cuInit", 0u), CUDA_SUCCESS);
  EXPECT_EQ(attribute(97, slice), 64 << 10);
  EXPECT_EQ(attribute(81, slice), 65 << 10);
  constexpr int max_dynamic_shared = 8;
  for (const int device : {usual, slice}) {
    const Own own(device);
    const CUfunction function = kernel(step_ptx(), "step");
    EXPECT_EQ(call("cuFuncSetAttribute", function, max_dynamic_shared, 64 << 10), CUDA_SUCCESS);
    EXPECT_EQ(call("cuFuncSetAttribute", function, max_dynamic_shared, 65 << 10),
              device == usual ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE);
  }
}

TEST(Variants, PageableAccess) {
  ASSERT_EQ(call("cuInit", 0u), CUDA_SUCCESS);
  const int expected[][3] = {{usual, 0, 0}, {pageable, 1, 0}, {ats, 1, 1}};
  for (const auto &[device, access, by_host_tables] : expected) {
    EXPECT_EQ(attribute(88, device), access);
    EXPECT_EQ(attribute(100, device), by_host_tables);
  }
  static unsigned fixed[32] = {1};
  for (const int device : {pageable, ats}) {
    const Own own(device);
    std::vector<unsigned> values(32, 20);
    unsigned local[32] = {3};
    EXPECT_EQ(step_at(values.data(), 32), CUDA_SUCCESS);
    EXPECT_EQ(step_at(local, 32), CUDA_SUCCESS);
    EXPECT_EQ(step_at(fixed, 32), CUDA_SUCCESS);
    EXPECT_EQ(values, std::vector<unsigned>(32, 41));
    EXPECT_EQ(local[0], 7u);
  }
  EXPECT_EQ(fixed[0], 7u);
}

/// Linux keeps a mapping in parts where advice about it differs, as numpy's about huge pages does.
TEST(Variants, PageableAccessAcrossAMappingInTwoParts) {
  constexpr size_t page = 4096, bytes = 1024;
  auto *pages =
      static_cast<uint8_t *>(mmap(nullptr, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  ASSERT_NE(pages, MAP_FAILED);
  ASSERT_EQ(madvise(pages + page, page, MADV_DONTFORK), 0);
  std::fill_n(pages, 2 * page, uint8_t{7});
  {
    const Own own(ats);
    const Array<uint8_t> out{std::vector<uint8_t>(bytes)};
    const std::string text = R"(
.version 8.0
.target sm_90
.address_size 64
.visible .entry copy(.param .u64 from, .param .u64 to) {
  .reg .pred %p<2>; .reg .b64 %rd<4>;
  .shared .align 128 .b8 tile[1024];
  .shared .align 8 .b64 bar;
  ld.param.u64 %rd1, [from];
  ld.param.u64 %rd2, [to];
  mbarrier.init.shared.b64 [bar], 1;
  fence.mbarrier_init.release.cluster;
  mbarrier.arrive.expect_tx.shared.b64 _, [bar], 1024;
  cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [tile], [%rd1], 1024, [bar];
wait:
  mbarrier.try_wait.parity.shared.b64 %p1, [bar], 0;
  @!%p1 bra wait;
  cp.async.bulk.global.shared::cta.bulk_group [%rd2], [tile], 1024;
  cp.async.bulk.commit_group;
  cp.async.bulk.wait_group 0;
  ret;
}
)";
    EXPECT_EQ(launch(kernel(text, "copy"), {}, {}, 0, pages + page - bytes / 2, out.address), CUDA_SUCCESS);
    EXPECT_EQ(out.values(), std::vector<uint8_t>(bytes, 7));
  }
  munmap(pages, 2 * page);
}

TEST(Variants, OtherDevicesDoNotReachIt) {
  const Own own(usual);
  std::vector<unsigned> values(32, 20);
  EXPECT_EQ(step_at(values.data(), 32), CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_EQ(values[0], 20u);
}

TEST(Variants, PageableAccessEndsWhereNothingIsMapped) {
  void *nothing = mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(nothing, MAP_FAILED);
  {
    const Own own(pageable);
    EXPECT_EQ(step_at(nothing, 32), CUDA_ERROR_ILLEGAL_ADDRESS);
  }
  {
    const Own own(pageable);
    EXPECT_EQ(step_at(nullptr, 32), CUDA_ERROR_ILLEGAL_ADDRESS);
  }
  munmap(nothing, 4096);
}

TEST(Variants, PageableAccessIsNotToOtherDevicesMemory) {
  const Own first(usual);
  const Array<unsigned> others({1, 2, 3});
  const Own own(pageable);
  EXPECT_EQ(step_at(reinterpret_cast<void *>(others.address), 3), CUDA_ERROR_ILLEGAL_ADDRESS);
}

TEST(Variants, RegisteredAmongPageable) {
  const Own own(pageable);
  std::vector<unsigned> values(96, 20);
  ASSERT_EQ(call("cuMemHostRegister_v2", static_cast<void *>(&values[32]), 32 * sizeof(unsigned), 0u), CUDA_SUCCESS);
  for (const size_t begin : {64, 0, 32}) EXPECT_EQ(step_at(&values[begin], 32), CUDA_SUCCESS) << begin;
  EXPECT_EQ(call("cuMemHostUnregister", static_cast<void *>(&values[32])), CUDA_SUCCESS);
  EXPECT_EQ(step_at(values.data(), 96), CUDA_SUCCESS);
  EXPECT_EQ(values, std::vector<unsigned>(96, 83));
}

/// As NVIDIA documents for memory that was neither allocated by, mapped by, nor registered with a context.
TEST(Variants, ThePointersOfPageableMemoryAreNotKnown) {
  const Own own(ats);
  unsigned value = 0, type = 7;
  int ordinal = 7;
  const auto address = reinterpret_cast<CUdeviceptr>(&value);
  constexpr int memory_type = 2, device_ordinal = 9;
  EXPECT_EQ(call("cuPointerGetAttribute", static_cast<void *>(&type), memory_type, address), CUDA_ERROR_INVALID_VALUE);
  int wanted[] = {memory_type, device_ordinal};
  void *places[] = {&type, &ordinal};
  EXPECT_EQ(call("cuPointerGetAttributes", 2u, static_cast<int *>(wanted), static_cast<void **>(places), address),
            CUDA_SUCCESS);
  EXPECT_EQ(type, 0u);
  EXPECT_EQ(ordinal, -2);
}

TEST(Variants, NoPools) {
  ASSERT_EQ(call("cuInit", 0u), CUDA_SUCCESS);
  EXPECT_EQ(attribute(115, usual), 1);
  EXPECT_EQ(attribute(115, without_pools), 0);
  const Own own(without_pools);
  CUdeviceptr address = 0;
  void *pool = nullptr;
  const CUstream legacy = nullptr;
  EXPECT_EQ(call("cuMemAllocAsync", &address, size_t{64}, legacy), CUDA_ERROR_NOT_SUPPORTED);
  EXPECT_EQ(call("cuDeviceGetDefaultMemPool", &pool, int{without_pools}), CUDA_ERROR_NOT_SUPPORTED);
  EXPECT_EQ(call("cuDeviceGetMemPool", &pool, int{without_pools}), CUDA_ERROR_NOT_SUPPORTED);
  EXPECT_EQ(call("cuMemAlloc_v2", &address, size_t{64}), CUDA_SUCCESS);
  EXPECT_EQ(call("cuMemFreeAsync", address, legacy), CUDA_ERROR_NOT_SUPPORTED);
  EXPECT_EQ(call("cuMemFree_v2", address), CUDA_SUCCESS);
}

/// A page that is mapped as shared, for the life of the object.
class SharedPage {
 public:
  SharedPage() : data_(mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)) {
    EXPECT_NE(data_, MAP_FAILED);
  }
  ~SharedPage() { munmap(data_, 4096); }
  SharedPage(const SharedPage &) = delete;
  SharedPage &operator=(const SharedPage &) = delete;
  unsigned *data() const { return static_cast<unsigned *>(data_); }

 private:
  void *data_;
};

CUdeviceptr pointer_attribute(int attribute, const void *of) {
  CUdeviceptr result = 0;
  EXPECT_EQ(call("cuPointerGetAttribute", static_cast<void *>(&result), attribute, reinterpret_cast<CUdeviceptr>(of)),
            CUDA_SUCCESS);
  return result;
}

TEST(Variants, RegisteredMemoryHasAnAddressOfItsOwn) {
  constexpr int can_use_host_pointer = 91, device_pointer = 3, host_pointer = 4;
  EXPECT_EQ(attribute(can_use_host_pointer, usual), 1);
  EXPECT_EQ(attribute(can_use_host_pointer, apart), 0);
  const SharedPage page;
  unsigned *const values = page.data() + 5;
  values[0] = values[31] = 20;
  {
    const Own own(apart);
    for (int turn = 0; turn < 2; ++turn) {
      ASSERT_EQ(call("cuMemHostRegister_v2", static_cast<void *>(values), 32 * sizeof(unsigned), 0u), CUDA_SUCCESS);
      CUdeviceptr seen = 0;
      ASSERT_EQ(call("cuMemHostGetDevicePointer_v2", &seen, static_cast<void *>(values), 0u), CUDA_SUCCESS);
      EXPECT_NE(seen, reinterpret_cast<CUdeviceptr>(values));
      EXPECT_EQ(pointer_attribute(device_pointer, values + 3), seen + 12);
      EXPECT_EQ(pointer_attribute(device_pointer, reinterpret_cast<void *>(seen + 12)), seen + 12);
      EXPECT_EQ(pointer_attribute(host_pointer, reinterpret_cast<void *>(seen + 12)),
                reinterpret_cast<CUdeviceptr>(values + 3));
      EXPECT_EQ(step_at(reinterpret_cast<void *>(seen), 32), CUDA_SUCCESS);
      EXPECT_NE(call("cuMemHostUnregister", reinterpret_cast<void *>(seen)), CUDA_SUCCESS);
      EXPECT_EQ(call("cuMemHostUnregister", static_cast<void *>(values)), CUDA_SUCCESS);
    }
    EXPECT_EQ(values[0], 83u);
    EXPECT_EQ(values[31], 83u);
    std::vector<unsigned> own_values(32);
    EXPECT_EQ(call("cuMemHostRegister_v2", static_cast<void *>(own_values.data()), size_t{128}, 0u),
              CUDA_ERROR_NOT_SUPPORTED);
  }
  const Own own(apart);
  ASSERT_EQ(call("cuMemHostRegister_v2", static_cast<void *>(values), 32 * sizeof(unsigned), 0u), CUDA_SUCCESS);
  EXPECT_EQ(step_at(values, 32), CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_EQ(values[0], 83u);
}

TEST(Variants, BusyGivesNoContext) {
  ASSERT_EQ(call("cuInit", 0u), CUDA_SUCCESS);
  constexpr int exclusive_process = 3;
  EXPECT_EQ(attribute(20, usual), 0);
  EXPECT_EQ(attribute(20, busy), exclusive_process);
  CUcontext context = nullptr;
  EXPECT_EQ(call("cuDevicePrimaryCtxRetain", &context, int{busy}), CUDA_ERROR_DEVICE_UNAVAILABLE);
  EXPECT_EQ(call("cuCtxCreate_v2", &context, 0u, int{busy}), CUDA_ERROR_DEVICE_UNAVAILABLE);
}

}  // namespace
