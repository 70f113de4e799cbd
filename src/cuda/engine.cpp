#include "cuda/engine.h"

#include <algorithm>
#include <span>
#include <string>
#include <type_traits>

#include "combine/tiles.h"
#include "core/count.h"
#include "core/log.h"
#include "core/status.h"
#include "cuda/derive.h"
#include "cuda/inputs.h"
#include "cuda/launch.h"
#include "cuda/placement.h"
#include "cuda/stream_memory.h"

namespace fa::cuda {
namespace {

using kernels::Entry;

/// One line a call: which kernel, into how many splits it cuts keys, and why not those that are better at other calls.
void log_plan(const Plan &plan) {
  std::string text;
  if (plan.splits() > 1) text.append(", ").append(std::to_string(plan.splits())).append(" splits");
  for (int i = 0; i < plan.skipped_count; i++) {
    const RejectedKernel &skipped = plan.skipped[i];
    text.append("; not ").append(skipped.image->name).append(" ").append(name_of(skipped.entry));
    text.append(": ").append(skipped.why);
  }
  if (plan.image != nullptr) say("call: %s %s%s", plan.image->name, name_of(plan.entry), text.c_str());
}

/// Logs the kernels of a plan, each with the reason why not a better one, and the reason for a separate pass for dq.
void log_plan(const BackwardPlan &plan) {
  std::string text;
  for (const KernelLaunch &launch : plan.list()) {
    text.append(text.empty() ? "" : ", ").append(launch.image->name).append(" ").append(name_of(launch.entry));
    if (launch.entry == Entry::bwd_fused) text.append(plan.in_turns ? " in a fixed order" : " in any order");
    if (launch.why_no_better != nullptr) text.append(" (no better one: ").append(launch.why_no_better).append(")");
  }
  if (plan.why_two_passes != nullptr) text.append("; in two passes: ").append(plan.why_two_passes);
  say("backward: %s", text.c_str());
}

/// Of an op whose kernel was asked for by name.
fa_status not_served(const Plan &plan) {
  const RejectedKernel &last = plan.skipped[plan.skipped_count - 1];
  return fail(
      FA_ERROR_UNSUPPORTED,
      "FA_FORCE_KERNEL is \"%s\", which serves some calls only, and not this one: %s; without it another kernel "
      "would serve",
      last.image->name, last.why);
}

/// Where there are no kernels for it.
fa_status no_backward(const Device &device) {
  return fail(
      FA_ERROR_UNSUPPORTED,
      "fa_backward on device %d (%s): this build of libfa has no kernels for it; expected one that is configured "
      "with FA_BACKWARD=ON, or tensors in memory of the host and an op of FA_DEVICE_CPU or FA_DEVICE_AUTO",
      device.index, device.name);
}

/// An op's images as one list: those that serve, then the one that ends or begins their calls.
template <class Images>
struct All {
  const Image *list[most_images + 1] = {};
  size_t count = 0;

  All(const Images &images, const Image *other) {
    for (int i = 0; i < images.count; i++) list[count++] = images.images[i];
    list[count++] = other;
  }

  std::span<const Image *const> span() const { return {list, count}; }
};

/// The place of an image in that list.
template <class Images>
int place_in(const Images &images, const Image *image) {
  return static_cast<int>(std::find(images.images, images.images + images.count, image) - images.images);
}

}  // namespace

CudaEngine::CudaEngine(const Attention &attention, const Device &device, const ForwardKernels &serving,
                       const Gradients &gradients)
    : attention_(attention), device_(device), serving_(serving), gradients_(gradients) {}

CudaEngine::~CudaEngine() = default;

fa_status CudaEngine::load() {
  InContext in;
  if (const fa_status status = in.enter(device_, nullptr)) return status;
  return resident(ForwardCall(), in.context(), nullptr) != nullptr ? FA_OK : last_status();
}

const Resident *CudaEngine::resident(const ForwardCall &, const Context &context, const CUstream *stream) const {
  return forward_.in(context, All(serving_, serving_.combine).span(), device_, stream);
}

const Resident *CudaEngine::resident(const BackwardCall &, const Context &context, const CUstream *stream) const {
  return backward_.in(context, All(gradients_, gradients_.delta).span(), device_, stream);
}

fa_status CudaEngine::do_workspace_size(const ForwardCall &problem, size_t *bytes) const {
  *bytes = static_cast<size_t>(workspace_bound(problem, serving_, device_));
  return FA_OK;
}

fa_status CudaEngine::do_workspace_size(const BackwardCall &call, size_t *bytes) const {
  return store_size(backward_workspace(call, gradients_, device_), bytes);
}

template <class Call>
fa_status CudaEngine::do_execute(Call call) const {
  const bool host_serves = attention_.device == FA_DEVICE_AUTO;
  if (const char *why = forked_reason()) return host_serves ? try_other_engine : fail(FA_ERROR_DRIVER, "%s", why);
  MemorySpace place;
  CUcontext wanted = nullptr;
  bool translate = false;
  if (const fa_status status = find_place(device_, &call, host_serves, &place, &wanted, &translate)) return status;
  if (place == MemorySpace::host) return try_other_engine;
  if (std::is_same_v<Call, BackwardCall> && gradients_.count == 0)
    return place == MemorySpace::both && host_serves ? try_other_engine : no_backward(device_);
  if (place == MemorySpace::both && call.stream == nullptr) return run_synchronously(call, host_serves);
  InContext in;
  if (const fa_status status = in.enter(device_, wanted)) return status;
  if (translate) {
    if (const fa_status status = translate_addresses(&call)) return status;
  }
  const CUstream stream = static_cast<CUstream>(call.stream);
  if (const fa_status status = check_stream(stream, in.context())) return status;
  const Resident *ready = resident(call, in.context(), &stream);
  return ready != nullptr ? run(call, *ready) : last_status();
}

/// The synchronous path for plain host memory that the GPU reaches: the result is there when this returns, and where
/// the CPU may serve, a GPU that is not ready leaves the call to it. The thread's own stream waits for the legacy one
/// as that would itself, but leaves other threads and their captures alone.
template <class Call>
fa_status CudaEngine::run_synchronously(Call call, bool host_serves) const {
  const CUstream stream = CU_STREAM_PER_THREAD;
  call.stream = stream;
  InContext in;
  const auto prepared = [&] {
    return in.enter(device_, nullptr) == FA_OK ? resident(call, in.context(), &stream) : nullptr;
  };
  const Resident *ready = nullptr;
  if (host_serves) {
    const KeepError keep;
    if ((ready = prepared()) == nullptr) {
      if (verbose_dispatch())
        say("%s: device %d is not ready: %s", OperationTraits<Call>::name, device_.index, last_error());
      return try_other_engine;
    }
  } else if ((ready = prepared()) == nullptr) {
    return last_status();
  }
  if (const fa_status status = run(call, *ready)) return status;
  const Driver &driver = machine().driver;
  const CUresult result = driver.cuStreamSynchronize(stream);
  return result == CUDA_SUCCESS ? FA_OK
                                : failed(driver, "cuStreamSynchronize", result, "after %s on device %d (%s)",
                                         serving_.images[0]->name, device_.index, device_.name);
}

fa_status CudaEngine::run(const ForwardCall &problem, const Resident &resident) const {
  const CUstream stream = static_cast<CUstream>(problem.stream);
  Plan plan = plan_of(problem, serving_, device_);
  if (verbose_dispatch()) log_plan(plan);
  if (plan.image == nullptr) return not_served(plan);
  StreamMemory own(stream);
  if (plan.partial_bytes > 0) {
    char *workspace = static_cast<char *>(problem.workspace);
    if (workspace == nullptr) {
      if (const fa_status status =
              own.allocate(device_, plan.partial_bytes, OperationTraits<ForwardCall>::workspace_function,
                           "ask for fewer num_splits"))
        return status;
      workspace = own.data();
    }
    plan.place_partials(workspace);
  }
  return launch(plan, resident, stream);
}

fa_status CudaEngine::run(const BackwardCall &call, const Resident &resident) const {
  const CUstream stream = static_cast<CUstream>(call.stream);
  size_t bytes = 0;
  if (const fa_status status = store_size(backward_workspace(call, gradients_, device_), &bytes)) return status;
  BackwardPlan plan = plan_of(call, gradients_, device_);
  if (verbose_dispatch()) log_plan(plan);
  StreamMemory own(stream);
  char *workspace = static_cast<char *>(call.workspace);
  if (bytes > 0 && workspace == nullptr) {
    if (const fa_status status = own.allocate(device_, static_cast<int64_t>(bytes),
                                              OperationTraits<BackwardCall>::workspace_function, "split the batch"))
      return status;
    workspace = own.data();
  }
  plan.place(workspace);
  return launch(plan, resident, stream);
}

fa_status CudaEngine::launched(CUresult result, const Image &image, Entry entry) const {
  if (result == CUDA_SUCCESS) return FA_OK;
  return failed(machine().driver, "cuLaunchKernelEx", result, "%s of %s on device %d (%s)", kernels::name_of(entry),
                image.name, device_.index, device_.name);
}

fa_status CudaEngine::launch(const Plan &given, const Resident &resident, CUstream stream) const {
  Plan plan = given;
  const Image &image = *plan.image, &combine = *serving_.combine;
  const CUkernel kernel = resident.modules[place_in(serving_, plan.image)][plan.entry];
  const CUkernel last = resident.modules[serving_.count][Entry::combine];
  const bool dependent = combine.arch->has(kernels::pdl);
  for (int64_t first = 0; first < plan.tiles; first += plan.launch_tiles) {
    const int64_t tiles = std::min(plan.launch_tiles, plan.tiles - first);
    plan.params.schedule.first_tile = first;
    CUresult result = start({kernel, plan.tile, tiles * plan.splits()}, device_, stream, &plan.params, &plan.maps);
    if (const fa_status status = launched(result, image, plan.entry)) return status;
    if (plan.splits() == 1) continue;
    result = start(
        {last, combine.tile_of(Entry::combine), tiles, kernels::combine::blocks_of_tile(plan.tile.rows, plan.splits()),
         kernels::combine::blocks_of_row(plan.params.head_dim_v), dependent},
        device_, stream, &plan.params, &plan.maps);
    if (const fa_status status = launched(result, combine, Entry::combine)) return status;
  }
  return FA_OK;
}

fa_status CudaEngine::launch(const BackwardPlan &plan, const Resident &resident, CUstream stream) const {
  kernels::BackwardParams params = plan.params;
  for (const KernelLaunch &launch : plan.list()) {
    const CUkernel kernel = resident.modules[place_in(gradients_, launch.image)][launch.entry];
    params.schedule = launch.schedule;
    derive(&params);
    for (int64_t first = 0; first < launch.tiles; first += most_blocks) {
      params.schedule.first_tile = first;
      const int64_t blocks = std::min(most_blocks, launch.tiles - first);
      const CUresult result =
          start({kernel, launch.image->tile_of(launch.entry), blocks, launch.rows}, device_, stream, &params, nullptr);
      if (const fa_status status = launched(result, *launch.image, launch.entry)) return status;
    }
  }
  return FA_OK;
}

}  // namespace fa::cuda
