// Information about the library: statuses, the last error, versions, kernels, and the defaults of initialisers.
#include <set>
#include <thread>

#include "call.h"
#include "schema/schema.h"

namespace api_test {
namespace {

// [F142]
TEST(Status, NamesAreThoseOfTheHeader) {
  EXPECT_STREQ(fa_status_string(FA_OK), "FA_OK");
  EXPECT_STREQ(fa_status_string(FA_ERROR_INVALID_ARGUMENT), "FA_ERROR_INVALID_ARGUMENT");
  EXPECT_STREQ(fa_status_string(FA_ERROR_UNSUPPORTED), "FA_ERROR_UNSUPPORTED");
  EXPECT_STREQ(fa_status_string(FA_ERROR_NO_DEVICE), "FA_ERROR_NO_DEVICE");
  EXPECT_STREQ(fa_status_string(FA_ERROR_OUT_OF_MEMORY), "FA_ERROR_OUT_OF_MEMORY");
  EXPECT_STREQ(fa_status_string(FA_ERROR_DRIVER), "FA_ERROR_DRIVER");
  for (const fa_status status : {-1, 6, INT32_MAX, INT32_MIN}) {
    EXPECT_STREQ(fa_status_string(status), "unknown fa_status");
  }
}

// [F138] [F139]
TEST(LastError, BelongsToItsThread) {
  ASSERT_NE(fa_kernel_info(-5, nullptr), FA_OK);
  const std::string ours = fa_last_error();
  std::thread([] {
    EXPECT_STREQ(fa_last_error(), "") << "a thread without errors";
    fa_create(nullptr, nullptr);
    EXPECT_EQ(missing_words(fa_last_error(), {"op is NULL"}), "");
  }).join();
  EXPECT_EQ(fa_last_error(), ours);
}

// [F140]
TEST(LastError, OutlivesSuccess) {
  Call call;
  ASSERT_NE(fa_create(nullptr, nullptr), FA_OK);
  EXPECT_EQ(call.run(), FA_OK);
  EXPECT_EQ(missing_words(fa_last_error(), {"op is NULL"}), "");
}

// [F145]
TEST(Version, AgreesWithTheHeader) {
  EXPECT_EQ(fa_version(), FA_VERSION_MAJOR * 10000 + FA_VERSION_MINOR * 100 + FA_VERSION_PATCH);
  EXPECT_EQ(std::string(FA_VERSION_STRING), std::to_string(FA_VERSION_MAJOR) + "." + std::to_string(FA_VERSION_MINOR) +
                                                "." + std::to_string(FA_VERSION_PATCH));
}

// [F146]
TEST(Version, BuildInfoIsOneLineWithEveryKernel) {
  std::vector<std::string> words = {"libfa " FA_VERSION_STRING};
  for (int32_t i = 0; i < fa_kernel_count(); ++i) {
    fa_kernel info;
    info.struct_size = sizeof info;
    ASSERT_EQ(fa_kernel_info(i, &info), FA_OK);
    words.push_back(info.name);
  }
  EXPECT_EQ(missing_words(fa_build_info(), words), "");
  EXPECT_EQ(std::string(fa_build_info()).find('\n'), std::string::npos);
  EXPECT_EQ(fa_build_info(), fa_build_info());
}

// [F112] [F113]
TEST(Kernels, EachIsDescribed) {
  ASSERT_GT(fa_kernel_count(), 0);
  std::set<std::string> names;
  int available = 0;
  for (int32_t i = 0; i < fa_kernel_count(); ++i) {
    fa_kernel info;
    std::memset(&info, 0x5a, sizeof info);
    info.struct_size = sizeof info;
    ASSERT_EQ(fa_kernel_info(i, &info), FA_OK);
    EXPECT_TRUE(names.insert(info.name).second) << info.name << " is listed twice";
    EXPECT_EQ(std::string(info.name).rfind(std::string(info.device) + ".", 0), 0u) << info.name;
    EXPECT_TRUE(std::string(info.device) == "cpu" || std::string(info.device) == "cuda") << info.device;
    EXPECT_STRNE(info.arch, "");
    EXPECT_STRNE(info.compute_dtypes, "");
    EXPECT_EQ(info.available, std::strlen(info.unavailable_reason) == 0)
        << info.name << ": " << info.unavailable_reason;
    available += info.available;
  }
  EXPECT_GT(available, 0) << "the generic kernel runs anywhere";
}

std::vector<std::string> backward_names(int32_t index, const fa_kernel &info) {
  std::vector<std::string> names;
  for (int32_t i = 0; i < info.num_backward; ++i) names.emplace_back(fa_kernel_backward_name(index, i));
  return names;
}

/// A CPU's kernel computes its gradients itself; on a GPU, other families of its architecture do.
// [F205]
TEST(Kernels, BackwardKernelsAreNamed) {
  for (int32_t i = 0; i < fa_kernel_count(); ++i) {
    fa_kernel info;
    info.struct_size = sizeof info;
    ASSERT_EQ(fa_kernel_info(i, &info), FA_OK);
    const std::string arch = std::string("cuda.") + info.arch;
    const bool halves = std::string(info.compute_dtypes).find("f16") != std::string::npos;
    std::vector<std::string> expected = {arch + ".backward_simt"};
    if (halves) expected.insert(expected.begin(), arch + ".backward_mma");
    if (std::string(info.device) == "cpu") expected = {info.name};
    if (std::string(info.arch) == "amx_bf16x2") expected = {"cpu.avx512"};  // whose prefill alone is its own
    std::vector<std::string> names = backward_names(i, info);
    // Hopper's and Blackwell's families come first, where the build has images of them.
    const bool specialised = !names.empty() && (names.front() == "cuda.sm_90a.backward_wgmma" ||
                                                names.front() == "cuda.sm_100a.backward_tcgen05");
    if (halves && specialised && names.front().starts_with(arch + ".")) names.erase(names.begin());
    EXPECT_EQ(names, expected) << info.name;
  }
}

// [F206]
TEST(Kernels, BackwardNamesOutOfRange) {
  fa_kernel info;
  info.struct_size = sizeof info;
  ASSERT_EQ(fa_kernel_info(0, &info), FA_OK);
  const int32_t count = fa_kernel_count(), names = info.num_backward;
  const auto refusal = [](int32_t index, int32_t i, const std::vector<std::string> &words) {
    EXPECT_STREQ(fa_kernel_backward_name(index, i), "");
    EXPECT_EQ(missing_words(fa_last_error(), words), "") << fa_last_error();
  };
  refusal(-1, 0, {"index is -1", "0 .. " + std::to_string(count - 1)});
  refusal(count, 0, {"index is " + std::to_string(count)});
  for (const int32_t i : {-1, names, INT32_MAX})
    refusal(0, i,
            {"i is " + std::to_string(i), names == 0 ? "computes no gradients" : "0 .. " + std::to_string(names - 1)});
}

// [F144]
TEST(Kernels, NamesOutliveTheirOps) {
  fa_op *op = Call().create();
  const char *const name = fa_op_kernel_name(op);
  const std::string before = name;
  fa_destroy(op);
  EXPECT_EQ(name, before);
}

// [F158]
TEST(Kernels, StringsStay) {
  std::vector<fa_kernel> first(static_cast<size_t>(fa_kernel_count()));
  std::vector<std::string> texts;
  const auto strings = [](const fa_kernel &k) {
    return std::string(k.name) + "|" + k.device + "|" + k.arch + "|" + k.compute_dtypes + "|" + k.unavailable_reason;
  };
  for (size_t i = 0; i < first.size(); ++i) {
    first[i].struct_size = sizeof(fa_kernel);
    ASSERT_EQ(fa_kernel_info(static_cast<int32_t>(i), &first[i]), FA_OK);
    texts.push_back(strings(first[i]));
  }
  fa_destroy(Call().create());
  for (size_t i = 0; i < first.size(); ++i) {
    fa_kernel again;
    again.struct_size = sizeof again;
    ASSERT_EQ(fa_kernel_info(static_cast<int32_t>(first.size() - 1 - i), &again), FA_OK);
  }
  for (size_t i = 0; i < first.size(); ++i) EXPECT_EQ(strings(first[i]), texts[i]);
}

// [F149]
TEST(Kernels, IndexBeyondTheTableIsRefused) {
  fa_kernel info;
  info.struct_size = sizeof info;
  for (const int32_t index : {-1, fa_kernel_count(), INT32_MAX}) {
    EXPECT_EQ(fa_kernel_info(index, &info), FA_ERROR_INVALID_ARGUMENT);
    EXPECT_EQ(missing_words(fa_last_error(),
                            {"index is " + std::to_string(index), "0 .. " + std::to_string(fa_kernel_count() - 1)}),
              "");
  }
}

// [F117]
TEST(Initialisers, TensorIsContiguous) {
  float data[1];
  fa_tensor tensor;
  std::memset(&tensor, 0x5a, sizeof tensor);
  fa_tensor_init(&tensor, data, FA_F32, 2, 3, 5, 7);
  EXPECT_EQ(tensor.data, data);
  EXPECT_EQ(tensor.dtype, FA_F32);
  EXPECT_EQ(tensor.reserved, 0);
  const int64_t shape[4] = {2, 3, 5, 7}, stride[4] = {105, 35, 7, 1};
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(tensor.shape[i], shape[i]);
    EXPECT_EQ(tensor.stride[i], stride[i]);
  }
}

TEST(Initialisers, TensorTooLargeForItsStridesIsRefusedWhenUsed) {
  Call call;
  fa_tensor_init(&call.args.q, call.q, FA_F32, 2, INT64_MAX, INT64_MAX, 8);
  EXPECT_EQ(call.args.q.stride[0], INT64_MAX);
  EXPECT_EQ(call.run(), FA_ERROR_INVALID_ARGUMENT);
}

// [F74]
TEST(Initialisers, DefaultsOfTheTypesAreFilledIn) {
  Call call;
  call.add_lse();
  call.add_bias();
  call.add_mask();
  call.add_slopes();
  call.add_sinks();
  for (const auto &field : fa::schema::Fields<fa_forward_args>::tensors)
    (call.args.*field.field).dtype = FA_DTYPE_DEFAULT;
  EXPECT_EQ(call.run(), FA_OK) << fa_last_error();
}

// ---- legal calls at the edge of refusals

// [F20] [F82]
TEST(Legal, EmptyProblems) {
  for (int empty = 0; empty < 3; ++empty) {
    Call call;
    call.args.q.shape[empty] = call.args.out.shape[empty] = 0;
    if (empty == 0) call.args.k.shape[0] = call.args.v.shape[0] = 0;
    if (empty == 2) call.args.k.shape[2] = call.args.v.shape[2] = 0;
    for (fa_tensor *tensor : {&call.args.q, &call.args.out}) tensor->data = nullptr;
    EXPECT_EQ(call.run(), FA_OK) << "q.shape[" << empty << "] = 0: " << fa_last_error();
  }
}

TEST(Legal, NoKeysGiveZero) {
  Call call;
  call.args.k.shape[1] = call.args.v.shape[1] = 0;
  call.args.k.data = call.args.v.data = nullptr;
  ASSERT_EQ(call.run(), FA_OK) << fa_last_error();
  for (const float x : call.out) ASSERT_EQ(x, 0);
}

TEST(Legal, StridesOfDimensionsOfOneAreIgnored) {
  Call call;
  for (fa_tensor *tensor : {&call.args.q, &call.args.k, &call.args.v, &call.args.out}) {
    tensor->shape[0] = 1;
    tensor->stride[0] = INT64_MIN;
  }
  EXPECT_EQ(call.run(), FA_OK) << fa_last_error();
}

TEST(Legal, WindowsAndChunksOfAnySize) {
  for (const int64_t size : {int64_t{0}, int64_t{1} << 40, INT64_MAX}) {
    Call call;
    call.desc.window_left = call.desc.window_right = call.desc.attention_chunk = size;
    EXPECT_EQ(call.run(), FA_OK) << size << ": " << fa_last_error();
  }
}

// [F121]
TEST(Legal, DescriptionsAreDropped) {
  Call call;
  fa_op *op = call.create();
  std::memset(&call.desc, 0xa5, sizeof call.desc);
  EXPECT_EQ(fa_forward(op, &call.args), FA_OK) << fa_last_error();
  fa_destroy(op);
}

// [F111]
TEST(Legal, StreamsOnTheCpuAreIgnored) {
  Call call;
  call.desc.device = FA_DEVICE_CPU;
  call.args.stream = &call;  // no stream of any driver
  EXPECT_EQ(call.run(), FA_OK) << fa_last_error();
}

TEST(Legal, ShutdownBeforeBetweenAndAfterCalls) {
  fa_shutdown();
  Call call;
  call.desc.num_threads = 2;
  EXPECT_EQ(call.run(), FA_OK) << fa_last_error();
  fa_shutdown();
  fa_shutdown();
  EXPECT_EQ(call.run(), FA_OK) << fa_last_error();
  fa_shutdown();
}

// [F44]
TEST(Legal, EverythingThatCombines) {
  Call call;
  call.pack_q();
  fa_tensor_init(&call.args.lse, call.lse, FA_F32, 1, Call::hq, Call::sq, 1);
  call.add_slopes();
  call.add_sinks();
  call.args.max_seqlen_q = 2;
  call.args.max_seqlen_k = 4;
  fa_tensor_init(&call.args.bias, call.bias, FA_F32, 1, 1, 2, 4);
  fa_tensor_init(&call.args.mask, call.mask, FA_BOOL, Call::b, 1, 1, 1);
  call.args.kv_batch_idx = call.batch_idx;
  call.args.seqused_k = call.used_k;
  call.args.leftpad_k = call.leftpad;
  call.args.q_offset = call.offset;
  call.args.num_splits = 2;
  call.desc.softcap = 5;
  call.desc.flags = FA_FLAG_BIAS_BEFORE_SOFTCAP;
  EXPECT_EQ(call.run(), FA_OK) << fa_last_error();
}

}  // namespace
}  // namespace api_test
