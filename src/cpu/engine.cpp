#include "cpu/engine.h"

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <new>

#include "core/environment.h"
#include "core/status.h"
#include "cpu/backward/backward.h"
#include "cpu/cpus.h"
#include "cpu/plan.h"
#include "cpu/tasks.h"
#include "cpu/worker.h"

namespace fa::cpu {

namespace {

constexpr size_t workspace_alignment = 256;

/// Below this number of multiplications a call is over before another thread has woken.
constexpr double least_shared_work = 2e5;

struct Free {
  void operator()(char *p) const { std::free(p); }
};

/// A call's workspace: the caller's, or one for as long as this lives.
struct Memory {
  char *data = nullptr;
  std::unique_ptr<char, Free> own;

  fa_status take(const Execution &call, Count total, const char *advice) {
    data = static_cast<char *>(call.workspace);
    if (data != nullptr) return FA_OK;
    size_t bytes = 0;
    if (const fa_status status = store_size(rounded_up(total, workspace_alignment), &bytes)) return status;
    own.reset(static_cast<char *>(std::aligned_alloc(workspace_alignment, bytes)));
    data = own.get();
    return data != nullptr ? FA_OK
                           : fail(FA_ERROR_OUT_OF_MEMORY, "no memory for a workspace of %zu bytes: %s", bytes, advice);
  }
};

/// How the CPU computes an operation: the memory that its plan takes, and the work itself. A build may lack an
/// operation, for which there is no specialisation.
template <class Call>
struct Executor;

template <>
struct Executor<ForwardCall> {
  static constexpr const char *advice = "fewer threads or splits need less";

  static Bounds bounds(const ForwardCall &call, const Kernels &kernels, int32_t threads) {
    return Plan::bounds(call, kernels, threads);
  }

  static void execute(const ForwardCall &call, const Kernels &kernels, const Bounds &bounds, char *memory) {
    const Plan plan(call, kernels, bounds, memory);
    const int64_t workers = plan.work() < least_shared_work ? 1 : std::min(bounds.workers, plan.items());
    Call shared{call, kernels, plan, workers};
    if (workers <= 1) return work(shared, 0);
    const fa_task task = [](void *ctx, int64_t worker) { work(*static_cast<Call *>(ctx), worker); };
    run_tasks(*call.attention, call.host, task, &shared, workers);
  }
};

#ifndef FA_NO_BACKWARD
template <>
struct Executor<BackwardCall> {
  static constexpr const char *advice = "fewer threads need less";

  static BackwardBounds bounds(const BackwardCall &call, const Kernels &kernels, int32_t threads) {
    return BackwardPlan::bounds(call, *kernels.backward, threads);
  }

  static void execute(const BackwardCall &call, const Kernels &kernels, const BackwardBounds &bounds, char *memory) {
    const BackwardPlan plan(call, *kernels.backward, bounds, memory);
    const int64_t workers = plan.work() < least_shared_work ? 1 : bounds.workers;
    run_backward(plan, Team(*call.attention, call.host, workers, plan.shares()));
  }
};
#endif

/// Whether this build has an operation: always, unless a CMake option can leave it out.
template <class Call>
concept Built = *OperationTraits<Call>::build_option == '\0' || requires {
  sizeof(Executor<Call>);
};

template <class Call>
fa_status lacks_operation() {
  using Traits = OperationTraits<Call>;
  return fail(FA_ERROR_UNSUPPORTED,
              "%s: this build of libfa has no %s pass; expected one that is configured with %s=ON", Traits::function,
              Traits::name, build_option<Call>);
}

class CpuEngine final : public EngineBase<CpuEngine> {
 public:
  CpuEngine(const Attention &attention, const Kernels &kernels) : kernels_(kernels), threads_(attention.num_threads) {
    if (threads_ == 0)
      threads_ = static_cast<int32_t>(environment_number("FA_NUM_THREADS", 1, FA_MAX_THREADS, usable_cpus()));
  }

  template <class Call>
  fa_status do_workspace_size(const Call &call, size_t *bytes) const {
    if constexpr (Built<Call>) {
      return store_size(Executor<Call>::bounds(call, kernels_, threads_).total(), bytes);
    } else {
      return lacks_operation<Call>();
    }
  }

  template <class Call>
  fa_status do_execute(const Call &call) const {
    if constexpr (Built<Call>) {
      if (const fa_status status = check_sequences(call)) return status;
      const auto bounds = Executor<Call>::bounds(call, kernels_, threads_);
      Memory memory;
      if (const fa_status status = memory.take(call, bounds.total(), Executor<Call>::advice)) return status;
      Executor<Call>::execute(call, kernels_, bounds, memory.data);
      return FA_OK;
    } else {
      return lacks_operation<Call>();
    }
  }

 private:
  const Kernels &kernels_;
  int32_t threads_;
};

}  // namespace

Engine *create_engine(const Attention &attention, const Kernels &kernels) {
  Engine *engine = new (std::nothrow) CpuEngine(attention, kernels);
  if (engine == nullptr) fail(FA_ERROR_OUT_OF_MEMORY, "no memory for an op of %zu bytes", sizeof(CpuEngine));
  return engine;
}

}  // namespace fa::cpu
