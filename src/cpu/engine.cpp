#include "cpu/engine.h"

#include <algorithm>
#include <cstdlib>
#include <memory>

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

void run(void *ctx, int64_t i) {
  work(*static_cast<Call *>(ctx), i);
}

}  // namespace

CpuEngine::CpuEngine(const Attention &attention, const Kernels &kernels)
    : attention_(attention), kernels_(kernels), threads_(attention.num_threads) {
  if (threads_ == 0)
    threads_ = static_cast<int32_t>(environment_number("FA_NUM_THREADS", 1, FA_MAX_THREADS, usable_cpus()));
}

fa_status CpuEngine::workspace_size(const ForwardCall &problem, size_t *bytes) const {
  return store_size(Plan::bounds(problem, kernels_, threads_).total(), bytes);
}

fa_status CpuEngine::compute(const ForwardCall &problem) const {
  if (const fa_status status = check_sequences(problem)) return status;
  const Bounds bounds = Plan::bounds(problem, kernels_, threads_);
  Memory memory;
  if (const fa_status status = memory.take(problem, bounds.total(), "fewer threads or splits need less")) return status;
  const Plan plan(problem, kernels_, bounds, memory.data);
  const int64_t workers = plan.work() < least_shared_work ? 1 : std::min(bounds.workers, plan.items());
  Call call{problem, kernels_, plan, workers};
  if (workers <= 1) {
    work(call, 0);
  } else {
    run_tasks(attention_, problem.host, run, &call, workers);
  }
  return FA_OK;
}

#ifdef FA_NO_BACKWARD

namespace {

fa_status no_backward() {
  return fail(FA_ERROR_UNSUPPORTED,
              "fa_backward: this build of libfa has no backward pass; expected one that is configured with "
              "FA_BACKWARD=ON");
}

}  // namespace

fa_status CpuEngine::workspace_size(const BackwardCall &, size_t *) const {
  return no_backward();
}

fa_status CpuEngine::compute(const BackwardCall &) const {
  return no_backward();
}

#else

fa_status CpuEngine::workspace_size(const BackwardCall &call, size_t *bytes) const {
  return store_size(BackwardPlan::bounds(call, *kernels_.backward, threads_).total(), bytes);
}

fa_status CpuEngine::compute(const BackwardCall &call) const {
  if (const fa_status status = check_sequences(call)) return status;
  const BackwardBounds bounds = BackwardPlan::bounds(call, *kernels_.backward, threads_);
  Memory memory;
  if (const fa_status status = memory.take(call, bounds.total(), "fewer threads need less")) return status;
  const BackwardPlan plan(call, *kernels_.backward, bounds, memory.data);
  const int64_t workers = plan.work() < least_shared_work ? 1 : bounds.workers;
  run_backward(plan, Team(attention_, call.host, workers, plan.shares()));
  return FA_OK;
}

#endif

}  // namespace fa::cpu
