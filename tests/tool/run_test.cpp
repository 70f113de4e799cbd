// `fa run`: every option reaches its field. The tool's files are compared with the oracle's attention of the same
// arrays, described here by hand.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdio>
#include <functional>

#include "arrays.h"
#include "program.h"
#include "run_calls.h"
#include "temporary.h"

namespace {

using test::Finished;
using test::int32_array;
using test::random_array;
using test::save;
using namespace test::run;

TEST(Run, Plain) {
  Call().expect_right();
}
TEST(Run, Float16) {
  Call(NpyType::f16).expect_right();
}
TEST(Run, Bfloat16) {
  Call(NpyType::bf16).expect_right();
}

/// Options that are numbers or flags, and the field that each must set.
struct Setting {
  std::vector<std::string> options;
  std::function<void(fa_desc &)> set;
};

TEST(Run, SettingsReachTheirFields) {
  const Setting settings[] = {{{"--causal"}, [](fa_desc &desc) { desc.mask = FA_MASK_CAUSAL; }},
                              {{"--causal-top-left"}, [](fa_desc &desc) { desc.mask = FA_MASK_CAUSAL_TOP_LEFT; }},
                              {{"--window", "1,2"}, [](fa_desc &desc) { desc.window_left = 1, desc.window_right = 2; }},
                              {{"--window", "-1,0"}, [](fa_desc &desc) { desc.window_right = 0; }},
                              {{"--window=2,-1"}, [](fa_desc &desc) { desc.window_left = 2; }},
                              {{"--chunk", "3"}, [](fa_desc &desc) { desc.attention_chunk = 3; }},
                              {{"--softcap", "0.5"}, [](fa_desc &desc) { desc.softcap = 0.5f; }},
                              {{"--scale", "-0.7"}, [](fa_desc &desc) { desc.softmax_scale = -0.7f; }},
                              {{"--threads", "2", "--num-splits", "3", "--device", "cpu"}, [](fa_desc &) {}},
                              {{"--batch-invariant", "--kernel", "cpu.generic"}, [](fa_desc &) {}},
                              {{"--nondeterministic", "--repeat", "3"}, [](fa_desc &) {}},
                              {{"--hadamard-k"}, [](fa_desc &desc) { desc.flags = FA_FLAG_HADAMARD_K; }},
                              {{"--hadamard-v"}, [](fa_desc &desc) { desc.flags = FA_FLAG_HADAMARD_V; }}};
  for (const Setting &setting : settings) {
    SCOPED_TRACE(setting.options.front());
    Call call;
    setting.set(call.desc);
    call.add(setting.options);
    call.expect_right();
  }
}

TEST(Run, BiasMaskSlopesAndSinks) {
  Call call;
  Array *bias = call.add("--bias", random_array(NpyType::f16, {hq, 1, sk}, 4));
  fa_tensor_init(&call.args.bias, bias->bytes.data(), FA_F16, 1, hq, 1, sk);
  Array mask = fa::tool::make_array(NpyType::boolean, {sq, sk});
  for (size_t i = 0; i < mask.bytes.size(); ++i) mask.bytes[i] = std::byte(i % 3 != 0);
  fa_tensor_init(&call.args.mask, call.add("--mask", mask)->bytes.data(), FA_BOOL, 1, 1, sq, sk);
  fa_tensor_init(&call.args.alibi_slopes, call.add("--alibi", random_array(NpyType::f32, {hq}, 5))->bytes.data(),
                 FA_F32, 1, hq, 1, 1);
  fa_tensor_init(&call.args.sinks, call.add("--sinks", random_array(NpyType::f32, {b, hq}, 6))->bytes.data(), FA_F32, b,
                 hq, 1, 1);
  call.expect_right();
}

TEST(Run, BiasBeforeSoftcapAndInFloat64) {
  Call call;
  call.desc.softcap = 1;
  call.desc.flags = FA_FLAG_BIAS_BEFORE_SOFTCAP;
  call.add({"--softcap", "1", "--bias-before-softcap"});
  Array bias = random_array(NpyType::f32, {sq, sk}, 4);
  call.add("--bias", converted(bias, NpyType::f64));
  fa_tensor_init(&call.args.bias, bias.bytes.data(), FA_F32, 1, 1, sq, sk);
  call.expect_right();
}

TEST(Run, LengthsPaddingOffsetsAndCacheRows) {
  Call call;
  call.desc.mask = FA_MASK_CAUSAL;
  call.add({"--causal"});
  call.args.seqused_q = call.add("--seqused-q", int32_array({5, 3}))->data<int32_t>();
  call.args.seqused_k = call.add("--seqused-k", int32_array({7, 9}))->data<int32_t>();
  call.args.leftpad_k = call.add("--leftpad-k", int32_array({2, 0}))->data<int32_t>();
  call.args.kv_batch_idx = call.add("--kv-batch-idx", int32_array({1, 0}))->data<int32_t>();
  call.args.q_offset = call.add("--q-offset", int32_array({-1, 4}))->data<int32_t>();
  call.expect_right();
}

TEST(Run, Packed) {
  for (const bool together : {true, false}) {
    Call call(NpyType::f32, true);
    if (together) {  // one file says where both begin: the rows of q and k must be as many
      call.k = random_array(NpyType::f32, {b * sq, hkv, d}, 2);
      call.v = random_array(NpyType::f32, {b * sq, hkv, d}, 3);
      save(call.folder / "k.npy", call.k);
      save(call.folder / "v.npy", call.v);
      fa_tensor_init(&call.args.k, call.k.bytes.data(), FA_F32, 1, b * sq, hkv, d);
      fa_tensor_init(&call.args.v, call.v.bytes.data(), FA_F32, 1, b * sq, hkv, d);
      call.args.cu_seqlens_q = call.args.cu_seqlens_k =
          call.add("--cu-seqlens", int32_array({0, 4, 10}))->data<int32_t>();
    } else {
      call.args.cu_seqlens_q = call.add("--cu-seqlens-q", int32_array({0, 4, 10}))->data<int32_t>();
      call.args.cu_seqlens_k = call.add("--cu-seqlens-k", int32_array({0, 11, 18}))->data<int32_t>();
    }
    call.args.num_seqs = b;
    call.expect_right();
  }
}

TEST(Run, Paged) {
  Call call;
  const int64_t pages = 6, page = 3;
  call.k = random_array(NpyType::f32, {pages, page, hkv, d}, 2);
  call.v = random_array(NpyType::f32, {pages, page, hkv, d}, 3);
  save(call.folder / "k.npy", call.k);
  save(call.folder / "v.npy", call.v);
  fa_tensor_init(&call.args.k, call.k.bytes.data(), FA_F32, pages, page, hkv, d);
  fa_tensor_init(&call.args.v, call.v.bytes.data(), FA_F32, pages, page, hkv, d);
  fa_tensor_init(&call.args.block_table,
                 call.add("--block-table", int32_array({5, 0, 3, 1, 2, 4}, {b, 3}))->bytes.data(), FA_I32, b, 3, 1, 1);
  call.args.seqused_k = call.add("--seqused-k", int32_array({9, 4}))->data<int32_t>();
  call.expect_right();
}

/// Bytes after the array are left in the pipe, which need not end.
TEST(Run, APipeThatDoesNotEnd) {
  Call call;
  ASSERT_EQ(mkfifo((call.folder / "pipe").c_str(), 0600), 0);
  const std::string writer =
      "(cat " + (call.folder / "q.npy") + " /dev/zero > " + (call.folder / "pipe") + " 2> /dev/null) &";
  ASSERT_EQ(std::system(writer.c_str()), 0);
  call.options[2] = call.folder / "pipe";
  call.expect_right();
}

TEST(Run, HeadsBeforeRows) {
  Call call;
  const auto transposed = [](const Array &from) {
    const std::vector<int64_t> &s = from.shape;
    Array to = fa::tool::make_array(from.type, {s[0], s[2], s[1], s[3]});
    for (int64_t i = 0; i < from.elements(); ++i) {
      const int64_t e = i % s[3], h = i / s[3] % s[2], r = i / s[3] / s[2] % s[1], n = i / s[3] / s[2] / s[1];
      to.data<float>()[((n * s[2] + h) * s[1] + r) * s[3] + e] = from.data<float>()[i];
    }
    return to;
  };
  ASSERT_EQ(test::fa(call.options).code, 0);
  const Array expected = transposed(read_npy(call.folder / "out.npy"));
  for (const auto &[name, array] : {std::pair("q.npy", &call.q), {"k.npy", &call.k}, {"v.npy", &call.v}}) {
    save(call.folder / name, transposed(*array));
  }
  call.add({"--layout", "bhsd"});
  ASSERT_EQ(test::fa(call.options).code, 0);
  const Array got = read_npy(call.folder / "out.npy");
  EXPECT_EQ(got.shape, expected.shape);
  EXPECT_EQ(got.bytes, expected.bytes);
}

TEST(Run, ConvertsTypes) {
  Call call;
  for (const auto &[name, array] : {std::pair("q.npy", &call.q), {"k.npy", &call.k}, {"v.npy", &call.v}}) {
    save(call.folder / name, converted(*array, NpyType::f64));
  }
  const Finished f = test::fa(call.options);
  EXPECT_EQ(f.code, 2);
  EXPECT_NE(f.err.find("--dtype f32"), f.err.npos) << f.err;
  call.add({"--dtype", "f32"});
  call.expect_right();
}

TEST(Run, TakesUint16AsBfloat16) {
  Call call(NpyType::bf16);
  for (const auto &[name, array] : {std::pair("q.npy", &call.q), {"k.npy", &call.k}, {"v.npy", &call.v}}) {
    Array bits = *array;
    bits.type = NpyType::u16;
    save(call.folder / name, bits);
  }
  const Finished f = test::fa(call.options);
  EXPECT_EQ(f.code, 2);
  EXPECT_NE(f.err.find("--u2-as-bf16"), f.err.npos) << f.err;
  call.add({"--u2-as-bf16"});
  call.expect_right();
}

TEST(Run, ComparesWithAReference) {
  const std::string data = TEST_DATA;
  std::vector<std::string> options = {"run",
                                      "--q",
                                      data + "/layer0_q.npy",
                                      "--k",
                                      data + "/layer0_k.npy",
                                      "--v",
                                      data + "/layer0_v.npy",
                                      "--cu-seqlens",
                                      data + "/cu_seqlens.npy",
                                      "--reference",
                                      data + "/layer0_out.npy",
                                      "--max-error"};
  options.push_back("2e-3");
  Finished f = test::fa(options);
  EXPECT_EQ(f.code, 0) << f.err;
  EXPECT_NE(f.out.find("3 sequences"), f.out.npos) << f.out;
  EXPECT_NE(f.out.find("largest difference"), f.out.npos) << f.out;
  options.back() = "1e-9";
  f = test::fa(options);
  EXPECT_EQ(f.code, 1);
  EXPECT_NE(f.err.find("more than --max-error 1e-09"), f.err.npos) << f.err;
}

TEST(Run, PrintsTheMedianTime) {
  Call call;
  call.add({"--repeat", "7"});
  const Finished f = test::fa(call.options);
  EXPECT_NE(f.out.find("of 7 calls"), f.out.npos) << f.out;
  EXPECT_NE(f.out.find("GFLOP/s"), f.out.npos) << f.out;
  EXPECT_NE(f.out.find("kernel     cpu."), f.out.npos) << f.out;
}

/// GFLOP/s are the operations, which follow from the sizes, over the median.
TEST(Run, PrintsOperationsOverTheMedianTime) {
  const test::TemporaryFolder folder;
  const auto array = [&](const char *name) {
    return save(folder / name, random_array(NpyType::f32, {1, 200, 4, 64}, 1));
  };
  const Finished f = test::fa({"run", "--q", array("q.npy"), "--k", array("k.npy"), "--v", array("v.npy"), "--causal",
                               "--repeat", "5", "--kernel", "cpu.generic"});
  ASSERT_EQ(f.code, 0) << f.err;
  double median = 0, low = 0, high = 0, rate = 0;
  char unit[3] = "", low_unit[3] = "", high_unit[3] = "";
  const size_t at = f.out.find("median");
  ASSERT_NE(at, f.out.npos) << f.out;
  ASSERT_EQ(
      std::sscanf(f.out.c_str() + at, "median %lf %2[a-z] of 5 calls, 95 %% within [%lf %2[a-z], %lf %2[a-z]]: %lf",
                  &median, unit, &low, low_unit, &high, high_unit, &rate),
      7)
      << f.out;
  const auto seconds = [](double value, const std::string &of) {
    return value * (of == "s" ? 1 : of == "ms" ? 1e-3 : 1e-6);
  };
  const double middle = seconds(median, unit), operations = 4.0 * 4 * 64 * (200 * 201 / 2);
  EXPECT_NEAR(rate, operations / middle * 1e-9, 0.06 + rate * 0.01) << f.out;
  EXPECT_LE(seconds(low, low_unit), middle) << f.out;
  EXPECT_GE(seconds(high, high_unit), middle) << f.out;
}

TEST(Run, TheEnvironmentChoosesAKernelToo) {
  for (const char *given : {"", "cpu.generic"}) {
    Call call;
    if (*given) call.add({"--kernel", given});
    const Finished f = test::fa(call.options, {{"FA_FORCE_KERNEL", *given ? "cpu.none" : "cpu.generic"}});
    EXPECT_EQ(f.code, 0) << f.err;
    EXPECT_NE(f.out.find("kernel     cpu.generic"), f.out.npos) << f.out;
  }
  const Finished f = test::fa({"run", "--case", "sq=4 sk=4"}, {{"FA_FORCE_KERNEL", "cpu.generic"}});
  EXPECT_NE(f.out.find("kernel     cpu.generic"), f.out.npos) << f.out << f.err;
}

TEST(Run, ReplaysACase) {
  const Finished f = test::fa(
      {"run", "--kernel", "cpu.generic", "--case", "b=2 sq=7 sk=33 hq=2 hkv=1 d=32 q=bf16 mask=causal bias=f32:h"});
  EXPECT_EQ(f.code, 0) << f.err;
  EXPECT_NE(f.out.find("cpu.generic"), f.out.npos) << f.out;
  EXPECT_NE(f.out.find("right      largest error"), f.out.npos) << f.out;
}

/// Types by the names that numpy and torch have for them.
TEST(Run, SpellingsOfTypes) {
  for (const auto &[spelled, name] : {std::pair("half", "float16"),
                                      {"float16", "float16"},
                                      {"fp16", "float16"},
                                      {"float32", "float32"},
                                      {"bfloat16", "bfloat16"}}) {
    Call call;
    call.add({"--kernel", "cpu.generic", "--dtype", spelled});
    const Finished f = test::fa(call.options);
    EXPECT_EQ(f.code, 0) << f.err;
    EXPECT_NE(f.out.find(std::string("q, k, v    ") + name + " "), f.out.npos) << f.out;
  }
}

}  // namespace
