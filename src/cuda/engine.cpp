#include "cuda/engine.h"

#include <type_traits>

#include "core/log.h"
#include "core/status.h"
#include "cuda/launch.h"
#include "cuda/placement.h"
#include "cuda/plans.h"
#include "cuda/rotated_forward.h"
#include "cuda/stream_memory.h"

namespace fa::cuda {
namespace {

/// Where there are no kernels for it.
template <class Call>
fa_status lacks_operation(const Device &device) {
  using Traits = OperationTraits<Call>;
  if (*build_option<Call> == '\0')
    return fail(FA_ERROR_UNSUPPORTED, "%s on device %d (%s): this build of libfa has no kernel for it",
                Traits::function, device.index, device.name);
  return fail(FA_ERROR_UNSUPPORTED,
              "%s on device %d (%s): this build of libfa has no kernels for it; expected one that is configured "
              "with %s=ON, or tensors in memory of the host and an op of FA_DEVICE_CPU or FA_DEVICE_AUTO",
              Traits::function, device.index, device.name, build_option<Call>);
}

}  // namespace

CudaEngine::CudaEngine(const Attention &attention, const Device &device, const PerOperation<KernelSet> &kernels)
    : attention_(attention), device_(device), kernels_(kernels) {}

CudaEngine::~CudaEngine() = default;

fa_status CudaEngine::load() {
  InContext in;
  if (const fa_status status = in.enter(device_, nullptr)) return status;
  Loaded loaded;
  return load_for<ForwardCall>(in.context(), nullptr, &loaded) ? FA_OK : last_status();
}

template <class Call>
const Resident *CudaEngine::resident(const Context &context, const CUstream *stream) const {
  return modules_.of<Call>().in(context, kernels_.of<Call>(), device_, stream);
}

template <class Call>
bool CudaEngine::load_for(const Context &context, const CUstream *stream, Loaded *loaded) const {
  loaded->own = resident<Call>(context, stream);
  if (loaded->own == nullptr || !std::is_same_v<Call, ForwardCall> || !attention_.rotates_cache())
    return loaded->own != nullptr;
  loaded->rotation = resident<AppendCall>(context, stream);
  return loaded->rotation != nullptr;
}

template <class Call>
fa_status CudaEngine::do_workspace_size(const Call &call, size_t *bytes) const {
  Count all = workspace_bound(call, kernels_.of<Call>(), device_);
  if constexpr (std::is_same_v<Call, ForwardCall>)
    if (attention_.rotates_cache()) all = RotatedForward(call).bytes() + all;
  return store_size(all, bytes);
}

template <class Call>
fa_status CudaEngine::do_execute(Call call) const {
  const bool cpu_fallback = attention_.device == FA_DEVICE_AUTO;
  if (const char *why = forked_reason()) return cpu_fallback ? try_other_engine : fail(FA_ERROR_DRIVER, "%s", why);
  MemorySpace space = MemorySpace::device;
  CUcontext wanted = nullptr;
  bool translate = false;
  if (!attention_.device_pointers)
    if (const fa_status status = find_memory_space(device_, &call, cpu_fallback, &space, &wanted, &translate))
      return status;
  if (space == MemorySpace::host) return try_other_engine;
  if (kernels_.of<Call>().count == 0)
    return space == MemorySpace::both && cpu_fallback ? try_other_engine : lacks_operation<Call>(device_);
  if (space == MemorySpace::both && call.stream == nullptr) return execute_synchronously(call, cpu_fallback);
  InContext in;
  if (const fa_status status = in.enter(device_, wanted)) return status;
  if (translate) {
    if (const fa_status status = translate_addresses(&call)) return status;
  }
  const CUstream stream = static_cast<CUstream>(call.stream);
  if (const fa_status status = check_stream(stream, in.context())) return status;
  Loaded loaded;
  return load_for<Call>(in.context(), &stream, &loaded) ? enqueue(call, loaded) : last_status();
}

/// The path for plain host memory that the GPU reaches: the result is there when this returns, and with cpu_fallback
/// a GPU that is not ready leaves the call to the CPU. The thread's own stream waits for the legacy one as that would
/// itself, but leaves other threads and their captures alone.
template <class Call>
fa_status CudaEngine::execute_synchronously(Call call, bool cpu_fallback) const {
  const CUstream stream = CU_STREAM_PER_THREAD;
  call.stream = stream;
  InContext in;
  Loaded loaded;
  const auto prepared = [&] {
    return in.enter(device_, nullptr) == FA_OK && load_for<Call>(in.context(), &stream, &loaded);
  };
  if (cpu_fallback) {
    const ErrorScope keep;
    if (!prepared()) {
      if (verbose_dispatch())
        log_message("%s: device %d is not ready: %s", OperationTraits<Call>::name, device_.index, last_error());
      return try_other_engine;
    }
  } else if (!prepared()) {
    return last_status();
  }
  if (const fa_status status = enqueue(call, loaded)) return status;
  const Driver &driver = machine().driver;
  const CUresult result = driver.cuStreamSynchronize(stream);
  return result == CUDA_SUCCESS ? FA_OK
                                : failed(driver, "cuStreamSynchronize", result, "after %s on device %d (%s)",
                                         kernels_.of<Call>().images[0]->name, device_.index, device_.name);
}

template <class Call>
fa_status CudaEngine::enqueue(const Call &call, const Loaded &loaded) const {
  if constexpr (std::is_same_v<Call, ForwardCall>)
    if (attention_.rotates_cache()) return enqueue_rotated(call, loaded);
  return enqueue_plan(call, *loaded.own);
}

fa_status CudaEngine::enqueue_rotated(const ForwardCall &call, const Loaded &loaded) const {
  if (kernels_.of<AppendCall>().count == 0) return lacks_operation<AppendCall>(device_);
  RotatedForward parts(call);
  size_t bytes = 0;
  if (const fa_status status = store_size(parts.bytes(), &bytes)) return status;
  StreamMemory own(static_cast<CUstream>(call.stream));
  char *workspace = static_cast<char *>(call.workspace);
  if (workspace == nullptr) {
    if (const fa_status status =
            own.allocate(device_, static_cast<int64_t>(bytes), OperationTraits<ForwardCall>::workspace_function,
                         "ask for fewer queries"))
      return status;
    workspace = own.data();
  }
  parts.bind(workspace);
  if (parts.rotates_queries())
    if (const fa_status status = enqueue_plan(parts.queries(), *loaded.rotation)) return status;
  if (const fa_status status = enqueue_plan(parts.attention(), *loaded.own)) return status;
  return parts.rotates_results() ? enqueue_plan(parts.results(), *loaded.rotation) : FA_OK;
}

/// Plans the call and launches its kernels in the current context. Memory that the caller has not given comes from the
/// stream, and goes back to it in order.
template <class Call>
fa_status CudaEngine::enqueue_plan(const Call &call, const Resident &resident) const {
  const CUstream stream = static_cast<CUstream>(call.stream);
  const KernelSet &kernels = kernels_.of<Call>();
  auto plan = plan_of(call, kernels, device_);
  if (verbose_dispatch())
    if (const std::string line = log_line(plan); !line.empty()) log_message("%s", line.c_str());
  if (plan.status != FA_OK) return plan.status;
  size_t bytes = 0;
  if (const fa_status status = store_size(plan.workspace.bytes(), &bytes)) return status;
  StreamMemory own(stream);
  const bool can_do_without = call.workspace == nullptr && !device_.pools && plan.tickets;
  if (bytes > 0 && !can_do_without) {
    char *workspace = static_cast<char *>(call.workspace);
    if (workspace == nullptr) {
      if (const fa_status status = own.allocate(device_, static_cast<int64_t>(bytes),
                                                OperationTraits<Call>::workspace_function, plan.advice))
        return status;
      workspace = own.data();
    }
    plan.bind(workspace);
  }
  return launch(plan.loops(), kernels, resident, device_, stream, &plan.params);
}

}  // namespace fa::cuda
