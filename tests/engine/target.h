// The targets of the engine's suites: every pair of element types and ISA of this architecture. A test's full name is
// Suite.Name/types_arch; the ctest named suite.types.arch selects it.
#pragma once

#include <fa.h>
#include <gtest/gtest.h>

#include <ostream>
#include <string>
#include <vector>

#include "reference/case.h"

namespace test {
using namespace reference;

/// The ISAs of this architecture, available or not.
std::vector<std::string> archs();

/// Whether an ISA has a kernel for calls of a type: some have one for bf16 or f16 alone.
bool computes(const std::string &arch, const std::string &type);

/// The GPU architectures that kernels are compiled for.
std::vector<std::string> gpu_archs();

struct Target {
  std::string types;  // "f32", "f16", "bf16": of q, k, v and out; "mixed": a different combination for every case
  std::string arch;   // "avx2", "sm_80"
};

/// The name in GoogleTest's output: "f32_avx2".
void PrintTo(const Target &target, std::ostream *stream);

/// Every ISA with each of types; those that support quantised and rotated caches; every GPU architecture; both.
std::vector<Target> targets(const std::vector<std::string> &types);
std::vector<Target> cache_targets(const std::vector<std::string> &types);
std::vector<Target> gpu_targets(const std::vector<std::string> &types);
std::vector<Target> all_targets(const std::vector<std::string> &types);

inline const std::vector<std::string> all_types = {"f32", "f16", "bf16", "mixed"};

/// Whether a case belongs to the shard that target number `target` runs, one of `shards`. Shards of GoogleTest consist
/// of tests; these consist of cases within a test, whose seeds and mixed types follow from their numbers.
constexpr bool shard_has(uint64_t target, uint64_t number, uint64_t shards) {
  return (number + target) % shards == 0;
}

/// Runs a test on one target, or skips it with the reason where this machine has no such CPU or GPU.
class EngineTest : public testing::TestWithParam<Target> {
 protected:
  void SetUp() override;

  /// The case with the target's element types; index selects mixed ones and is ignored otherwise. Under TEST_WIDER=n
  /// head dimensions up to n are n columns wider: the suites then run on kernels for such heads.
  Case typed(Case c, uint64_t index = 0) const;
  bool is_mixed() const { return GetParam().types == "mixed"; }

  /// Whether calls of more than 32 columns, in rows of whole multiples of 16 bytes, are those of a family for
  /// warpgroups or for tensor memory, unless few rows share a head's keys or scores have a bias or a mask.
  bool has_wide_family() const;

  /// Whether this target runs the case of that number. Under TEST_SHARE=n a target runs one shard of n: that of
  /// TEST_SHARD, or else the next target runs the next one, so that n consecutive targets run all cases.
  bool in_shard(uint64_t number) const;

  /// The shard of a list, in the same way; each test numbers the list from another start. one_of: runs one of that many
  /// cases of the shard.
  std::vector<Case> shard_of(const std::vector<Case> &list, uint64_t one_of = 1) const;

  std::string kernel;  // its name, "cpu.avx2"; of a GPU architecture, "sm_80", the best one of each call
};

/// Expects a status, and fa_last_error() to have each of the names.
void expect_error(fa_status status, fa_status expected, const std::vector<std::string> &names, const Case &c);

/// "f32_avx2".
std::string target_name(const testing::TestParamInfo<Target> &info);

#define TEST_TARGETS(Suite, ...) \
  INSTANTIATE_TEST_SUITE_P(Engine, Suite, testing::ValuesIn(targets(__VA_ARGS__)), target_name)

/// Over the ISAs that support quantised and rotated caches.
#define TEST_CACHE_TARGETS(Suite, ...) \
  INSTANTIATE_TEST_SUITE_P(Engine, Suite, testing::ValuesIn(cache_targets(__VA_ARGS__)), target_name)

/// Over GPUs as well.
#define TEST_ALL_TARGETS(Suite, ...) \
  INSTANTIATE_TEST_SUITE_P(Engine, Suite, testing::ValuesIn(all_targets(__VA_ARGS__)), target_name)

/// Combinations of element types of q, k and v, and out that are not all the same.
struct MixedTypes {
  fa_dtype q, kv, out;
};
MixedTypes mixed_types(uint64_t index);

}  // namespace test
