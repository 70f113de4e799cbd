#include "cpu/engine.h"

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <new>

#include "core/environment.h"
#include "core/status.h"
#include "cpu/append.h"
#include "cpu/backward/backward.h"
#include "cpu/cpus.h"
#include "cpu/merge.h"
#include "cpu/plan.h"
#include "cpu/tasks.h"
#include "cpu/tree_rows.h"
#include "cpu/worker.h"

namespace fa::cpu {

namespace {

constexpr size_t workspace_alignment = 256;

/// A call with fewer multiplications ends before another thread has woken.
constexpr double min_parallel_macs = 2e5;

struct Free {
  void operator()(char *p) const { std::free(p); }
};

/// A call's workspace: the caller's, or one that this object owns.
struct Workspace {
  char *data = nullptr;
  std::unique_ptr<char, Free> own;

  fa_status acquire(const Execution &call, Count total, const char *advice) {
    data = static_cast<char *>(call.workspace);
    if (data != nullptr || total == Count(0)) return FA_OK;
    size_t bytes = 0;
    if (const fa_status status = store_size(rounded_up(total, workspace_alignment), &bytes)) return status;
    own.reset(static_cast<char *>(std::aligned_alloc(workspace_alignment, bytes)));
    data = own.get();
    return data != nullptr ? FA_OK
                           : fail(FA_ERROR_OUT_OF_MEMORY, "no memory for a workspace of %zu bytes: %s", bytes, advice);
  }
};

/// How the CPU computes an operation: workspace() is the memory that its plan takes, execute() the computation. A build
/// without an operation has no specialisation for it.
template <class Call>
struct Executor;

/// The plan of an operation that takes no memory.
struct NoWorkspace {
  int64_t workers;
  Count total() const { return 0; }
};

template <>
struct Executor<ForwardCall> {
  static constexpr const char *advice = "fewer threads or splits need less";

  static ForwardWorkspace workspace(const ForwardCall &call, const IsaKernels &kernels, int32_t threads) {
    return ForwardPlan::workspace(call, kernels, threads);
  }

  static void execute(const ForwardCall &call, const IsaKernels &kernels, const ForwardWorkspace &workspace,
                      char *memory) {
    const ForwardPlan plan(call, kernels, workspace, memory);
    const int64_t workers = plan.macs() < min_parallel_macs ? 1 : std::min(workspace.workers, plan.items());
    SharedState shared{call, kernels, plan, workers};
    if (workers <= 1) return run_worker(shared, 0);
    const fa_task task = [](void *ctx, int64_t worker) { run_worker(*static_cast<SharedState *>(ctx), worker); };
    run_tasks(*call.attention, call.caller, task, &shared, workers);
  }
};

#ifndef FA_NO_BACKWARD
template <>
struct Executor<BackwardCall> {
  static constexpr const char *advice = "fewer threads need less";

  static BackwardWorkspace workspace(const BackwardCall &call, const IsaKernels &kernels, int32_t threads) {
    return BackwardPlan::workspace(call, *kernels.backward, threads);
  }

  static void execute(const BackwardCall &call, const IsaKernels &kernels, const BackwardWorkspace &workspace,
                      char *memory) {
    const BackwardPlan plan(call, *kernels.backward, workspace, memory);
    const int64_t workers = plan.macs() < min_parallel_macs ? 1 : workspace.workers;
    run_backward(plan, ThreadTeam(*call.attention, call.caller, workers, plan.queues()));
  }
};
#endif

template <>
struct Executor<MergeCall> {
  static constexpr const char *advice = "";  // of an error that cannot occur

  static NoWorkspace workspace(const MergeCall &, const IsaKernels &, int32_t threads) { return {threads}; }

  static void execute(const MergeCall &call, const IsaKernels &kernels, const NoWorkspace &workspace, char *) {
    run_merge(call, kernels, workspace.workers);
  }
};

template <>
struct Executor<AppendCall> {
  static constexpr const char *advice = "";  // of an error that cannot occur

  static NoWorkspace workspace(const AppendCall &call, const IsaKernels &, int32_t threads) {
    return {append_workers(call, threads)};
  }

  static void execute(const AppendCall &call, const IsaKernels &kernels, const NoWorkspace &workspace, char *) {
    struct Shared {
      const AppendCall &call;
      const IsaKernels &kernels;
      int64_t workers;
    } shared{call, kernels, workspace.workers};
    if (shared.workers <= 1) return run_append(call, kernels, 0, 1);
    const fa_task task = [](void *ctx, int64_t worker) {
      const Shared &s = *static_cast<Shared *>(ctx);
      run_append(s.call, s.kernels, worker, s.workers);
    };
    run_tasks(*call.attention, call.caller, task, &shared, shared.workers);
  }
};

/// Checks the contents of a call's arrays.
fa_status check_contents(const Inputs &call) {
  return check_sequences(call);
}
fa_status check_contents(const ForwardCall &call) {
  const fa_status status = check_sequences(call);
  return status != FA_OK ? status : check_depths(call);
}
fa_status check_contents(const MergeCall &) {
  return FA_OK;
}
fa_status check_contents(const AppendCall &call) {
  return check_append(call);
}

/// Whether this build has an operation: always, unless a CMake option can leave it out.
template <class Call>
concept Built = *build_option<Call> == '\0' || requires { sizeof(Executor<Call>); };

template <class Call>
fa_status lacks_operation() {
  using Traits = OperationTraits<Call>;
  return fail(FA_ERROR_UNSUPPORTED,
              "%s: this build of libfa has no %s pass; expected one that is configured with %s=ON", Traits::function,
              Traits::name, build_option<Call>);
}

class CpuEngine final : public EngineBase<CpuEngine> {
 public:
  CpuEngine(const Attention &attention, const IsaKernels &kernels)
      : kernels_(kernels), threads_(attention.num_threads) {
    if (threads_ == 0)
      threads_ = static_cast<int32_t>(environment_number("FA_NUM_THREADS", 1, FA_MAX_THREADS, usable_cpus()));
  }

  template <class Call>
  fa_status do_workspace_size(const Call &call, size_t *bytes) const {
    if constexpr (Built<Call>) {
      return store_size(Executor<Call>::workspace(call, kernels_, threads_).total(), bytes);
    } else {
      return lacks_operation<Call>();
    }
  }

  template <class Call>
  fa_status do_execute(const Call &call) const {
    if constexpr (Built<Call>) {
      if (const fa_status status = check_contents(call)) return status;
      const auto workspace = Executor<Call>::workspace(call, kernels_, threads_);
      Workspace memory;
      if (const fa_status status = memory.acquire(call, workspace.total(), Executor<Call>::advice)) return status;
      Executor<Call>::execute(call, kernels_, workspace, memory.data);
      return FA_OK;
    } else {
      return lacks_operation<Call>();
    }
  }

 private:
  const IsaKernels &kernels_;
  int32_t threads_;
};

}  // namespace

Engine *create_engine(const Attention &attention, const IsaKernels &kernels) {
  Engine *engine = new (std::nothrow) CpuEngine(attention, kernels);
  if (engine == nullptr) fail(FA_ERROR_OUT_OF_MEMORY, "no memory for an op of %zu bytes", sizeof(CpuEngine));
  return engine;
}

}  // namespace fa::cpu
