// Which kernels a GPU runs, of every generation: the table of docs/gpus.md.
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <regex>
#include <tuple>

#include "common/archs.h"
#include "cuda/fixture.h"

namespace cuda_test {
namespace {

struct Row {
  std::string device, f16, bf16, f32;
};

/// The rows of the page's table: | GPUs | SM | f16 | bf16 | f32 | ... |, kernels in backquotes.
std::vector<Row> table() {
  std::ifstream page(TEST_GPUS_PAGE);
  std::vector<Row> rows;
  const std::regex row(R"(\|[^|]*\| (\d+)[^|]*\| `(cuda\.[^`]*)` \| `(cuda\.[^`]*)` \| `(cuda\.[^`]*)` \|.*)");
  std::smatch cells;
  for (std::string line; std::getline(page, line);)
    if (std::regex_match(line, cells, row)) rows.push_back({"sm_" + cells.str(1), cells[2], cells[3], cells[4]});
  return rows;
}

/// A head dimension and a number of queries that every family of kernels supports.
Case prefill_case() {
  Case c = split_case(1);
  c.d = 64, c.sq = 70;
  return c;
}

std::string chosen(fa_dtype dtype, int64_t head_dim = 64, int64_t head_dim_v = 0) {
  Case c = prefill_case();
  c.q = dtype, c.d = head_dim, c.dv = head_dim_v;
  const Op op(desc_of(c));
  return op.status == FA_OK ? op.kernel() : fa_last_error();
}

/// Each kernel is loaded, too, and runs calls.
int check(const Row &row) {
  int wrong = 0;
  for (const auto &[dtype, kernel] : {std::pair(FA_F16, row.f16), {FA_BF16, row.bf16}, {FA_F32, row.f32}}) {
    const std::string got = chosen(fa_dtype(dtype));
    if (got != kernel)
      ++wrong, std::fprintf(stderr, "%s: %s, expected %s\n", row.device.c_str(), got.c_str(), kernel.c_str());
    const InContext in;
    for (Case c : {prefill_case(), split_case()}) {
      c.q = fa_dtype(dtype);
      Call own(c);
      const Op op(desc_of(c));
      const bool ran = op.status == FA_OK && fa_forward(op.op, &own.args) == FA_OK;
      const std::string failure = ran ? own.failure() : fa_last_error();
      if (!failure.empty()) ++wrong, std::fprintf(stderr, "%s: %s\n", row.device.c_str(), failure.c_str());
    }
  }
  return wrong;
}

/// The table is that of the default FA_ARCHS: with fewer, lines whose kernels are there still hold.
bool has_kernels(const Row &row) {
  return is_built(row.f16) && is_built(row.bf16) && is_built(row.f32);
}

/// Dynamic shared memory that a block of device 0 may opt in to.
int max_shared_bytes() {
  int bytes = 0;
  CUdevice device = 0;
  call("cuInit", 0u);
  call("cuDeviceGet", &device, 0);
  call("cuDeviceGetAttribute", &bytes, 97, device);
  return bytes;
}

TEST(Devices, EachRunsWhatTheTableSays) {
  int devices = 0;
  std::string others;
  for (const Row &row : table()) {
    if (!can_be(row.device)) continue;
    // In a child as well: the list of kernels starts the driver.
    if (in_child({{"FA_EMU_DEVICE", row.device.c_str()}}, [&] { return has_kernels(row) ? 0 : 1; }) != 0) {
      others += " " + row.device;
      continue;
    }
    ++devices;
    EXPECT_EQ(in_child({{"FA_EMU_DEVICE", row.device.c_str()}}, [&] { return check(row); }), 0) << row.device;
  }
  if (!others.empty()) std::printf("FA_ARCHS leaves out the kernels of%s\n", others.c_str());
  if (devices == 0) GTEST_SKIP() << "FA_ARCHS has none of the kernels that the table names for the device";
}

/// Every architecture of the list is one that the emulator knows by itself, with the same shared memory as there, or as
/// the machine's own device has; the page names each.
TEST(Devices, TheListOfArchitecturesIsAsTheEmulatorHasIt) {
  const std::vector<Row> rows = table();
  for (const fa::kernels::Arch &arch : fa::kernels::archs) {
    const std::string device = "sm_" + std::to_string(arch.number);
    EXPECT_TRUE(std::ranges::any_of(rows, [&](const Row &row) { return row.device == device; })) << device;
    if (!can_be(device)) continue;
    EXPECT_EQ(
        in_child({{"FA_EMU_DEVICE", device.c_str()}}, [&] { return max_shared_bytes() == arch.shared_bytes ? 0 : 1; }),
        0)
        << arch.name;
  }
}

TEST(Devices, OneBeforeTuringIsRefusedByItsName) {
  if (!can_be("sm_70")) GTEST_SKIP() << needs_the_emulator;
  const int outcome = in_child({{"FA_EMU_DEVICE", "sm_70"}}, [] {
    const Op op(desc_of(small_case())), on_cpu(desc_of(small_case(), FA_DEVICE_AUTO));
    if (op.status != FA_ERROR_NO_DEVICE || on_cpu.status != FA_OK) return 1;
    return last_error_lacks({"sm_70", "Turing"}).empty() ? 0 : 2;
  });
  EXPECT_EQ(outcome, 0);
}

/// Kernels of an older architecture run on newer devices, from their PTX.
TEST(Devices, OlderKernelsRunByName) {
  for (const char *device : {"sm_80", "sm_90", "sm_120"}) {
    const int outcome = in_child({{"FA_EMU_DEVICE", device}, {"FA_FORCE_KERNEL", "cuda.sm_75.simt"}}, [] {
      if (!is_built("cuda.sm_75.simt")) return 3;
      const InContext in;
      Call own(split_case());
      const Op op(desc_of(split_case(), FA_DEVICE_AUTO));
      if (op.kernel() != "cuda.sm_75.simt" || fa_forward(op.op, &own.args) != FA_OK) return 1;
      // A kernel asked for by name is not replaced by the CPU.
      Call host(split_case(), Where::host);
      return fa_forward(op.op, &host.args) == FA_ERROR_INVALID_ARGUMENT && own.failure().empty() ? 0 : 2;
    });
    if (outcome == 3) GTEST_SKIP() << "FA_ARCHS leaves out 75";
    EXPECT_EQ(outcome, 0) << device;
  }
}

/// Each width to its family: by whichever of keys and values is wider, and not beyond the columns that one has.
TEST(Devices, WideHeadsHaveAFamilyOfTheirOwn) {
  int rows = 0;
  struct Width {
    int64_t head_dim, head_dim_v;
    const char *family;
  };
  for (const auto &[head_dim, head_dim_v, family] :
       {Width{257, 0, "mma_wide"}, Width{512, 0, "mma_wide"}, Width{576, 512, "mma_wide"}, Width{32, 300, "mma_wide"},
        Width{300, 32, "mma_wide"}, Width{576, 513, "simt"}, Width{576, 0, "simt"}}) {
    for (const auto &[device, dtype, name] : {std::tuple("sm_75", FA_F16, "f16"),
                                              {"sm_75", FA_BF16, "bf16"},
                                              {"sm_80", FA_BF16, "bf16"},
                                              {"sm_90a", FA_F16, "f16"}}) {
      if (!can_be(device)) continue;
      ++rows;
      const bool warpgroups = device == std::string("sm_90a") && family == std::string("mma_wide");
      const std::string wanted = dtype == FA_BF16 && device == std::string("sm_75") ? "simt"
                                 : warpgroups                                       ? "wgmma"
                                                                                    : family;
      const int outcome = in_child({{"FA_EMU_DEVICE", device}}, [&] {
        if (!is_built(std::string("cuda.") + device + ".mma_wide")) return 2;
        return chosen(fa_dtype(dtype), head_dim, head_dim_v) == std::string("cuda.") + device + "." + wanted ? 0 : 1;
      });
      EXPECT_NE(outcome, 1) << name << " of " << head_dim << " and " << head_dim_v << " columns on " << device;
    }
  }
  if (rows == 0) GTEST_SKIP() << needs_the_emulator;
}

/// Tensor cores where all products are exact, else f32. [F310]
TEST(Devices, QuantisedKeysHaveFamiliesOfTheirOwn) {
  int rows = 0;
  struct Types {
    const char *device;
    fa_dtype q, k, v;
    int64_t head_dim;
    const char *family;
  };
  for (const auto &[device, q, k, v, head_dim, family] :
       {Types{"sm_80", FA_BF16, FA_I8, FA_DTYPE_DEFAULT, 128, "mma_quantised"},
        Types{"sm_80", FA_F16, FA_E4M3, FA_U4, 256, "mma_quantised"},
        Types{"sm_80", FA_F16, FA_I8, FA_DTYPE_DEFAULT, 258, "simt_quantised"},
        Types{"sm_80", FA_F32, FA_I4, FA_DTYPE_DEFAULT, 128, "simt_quantised"},
        Types{"sm_80", FA_F16, FA_Q8_0, FA_DTYPE_DEFAULT, 128, "simt_quantised"},
        Types{"sm_80", FA_F16, FA_F16, FA_I8, 128, "simt_quantised"},
        Types{"sm_80", FA_F16, FA_F16, FA_F32, 128, "simt_quantised"},
        Types{"sm_75", FA_F16, FA_E5M2, FA_DTYPE_DEFAULT, 64, "mma_quantised"},
        Types{"sm_75", FA_BF16, FA_I8, FA_DTYPE_DEFAULT, 64, "simt_quantised"}}) {
    if (!can_be(device)) continue;
    ++rows;
    const int outcome = in_child({{"FA_EMU_DEVICE", device}}, [&] {
      if (!is_built(std::string("cuda.") + device + "." + family)) return 2;
      Case c = prefill_case();
      c.q = q, c.kv = k, c.v = v, c.d = head_dim, c.dv = 0;
      const Op op(desc_of(c));
      return op.status == FA_OK && op.kernel() == std::string("cuda.") + device + "." + family ? 0 : 1;
    });
    EXPECT_NE(outcome, 1) << family << " for " << reference::name_of(k) << " of " << head_dim << " columns on "
                          << device;
  }
  if (rows == 0) GTEST_SKIP() << needs_the_emulator;
}

TEST(Devices, OlderArchitecturesByMaxArch) {
  if (can_be("sm_75") && !is_emulated()) GTEST_SKIP() << "the device is of the oldest architecture";
  const int outcome = in_child({{"FA_EMU_DEVICE", "sm_90"}, {"FA_MAX_ARCH", "sm_80"}}, [] {
    if (!is_built("sm_80")) return 2;
    return chosen(FA_F32) == "cuda.sm_80.simt" ? 0 : 1;
  });
  if (outcome == 2) GTEST_SKIP() << "FA_ARCHS leaves out 80";
  EXPECT_EQ(outcome, 0);
}

}  // namespace
}  // namespace cuda_test
