// The environment variables and the log callback, read by every fa_create.
#include <algorithm>
#include <cstring>
#include <stdexcept>

#include "call.h"

namespace api_test {
namespace {

std::vector<fa_kernel> kernels() {
  std::vector<fa_kernel> all(static_cast<size_t>(fa_kernel_count()));
  for (size_t i = 0; i < all.size(); ++i) {
    all[i].struct_size = sizeof(fa_kernel);
    EXPECT_EQ(fa_kernel_info(static_cast<int32_t>(i), &all[i]), FA_OK);
  }
  return all;
}

/// Collects the library's messages for its life.
class Log {
 public:
  Log() { fa_set_log(add, this); }
  ~Log() { fa_set_log(nullptr, nullptr); }
  Log(const Log &) = delete;
  Log &operator=(const Log &) = delete;

  std::string text() const { return text_; }

 private:
  static void add(void *self, const char *line) {
    EXPECT_EQ(std::strchr(line, '\n'), nullptr) << line;
    static_cast<Log *>(self)->text_ += std::string(line) + "\n";
  }
  std::string text_;
};

std::string chosen_kernel() {
  Call call;
  fa_op *op = call.create();
  const std::string name = fa_op_kernel_name(op);
  fa_destroy(op);
  return name;
}

/// The status of fa_create under the present environment.
fa_status create_status(fa_dtype dtype = FA_F32) {
  Call call;
  call.desc.dtype_q = dtype;
  fa_op *op = nullptr;
  const fa_status status = fa_create(&call.desc, &op);
  fa_destroy(op);
  return status;
}

// [F59]
TEST(Environment, ForceKernelTakesEachThatRunsHere) {
  for (const fa_kernel &kernel : kernels()) {
    const Variable force("FA_FORCE_KERNEL", kernel.name);
    const fa_status status = create_status();
    if (status == FA_OK) {
      EXPECT_TRUE(kernel.available) << kernel.name;
      EXPECT_EQ(chosen_kernel(), kernel.name);
    } else {
      EXPECT_EQ(status, FA_ERROR_UNSUPPORTED);
      EXPECT_EQ(
          missing_words(fa_last_error(), {"FA_FORCE_KERNEL", kernel.name, "cannot run", kernel.unavailable_reason}),
          "");
    }
  }
}

// [F59]
TEST(Environment, ForceKernelListsTheNamesThatExist) {
  const Variable force("FA_FORCE_KERNEL", "cpu.abacus");
  EXPECT_EQ(create_status(), FA_ERROR_UNSUPPORTED);
  std::vector<std::string> words = {"FA_FORCE_KERNEL", "cpu.abacus", "no such kernel"};
  for (const fa_kernel &kernel : kernels()) words.push_back(kernel.name);
  EXPECT_EQ(missing_words(fa_last_error(), words), "");
}

/// Families that compute the gradients of a GPU's kernels have other names.
// [F205]
TEST(Environment, ForceKernelTakesNoneThatComputesGradientsAlone) {
  for (int32_t index = -1; const fa_kernel &kernel : kernels()) {
    ++index;
    if (std::string(kernel.device) == "cpu") continue;
    for (int32_t i = 0; i < kernel.num_backward; ++i) {
      const std::string name = fa_kernel_backward_name(index, i);
      const Variable force("FA_FORCE_KERNEL", name.c_str());
      EXPECT_EQ(create_status(), FA_ERROR_UNSUPPORTED);
      EXPECT_EQ(missing_words(fa_last_error(), {"FA_FORCE_KERNEL", name, "no such kernel"}), "");
    }
  }
}

TEST(Environment, EmptyIsUnset) {
  const std::string best = chosen_kernel();
  const Variable force("FA_FORCE_KERNEL", ""), max("FA_MAX_ARCH", "");
  EXPECT_EQ(chosen_kernel(), best);
}

// [F60]
TEST(Environment, MaxArchSkipsWhatIsNewer) {
  const std::vector<fa_kernel> all = kernels();
  for (const fa_kernel &limit : all) {
    const Variable max("FA_MAX_ARCH", limit.arch);
    if (create_status() != FA_OK) continue;
    const std::string chosen = chosen_kernel();
    const auto position = [&](auto matches) { return std::find_if(all.begin(), all.end(), matches) - all.begin(); };
    const auto first = position([&](const fa_kernel &k) { return std::string(k.arch) == limit.arch; });
    EXPECT_GE(position([&](const fa_kernel &k) { return k.name == chosen; }), first) << limit.arch;
  }
}

TEST(Environment, MaxArchGenericChoosesTheLastKernel) {
  const Variable max("FA_MAX_ARCH", "generic");
  EXPECT_EQ(chosen_kernel(), "cpu.generic");
}

TEST(Environment, MaxArchListsTheNamesThatExist) {
  const Variable max("FA_MAX_ARCH", "z80");
  EXPECT_EQ(create_status(), FA_ERROR_UNSUPPORTED);
  std::vector<std::string> words = {"FA_MAX_ARCH", "z80"};
  for (const fa_kernel &kernel : kernels()) words.push_back(kernel.arch);
  EXPECT_EQ(missing_words(fa_last_error(), words), "");
}

TEST(Environment, ForceKernelOverrulesMaxArch) {
  const Variable max("FA_MAX_ARCH", "generic"), force("FA_FORCE_KERNEL", "cpu.generic");
  EXPECT_EQ(chosen_kernel(), "cpu.generic");
}

// [F58] [F148] [F150]
TEST(Environment, VerboseTellsEveryKernelUpToTheChosen) {
  for (const char *level : {"dispatch", "all", "1", "true", "debug", "Dispatch"}) {
    const Log log;
    const Variable verbose("FA_VERBOSE", level);
    const std::string chosen = chosen_kernel();
    std::vector<std::string> words = {"dispatch: " + chosen + " chosen", "device auto", "CPU"};
    for (const fa_kernel &kernel : kernels()) {
      if (kernel.name == chosen) break;
      words.push_back(std::string(kernel.name) + " skipped: " + kernel.unavailable_reason);
    }
    EXPECT_EQ(missing_words(log.text(), words), "");
  }
}

TEST(Environment, VerboseTellsOfTheVariablesThatChose) {
  const Log log;
  const Variable verbose("FA_VERBOSE", "dispatch");
  {
    const Variable force("FA_FORCE_KERNEL", "cpu.generic");
    chosen_kernel();
  }
  const Variable max("FA_MAX_ARCH", "generic");
  chosen_kernel();
  EXPECT_EQ(missing_words(log.text(), {"cpu.generic chosen: FA_FORCE_KERNEL", "skipped: FA_MAX_ARCH"}), "");
}

TEST(Environment, SilentUnlessAsked) {
  const Log log;
  chosen_kernel();
  for (const char *level : {"", "0", "off", "OFF", "no", "false", "none"}) {
    const Variable verbose("FA_VERBOSE", level);
    chosen_kernel();
    EXPECT_EQ(log.text(), "") << level;
  }
}

// [F55] [F151]
TEST(Environment, MessagesGoToTheStandardErrorByDefault) {
  const Variable verbose("FA_VERBOSE", "dispatch");
  { const Log elsewhere; }
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  const std::string chosen = chosen_kernel();
  EXPECT_EQ(missing_words(testing::internal::GetCapturedStderr(), {"fa: dispatch: " + chosen + " chosen\n"}), "");
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "");
}

TEST(Environment, NonsenseThreadsAreIgnored) {
  for (const char *value : {"0", "-3", "many", "3x", "99999999999999999999", "2"}) {
    const Variable threads("FA_NUM_THREADS", value);
    const Log log;
    const Variable verbose("FA_VERBOSE", "dispatch");
    Call call;
    call.desc.num_threads = 0;
    EXPECT_EQ(call.run(), FA_OK) << value << ": " << fa_last_error();
    const std::string said =
        std::string("FA_NUM_THREADS is \"") + value + "\", which is ignored: expected a number from 1 to 1024";
    EXPECT_EQ(log.text().find(said) != std::string::npos, value != std::string("2")) << value << ": " << log.text();
  }
}

/// The tasks that a call has for the host's pool, one a thread.
int64_t tasks_of_a_call(int32_t num_threads) {
  int64_t most = 0;
  fa_desc desc;
  fa_desc_init(&desc, sizeof desc);
  desc.device = FA_DEVICE_CPU;
  desc.dtype_q = FA_F32;
  desc.head_dim = 64;
  desc.num_threads = num_threads;
  desc.parallel_for_user = &most;
  desc.parallel_for = [](void *host, fa_task task, void *ctx, int64_t n) {
    *static_cast<int64_t *>(host) = n;
    for (int64_t i = 0; i < n; ++i) task(ctx, i);
  };
  std::vector<float> in(256 * 4 * 64), out(in.size());
  fa_forward_args args;
  fa_forward_args_init(&args, sizeof args);
  for (fa_tensor *tensor : {&args.q, &args.k, &args.v}) fa_tensor_init(tensor, in.data(), FA_F32, 1, 256, 4, 64);
  fa_tensor_init(&args.out, out.data(), FA_F32, 1, 256, 4, 64);
  fa_op *op = nullptr;
  EXPECT_EQ(fa_create(&desc, &op), FA_OK) << fa_last_error();
  EXPECT_EQ(fa_forward(op, &args), FA_OK) << fa_last_error();
  fa_destroy(op);
  return most;
}

// [F61]
TEST(Environment, NumberOfThreads) {
  const Variable threads("FA_NUM_THREADS", "3");
  EXPECT_EQ(tasks_of_a_call(0), 3);
  EXPECT_EQ(tasks_of_a_call(2), 2) << "the API overrules the environment";
}

// [F54]
TEST(Log, HostThatThrowsBecomesAnError) {
  const Variable verbose("FA_VERBOSE", "dispatch");
  fa_set_log([](void *, const char *) { throw std::runtime_error("the log is full"); }, nullptr);
  EXPECT_EQ(create_status(), FA_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(missing_words(fa_last_error(), {"threw", "the log is full"}), "");
  fa_set_log([](void *, const char *) { throw 7; }, nullptr);
  EXPECT_EQ(create_status(), FA_ERROR_INVALID_ARGUMENT);
  fa_set_log(nullptr, nullptr);
}

}  // namespace
}  // namespace api_test
