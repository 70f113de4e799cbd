// The private tables, as far as they can be asked without the runtime that uses them (tests/runtime has programs).
#include <array>

#include "../reported.h"
#include "fixture.h"

namespace {

using namespace emulated;
using Table = const void *const *;

Table table(const std::array<uint8_t, 16> &id, CUresult wanted = CUDA_SUCCESS) {
  const void *found = &id;
  EXPECT_EQ(call("cuGetExportTable", &found, id.data()), wanted);
  return static_cast<Table>(found);
}
template <class... Arguments>
CUresult call_slot(Table table, size_t slot, Arguments... arguments) {
  return reinterpret_cast<CUresult (*)(Arguments...)>(const_cast<void *>(table[slot]))(arguments...);
}

constexpr std::array<uint8_t, 16> interface = {0x6b, 0xd5, 0xfb, 0x6c, 0x5b, 0xf4, 0xe7, 0x4a,
                                               0x89, 0x87, 0xd9, 0x39, 0x12, 0xfd, 0x9d, 0xf9};
constexpr std::array<uint8_t, 16> storage = {0xc6, 0x93, 0x33, 0x6e, 0x11, 0x21, 0xdf, 0x11,
                                             0xa8, 0xc3, 0x68, 0xf3, 0x55, 0xd8, 0x95, 0x93};

// Most runs of these tests are with FA_EMU_QUIET; one is without.
TEST(ExportTables, AnUnknownOneIsNamed) {
  if (std::getenv("FA_EMU_QUIET")) GTEST_SKIP() << "no reasons on stderr";
  std::string said = reported([] { table({0x12, 0x34}, CUDA_ERROR_NOT_FOUND); });
  EXPECT_NE(said.find("{12340000-0000-0000-0000-000000000000}"), std::string::npos) << said;
  EXPECT_NE(said.find("CUDART_INTERFACE"), std::string::npos) << said;
}

TEST(ExportTables, AnUnknownSlotIsNamed) {
  if (std::getenv("FA_EMU_QUIET")) GTEST_SKIP() << "no reasons on stderr";
  std::string said =
      reported([] { EXPECT_EQ(call_slot(table(interface), 9, 1, nullptr, 3.0), CUDA_ERROR_NOT_SUPPORTED); });
  EXPECT_NE(said.find("slot 9 of the private table CUDART_INTERFACE"), std::string::npos) << said;
}

TEST(ExportTables, ThePrimaryContextIsThereBeforeItIsRetained) {
  start();
  CUcontext early = nullptr, retained = nullptr;
  unsigned flags = 0;
  int before = -1, active = -1;
  EXPECT_EQ(call("cuDevicePrimaryCtxGetState", 1, &flags, &before), CUDA_SUCCESS);
  EXPECT_EQ(reinterpret_cast<size_t>(table(interface)[0]), 13 * sizeof(void *));
  EXPECT_EQ(call_slot(table(interface), 2, &early, 1), CUDA_SUCCESS);
  EXPECT_EQ(call("cuDevicePrimaryCtxGetState", 1, &flags, &active), CUDA_SUCCESS);
  EXPECT_EQ(active, before);
  EXPECT_EQ(call("cuDevicePrimaryCtxRetain", &retained, 1), CUDA_SUCCESS);
  EXPECT_EQ(retained, early);
  EXPECT_EQ(call("cuDevicePrimaryCtxRelease_v2", 1), CUDA_SUCCESS);
}

TEST(ExportTables, AContextGivesItsValuesBack) {
  start();
  static int key, value;
  static void *given_back = nullptr;
  using Destroy = void (*)(CUcontext, void *, void *);
  Destroy destroy = [](CUcontext, void *, void *stored) { given_back = stored; };
  CUcontext context = nullptr;
  void *place = &place;
  ASSERT_EQ(call("cuCtxCreate_v2", &context, 0u, 0), CUDA_SUCCESS);
  EXPECT_EQ(call_slot(table(storage), 2, &place, context, &key), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(place, nullptr);
  EXPECT_EQ(call_slot(table(storage), 0, context, &key, &value, destroy), CUDA_SUCCESS);
  EXPECT_EQ(call_slot(table(storage), 2, &place, CUcontext{}, &key), CUDA_SUCCESS);
  EXPECT_EQ(place, &value);
  EXPECT_EQ(given_back, nullptr);
  EXPECT_EQ(call("cuCtxDestroy_v2", context), CUDA_SUCCESS);
  EXPECT_EQ(given_back, &value);
}

}  // namespace
