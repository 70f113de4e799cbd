#include "engine/target.h"

#include <algorithm>
#include <cstdlib>

#include "reference/gpu.h"
#include "reference/random.h"
#include "reference/run.h"

namespace test {
using namespace reference;

std::vector<std::string> archs() {
  return {
#define FA_CPU_ISA(name, ...) #name,
#include "cpu/isas.inc"
#undef FA_CPU_ISA
  };
}

bool computes(const std::string &arch, const std::string &type) {
  if (arch.ends_with("_bf16")) return type == "bf16";
  if (arch.ends_with("_bf16x2")) return type == "f16";
  return true;
}

std::vector<Target> targets(const std::vector<std::string> &types) {
  std::vector<Target> all;
  for (const std::string &arch : archs())
    for (const std::string &type : types)
      if (computes(arch, type)) all.push_back({type, arch});
  return all;
}

std::vector<Target> cache_targets(const std::vector<std::string> &types) {
  std::vector<Target> all = targets(types);
  std::erase_if(all, [](const Target &target) { return target.arch.ends_with("_bf16x2"); });
  return all;
}

std::vector<std::string> gpu_archs() {
  return {
#define FA_ARCH(number, suffix, ...) "sm_" #number #suffix,
#include "archs.inc"
#undef FA_ARCH
  };
}

std::vector<Target> gpu_targets(const std::vector<std::string> &types) {
  std::vector<Target> all;
  for (const std::string &arch : gpu_archs())
    for (const std::string &type : types) all.push_back({type, arch});
  return all;
}

std::vector<Target> all_targets(const std::vector<std::string> &types) {
  std::vector<Target> all = targets(types);
  for (const Target &target : gpu_targets(types)) all.push_back(target);
  return all;
}

void PrintTo(const Target &target, std::ostream *stream) {
  *stream << target.types << "_" << target.arch;
}

std::string target_name(const testing::TestParamInfo<Target> &info) {
  return info.param.types + "_" + info.param.arch;
}

MixedTypes mixed_types(uint64_t index) {
  static const std::vector<MixedTypes> all = [] {
    std::vector<MixedTypes> list;
    for (const fa_dtype q : {FA_F32, FA_F16, FA_BF16})
      for (const fa_dtype kv : {FA_F32, FA_F16, FA_BF16})
        for (const fa_dtype out : {FA_F32, FA_F16, FA_BF16})
          if (q != kv || q != out) list.push_back({q, kv, out});
    return list;
  }();
  return all[size_t(index % all.size())];
}

void EngineTest::SetUp() {
  std::string reason = "the library has no kernel for " + GetParam().arch;
  for (int32_t i = 0; i < fa_kernel_count(); ++i) {
    fa_kernel info = {};
    info.struct_size = sizeof info;
    ASSERT_EQ(fa_kernel_info(i, &info), FA_OK);
    if (info.arch != GetParam().arch) continue;
    if (info.available) kernel = is_gpu(info.name) ? info.arch : info.name;
    reason = info.unavailable_reason;
  }
  if (kernel.empty()) GTEST_SKIP() << GetParam().arch << ": " << reason;

  share_memory(is_gpu(kernel));
  const Instance probe(typed(Case{}));
  const Op op(probe.desc, kernel);
  ASSERT_EQ(op.status(), FA_OK) << fa_last_error();
  if (is_gpu(kernel)) {
    ASSERT_NE(std::string(fa_op_kernel_name(op.get())).find(kernel), std::string::npos) << fa_op_kernel_name(op.get());
  } else {
    ASSERT_EQ(fa_op_kernel_name(op.get()), kernel);
  }
}

namespace {

/// The number that an environment variable holds; 0 without one.
uint64_t number_in(const char *variable) {
  const char *text = std::getenv(variable);
  return text ? std::strtoull(text, nullptr, 10) : 0;
}

}  // namespace

Case EngineTest::typed(Case c, uint64_t index) const {
  if (const auto wider = int64_t(number_in("TEST_WIDER")); c.d < wider + 1) {
    c.d += wider;
    if (c.dv > 0) c.dv = std::min<int64_t>(c.dv + wider, 576);
  }
  const std::string &types = GetParam().types;
  c.q = types == "f16" ? FA_F16 : types == "bf16" ? FA_BF16 : FA_F32;
  c.kv = c.out = FA_DTYPE_DEFAULT;
  if (types == "mixed") {
    const MixedTypes mixed = mixed_types(index);
    c.q = mixed.q, c.kv = mixed.kv, c.out = mixed.out;
  }
  return c;
}

bool EngineTest::has_wide_family() const {
  const std::string &types = GetParam().types, &arch = GetParam().arch;
  return (arch == "sm_90a" || arch == "sm_100a") && (types == "f16" || types == "bf16");
}

namespace {

uint64_t shards() {
  return std::max<uint64_t>(number_in("TEST_SHARE"), 1);
}

/// The shard that a target runs: TEST_SHARD, or the target's index among those of the CPU.
uint64_t shard_of_target(const Target &wanted) {
  if (std::getenv("TEST_SHARD")) return number_in("TEST_SHARD");
  const std::vector<Target> all = targets(all_types);
  const auto mine = std::find_if(all.begin(), all.end(), [&](const Target &target) {
    return target.types == wanted.types && target.arch == wanted.arch;
  });
  return uint64_t(mine - all.begin());
}

/// A number of the running test, the same for all of its targets.
uint64_t number_of_test() {
  const std::string name = testing::UnitTest::GetInstance()->current_test_info()->name();
  uint64_t number = 0;
  for (const char letter : name.substr(0, name.find('/'))) number = hash(number ^ uint64_t(letter));
  return number % (uint64_t{1} << 32);
}

}  // namespace

bool EngineTest::in_shard(uint64_t number) const {
  return shard_has(shard_of_target(GetParam()), hash(number) % (uint64_t{1} << 32), shards());
}

std::vector<Case> EngineTest::shard_of(const std::vector<Case> &list, uint64_t one_of) const {
  const uint64_t target = shard_of_target(GetParam()), begin = number_of_test();
  std::vector<Case> result;
  for (size_t i = 0; i < list.size(); ++i)
    if (shard_has(target, begin + i, shards() * one_of)) result.push_back(list[i]);
  return result;
}

void expect_error(fa_status status, fa_status expected, const std::vector<std::string> &names, const Case &c) {
  EXPECT_EQ(status, expected) << to_text(c);
  for (const std::string &name : names)
    EXPECT_NE(std::string(fa_last_error()).find(name), std::string::npos)
        << "\"" << fa_last_error() << "\" does not name " << name << "\n"
        << to_text(c);
}

}  // namespace test
