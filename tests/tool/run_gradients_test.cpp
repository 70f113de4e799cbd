// The gradients of `fa run`: each option reaches its field, and the tool's files are compared with the oracle.
#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>

#include "arrays.h"
#include "program.h"
#include "reference/gradients.h"
#include "run_calls.h"

namespace {

using test::Finished;
using test::random_array;
using test::save;
using namespace test::run;

/// Gradients of the tool's own output and logsumexp.
TEST(RunGradients, OfQueriesKeysAndValues) {
  Call call;
  call.desc.mask = FA_MASK_CAUSAL;
  call.add({"--causal", "--kernel", "cpu.generic"});
  Array dout = random_array(NpyType::f32, {b, sq, hq, d}, 9);
  call.add("--dout", dout);
  const char *const names[] = {"dq", "dk", "dv"};
  for (const char *name : names) call.add({std::string("--") + name, call.folder / (std::string(name) + ".npy")});
  const Finished f = test::fa(call.options);
  ASSERT_EQ(f.code, 0) << f.err;
  EXPECT_NE(f.out.find("dk         float32 (2, 9, 2, 16) -> "), f.out.npos) << f.out;

  Array out = read_npy(call.folder / "out.npy"), lse = read_npy(call.folder / "lse.npy");
  Array gradients[] = {read_npy(call.folder / "dq.npy"), read_npy(call.folder / "dk.npy"),
                       read_npy(call.folder / "dv.npy")};
  fa_backward_args args;
  fa_backward_args_init(&args, sizeof args);
  args.q = call.args.q, args.k = call.args.k, args.v = call.args.v;
  fa_tensor_init(&args.out, out.bytes.data(), FA_F32, b, sq, hq, d);
  fa_tensor_init(&args.dout, dout.bytes.data(), FA_F32, b, sq, hq, d);
  fa_tensor_init(&args.lse, lse.bytes.data(), FA_F32, b, hq, sq, 1);
  fa_tensor_init(&args.dq, gradients[0].bytes.data(), FA_F32, b, sq, hq, d);
  fa_tensor_init(&args.dk, gradients[1].bytes.data(), FA_F32, b, sk, hkv, d);
  fa_tensor_init(&args.dv, gradients[2].bytes.data(), FA_F32, b, sk, hkv, d);
  const reference::Gradients expected = reference::gradients(call.desc, args);
  const reference::Gradient *wanted[] = {&expected.dq, &expected.dk, &expected.dv};
  for (size_t i = 0; i < 3; ++i)
    for (int64_t n = 0; n < gradients[i].elements(); ++n)
      ASSERT_NEAR(gradients[i].value(n), wanted[i]->value[static_cast<size_t>(n)], 1e-4) << names[i] << " " << n;
}

TEST(RunGradients, RepeatTimesBothPasses) {
  Call call;
  call.add({"--kernel", "cpu.generic", "--repeat", "6", "--dq", call.folder / "dq.npy"});
  call.add("--dout", random_array(NpyType::f32, {b, sq, hq, d}, 9));
  const Finished f = test::fa(call.options);
  EXPECT_EQ(f.code, 0) << f.err;
  EXPECT_NE(f.out.find("time       median "), f.out.npos) << f.out;
  EXPECT_NE(f.out.find("backward   median "), f.out.npos) << f.out;
}

/// The bytes of dq are those of a gradient of the output that is bf16 in its file, and not those of the exact one.
TEST(RunGradients, ConvertsTheGradientOfTheOutput) {
  const Array exact = random_array(NpyType::f32, {b, sq, hq, d}, 9);
  const auto dq_of = [](const Array &dout, const std::string &dtype) {
    Call call;
    call.add({"--kernel", "cpu.generic"});
    if (!dtype.empty()) call.add({"--dtype", dtype});
    call.add("--dout", dout);
    const std::string path = call.folder / "dq.npy";
    call.add({"--dq", path});
    const Finished f = test::fa(call.options);
    EXPECT_EQ(f.code, 0) << f.err;
    return read_npy(path).bytes;
  };
  const Array rounded = converted(exact, NpyType::bf16);
  EXPECT_EQ(dq_of(exact, "bf16"), dq_of(rounded, "bf16"));
  EXPECT_NE(dq_of(exact, ""), dq_of(converted(rounded, NpyType::f32), ""));
}

/// A call with every input that has a gradient, and files for all of those.
struct Everything : Call {
  Array dout = random_array(NpyType::f32, {b, sq, hq, d}, 9), dlse = random_array(NpyType::f32, {b, hq, sq}, 10);
  Array bias = random_array(NpyType::f32, {hq, 1, sk}, 4), sinks = random_array(NpyType::f32, {hq}, 6);

  explicit Everything(NpyType type = NpyType::f32) : Call(type) {
    add({"--kernel", "cpu.generic"});
    add("--dout", dout);
    add("--dlse", dlse);
    add("--bias", bias);
    add("--sinks", sinks);
    fa_tensor_init(&args.bias, bias.bytes.data(), FA_F32, 1, hq, 1, sk);
    fa_tensor_init(&args.sinks, sinks.bytes.data(), FA_F32, 1, hq, 1, 1);
  }

  std::string file(const std::string &name) const { return folder / (name + ".npy"); }
  void write(const std::string &name) { add({"--" + name, file(name)}); }

  /// The gradients from the tool's output and logsumexp.
  reference::Gradients gradients() {
    Array written = read_npy(file("out")), lse_written = read_npy(file("lse"));
    std::vector<float> values(static_cast<size_t>(b * std::max(sq, sk) * hq * d));  // its contents do not matter
    fa_backward_args backward;
    fa_backward_args_init(&backward, sizeof backward);
    backward.q = args.q, backward.k = args.k, backward.v = args.v, backward.bias = args.bias;
    backward.sinks = args.sinks;
    fa_tensor_init(&backward.out, written.bytes.data(), FA_F32, b, sq, hq, d);
    fa_tensor_init(&backward.lse, lse_written.bytes.data(), FA_F32, b, hq, sq, 1);
    fa_tensor_init(&backward.dout, dout.bytes.data(), FA_F32, b, sq, hq, d);
    fa_tensor_init(&backward.dlse, dlse.bytes.data(), FA_F32, b, hq, sq, 1);
    fa_tensor_init(&backward.dq, values.data(), FA_F32, b, sq, hq, d);
    fa_tensor_init(&backward.dk, values.data(), FA_F32, b, sk, hkv, d);
    fa_tensor_init(&backward.dv, values.data(), FA_F32, b, sk, hkv, d);
    fa_tensor_init(&backward.dbias, values.data(), FA_F32, 1, hq, 1, sk);
    fa_tensor_init(&backward.dsinks, values.data(), FA_F32, 1, hq, 1, 1);
    return reference::gradients(desc, backward);
  }
};

constexpr const char *all_names[] = {"dq", "dk", "dv", "dbias", "dsinks"};

std::vector<const reference::Gradient *> all_of(const reference::Gradients &g) {
  return {&g.dq, &g.dk, &g.dv, &g.dbias, &g.dsinks};
}

/// Expects the files of a call to hold its gradients, added to `before` where there is any. Returns their arrays.
std::vector<Array> expect_written(Everything *call, const Array *before) {
  const reference::Gradients expected = call->gradients();
  std::vector<Array> written;
  for (size_t i = 0; i < std::size(all_names); ++i) {
    const Array &got = written.emplace_back(read_npy(call->file(all_names[i])));
    const std::vector<double> &gradient = all_of(expected)[i]->value;
    EXPECT_EQ(got.type, NpyType::f32) << all_names[i];
    EXPECT_EQ(static_cast<size_t>(got.elements()), gradient.size()) << all_names[i];
    for (int64_t n = 0; n < got.elements() && !testing::Test::HasFailure(); ++n) {
      const double want = gradient[static_cast<size_t>(n)] + (before == nullptr ? 0 : before[i].value(n));
      EXPECT_NEAR(got.value(n), want, 1e-4) << all_names[i] << " " << n;
    }
  }
  return written;
}

TEST(RunGradients, OfBiasAndSinksAndThroughTheLogSumExp) {
  Everything call;
  for (const char *name : all_names) call.write(name);
  const Finished f = test::fa(call.options);
  ASSERT_EQ(f.code, 0) << f.err;
  expect_written(&call, nullptr);
  EXPECT_EQ(read_npy(call.file("dbias")).shape, call.bias.shape);
  EXPECT_EQ(read_npy(call.file("dsinks")).shape, call.sinks.shape);
}

/// The sums are float32 under 16-bit inputs too, and a call that is repeated to be timed adds once.
TEST(RunGradients, AddToWhatTheirFilesHold) {
  std::vector<std::byte> added_once[std::size(all_names)];
  for (const bool repeated : {false, true}) {
    Everything call(NpyType::f16);
    const Array before[] = {random_array(NpyType::f32, {b, sq, hq, d}, 21),
                            random_array(NpyType::f32, {b, sk, hkv, d}, 22),
                            random_array(NpyType::f32, {b, sk, hkv, d}, 23),
                            random_array(NpyType::f32, {hq, 1, sk}, 24), random_array(NpyType::f32, {hq}, 25)};
    for (size_t i = 0; i < std::size(all_names); ++i) {
      save(call.file(all_names[i]), before[i]);
      call.write(all_names[i]);
    }
    call.add({"--accumulate"});
    if (repeated) call.add({"--repeat", "3"});
    const Finished f = test::fa(call.options);
    ASSERT_EQ(f.code, 0) << f.err;
    const std::vector<Array> sums = expect_written(&call, before);
    for (size_t i = 0; i < sums.size(); ++i) {
      if (repeated) {
        EXPECT_EQ(sums[i].bytes, added_once[i]) << all_names[i];
      }
      added_once[i] = sums[i].bytes;
    }
  }
}

/// A reference is enough, no file need be written; and each gradient is held to its own.
TEST(RunGradients, CompareWithReferences) {
  Everything call;
  const std::vector<std::string> inputs = call.options;
  for (const char *name : all_names) call.write(name);
  ASSERT_EQ(test::fa(call.options).code, 0);
  for (const char *wrong : all_names) {
    call.options = inputs;
    call.add({"--max-error", "0.25"});
    for (const char *name : all_names) {
      Array reference = read_npy(call.file(name));
      if (name == std::string(wrong)) reference.data<float>()[3] += 0.5F;
      call.add({"--reference", std::string(name) + "=" + save(call.file(std::string(name) + "_reference"), reference)});
    }
    const Finished f = test::fa(call.options);
    EXPECT_EQ(f.code, 1) << wrong;
    for (const char *name : all_names) {
      const std::string line = std::string(name) + "_reference.npy: largest difference of " + name +
                               (name == std::string(wrong) ? " 0.5 at (" : " 0 at (");
      EXPECT_NE(f.out.find(line), f.out.npos) << line << "\n" << f.out;
      const std::string complaint = std::string("the largest difference of ") + name + " to ";
      EXPECT_EQ(f.err.find(complaint) != f.err.npos, name == std::string(wrong)) << f.err;
    }
  }
  call.options = inputs;
  const std::string out = save(call.file("out_reference"), read_npy(call.file("out")));
  call.add({"--max-error", "0", "--reference", "dk=" + call.file("dk"), "--reference", out});
  EXPECT_EQ(test::fa(call.options).code, 0);
}

}  // namespace
