#include "cpu/engine.h"

#include <cstdlib>
#include <memory>
#include <new>

#include "core/environment.h"
#include "core/status.h"
#include "cpu/cpus.h"
#include "cpu/executors.h"

namespace fa::cpu {

namespace {

constexpr size_t workspace_alignment = 256;

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
      if (const fa_status status = Executor<Call>::check_contents(call)) return status;
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
