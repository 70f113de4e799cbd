#include "reference/run.h"

#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "reference/caller.h"
#include "reference/compare_gradients.h"
#include "reference/gpu.h"
#include "reference/merge.h"
#include "reference/random.h"
#include "reference/sanitizer.h"

#ifdef TEST_ASAN
extern "C" void __sanitizer_set_death_callback(void (*callback)());
#endif

namespace reference {
namespace {

/// The text that a crash prints: kept ready, since a signal handler cannot make it. Each thread has its own.
thread_local char current_case[1024];

/// The case that this thread is running, for as long as it lives.
struct Running {
  Running(const Case &c, const std::string &kernel) : Running(repeat_line(c, kernel)) {}
  explicit Running(const std::string &what) {
    const std::string line = "crashed in\n" + what + "\n";
    current_case[line.copy(current_case, sizeof current_case - 1)] = 0;
  }
  ~Running() { current_case[0] = 0; }
};

void print_current_case() {
  const ssize_t ignored = write(STDERR_FILENO, current_case, strlen(current_case));
  static_cast<void>(ignored);
}

[[maybe_unused]] void print_and_die(int signal_number) {
  print_current_case();
  signal(signal_number, SIG_DFL);
  raise(signal_number);
}

}  // namespace

void explain_crashes() {
#ifdef TEST_ASAN
  __sanitizer_set_death_callback(print_current_case);
#else
  for (const int number : {SIGSEGV, SIGBUS, SIGFPE, SIGILL}) signal(number, print_and_die);
#endif
}

namespace {

thread_local std::string why;  // the last call failed

/// run() by a caller in that floating-point environment. It may change neither that nor errno.
template <class Run>
fa_status by_caller(const std::string &fenv, const Run &run) {
  fa_status status;
  std::string changed;
  {
    const Caller caller(fenv);
    status = run();
    changed = caller.changed();
  }
  why = status != FA_OK ? fa_last_error() : changed;
  if (changed.empty()) return status;
  std::fprintf(stderr, "%s\n", changed.c_str());
  return status != FA_OK ? status : FA_ERROR_DRIVER;
}

}  // namespace

Op::Op(const fa_desc &desc, const std::string &kernel, const std::string &fenv) {
  fa_desc on_it = desc;
  if (is_gpu(kernel)) on_it.device = FA_DEVICE_CUDA;
  const bool by_arch = kernel.rfind("sm_", 0) == 0;
  if (by_arch) setenv("FA_MAX_ARCH", kernel.c_str(), 1);
  if (by_arch || kernel == "cuda") {
    unsetenv("FA_FORCE_KERNEL");
  } else {
    setenv("FA_FORCE_KERNEL", kernel.c_str(), 1);
  }
  status_ = by_caller(fenv, [&] { return fa_create(&on_it, &op_); });
}

std::string repeat_line(const Case &c, const std::string &kernel) {
  if (kernel.rfind("sm_", 0) == 0)
    return "  repeat: FA_MAX_ARCH=" + kernel + " fa run --device cuda --case '" + to_text(c) + "'";
  return "  repeat: fa run --kernel " + kernel + " --case '" + to_text(c) + "'";
}

namespace {

/// A call and the wait for the GPU; an error there is one of the call, as far as the tests are concerned.
template <class Args>
fa_status finished(const Op &op, const Args &args, const std::string &fenv,
                   fa_status (*run)(const fa_op *, const Args *)) {
  const fa_status status = by_caller(fenv, [&] { return run(op.get(), &args); });
  const std::string error = wait_for_gpu();
  if (error.empty()) return status;
  std::fprintf(stderr, "the GPU says %s\n", error.c_str());
  why += (why.empty() ? "the GPU says " : "; the GPU says ") + error;
  return status != FA_OK ? status : FA_ERROR_DRIVER;
}

/// The same with a workspace of exactly the bytes that size asks for.
template <class Args>
fa_status finished_in_workspace(const Op &op, Args args, const std::string &fenv,
                                fa_status (*run)(const fa_op *, const Args *),
                                fa_status (*size)(const fa_op *, const Args *, size_t *), int fill) {
  const fa_status status = by_caller(fenv, [&] { return size(op.get(), &args, &args.workspace_size); });
  if (status != FA_OK) return status;
  // 256-byte alignment leaves a gap of less than that before the guard page.
  const GuardedMemory memory((args.workspace_size + 255) / 256 * 256, Guard::end);
  if (memory.size()) std::memset(memory.data(), fill, memory.size());
  args.workspace = memory.size() ? memory.data() : nullptr;
  return finished(op, args, fenv, run);
}

}  // namespace

fa_status forward(const Op &op, const Instance &instance, int fill) {
  const Case &c = instance.c;
  const Running running(c, fa_op_kernel_name(op.get()));
  if (!c.workspace) return finished(op, instance.args, c.fenv, fa_forward);
  return finished_in_workspace(op, instance.args, c.fenv, fa_forward, fa_forward_workspace_size, fill);
}

fa_status backward(const Op &op, const BackwardInstance &instance, int fill) {
  const Case &c = instance.c;
  const Running running(c, fa_op_kernel_name(op.get()));
  if (!c.workspace) return finished(op, instance.call, c.fenv, fa_backward);
  return finished_in_workspace(op, instance.call, c.fenv, fa_backward, fa_backward_workspace_size, fill);
}

fa_status forward(const Op &op, const fa_forward_args &args) {
  return finished(op, args, "", fa_forward);
}

fa_status merge(const Op &op, const fa_merge_args &args) {
  return finished(op, args, "", fa_merge);
}

fa_status merge(const Op &op, const MergeInstance &instance) {
  const Running running(to_text(instance.c));
  if (!instance.c.workspace) return finished(op, instance.args, "", fa_merge);
  return finished_in_workspace(op, instance.args, "", fa_merge, fa_merge_workspace_size, 0xff);
}

namespace {

/// The parts of a case of either pass, and the functions that run and judge it.
struct ForwardPass {
  using Built = Instance;
  using Wanted = Expected;
  static constexpr const char *name = "fa_forward: ";
  static fa_status run(const Op &op, Built &instance) { return forward(op, instance); }
  static std::string untouched(const Built &instance) { return instance.untouched(); }
};

struct BackwardPass {
  using Built = BackwardInstance;
  using Wanted = ExpectedGradients;
  static constexpr const char *name = "fa_backward: ";
  static fa_status run(const Op &op, Built &instance) {
    if (instance.c.chained) {
      if (const fa_status status = forward(op, instance); status != FA_OK) return status;
      instance.accept_results();
    }
    return backward(op, instance);
  }
  static std::string untouched(const Built &instance) { return instance.gradients_untouched(); }
};

/// Memory ends before an inaccessible page, and then begins behind one. The emulator knows all memory to the byte, so
/// that an emulated GPU needs no such page: a case has one of both places, which are aligned differently.
std::vector<Guard> guards_of(const Case &c, const std::string &kernel) {
  if (!slow || !is_gpu(kernel)) return {Guard::end, Guard::start};
  uint64_t number = 0;
  for (const char letter : to_text(c)) number = hash(number ^ uint64_t(letter));
  return {number % 2 ? Guard::end : Guard::start};
}

template <class Pass>
std::string failure_in(const Case &c, const std::string &kernel, Errors *errors) {
  std::unique_ptr<typename Pass::Wanted> expected;
  for (const Guard guard : guards_of(c, kernel)) {
    typename Pass::Built instance(c, guard);
    std::string text;
    const Op op(instance.desc, kernel, c.fenv);
    if (!op) {
      text = std::string("fa_create: ") + fa_status_string(op.status()) + ": " + why;
    } else if (const fa_status status = Pass::run(op, instance); status != FA_OK) {
      text = std::string(Pass::name) + fa_status_string(status) + ": " + why;
    } else {
      if (!expected) expected = std::make_unique<typename Pass::Wanted>(instance);
      text = compare(instance, *expected, errors);
      if (text.empty()) text = Pass::untouched(instance);
    }
    if (!text.empty()) return text + "\n" + repeat_line(c, kernel);
  }
  return "";
}

/// "" when the bits are the same, else where they first differ and how to repeat the second.
std::string same_bits(const std::vector<char> &x, const std::vector<char> &y, const Case &a, const Case &b,
                      const std::string &kernel) {
  if (x.size() != y.size()) return "outputs of different sizes";
  for (size_t byte = 0; byte < x.size(); ++byte) {
    if (x[byte] == y[byte]) continue;
    return "byte " + std::to_string(byte) + " of " + std::to_string(x.size()) + " of the outputs differs\n" +
           repeat_line(a, kernel) + "\n" + repeat_line(b, kernel);
  }
  return "";
}

}  // namespace

std::string failure_of(const Case &c, const std::string &kernel, Errors *errors) {
  share_memory(is_gpu(kernel));
  const Running running(c, kernel);
  return c.backward ? failure_in<BackwardPass>(c, kernel, errors) : failure_in<ForwardPass>(c, kernel, errors);
}

std::string failure_of(const MergeCase &c, const std::string &kernel) {
  share_memory(is_gpu(kernel));
  for (const Guard guard : {Guard::end, Guard::start}) {
    const MergeInstance instance(c, guard);
    const MergedExactly exact = merged(instance.desc, instance.args);
    const Op op(instance.desc, kernel);
    std::string text;
    if (!op) {
      text = "fa_create: " + why;
    } else if (merge(op, instance) != FA_OK) {
      text = "fa_merge: " + why;
    } else {
      text = compare(instance, exact);
      if (text.empty()) text = instance.untouched();
    }
    if (!text.empty()) return text + "\n  in: " + to_text(c) + " on " + kernel;
  }
  return "";
}

std::string same_outputs(const Instance &a, const Instance &b, const std::string &kernel) {
  return same_bits(a.output_bits(), b.output_bits(), a.c, b.c, kernel);
}

std::string same_gradients(const BackwardInstance &a, const BackwardInstance &b, const std::string &kernel) {
  return same_bits(a.gradient_bits(), b.gradient_bits(), a.c, b.c, kernel);
}

}  // namespace reference
