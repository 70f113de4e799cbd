#include "cuda/engine.h"

#include <algorithm>
#include <new>
#include <string>
#include <utility>

#include "combine/tiles.h"
#include "core/log.h"
#include "core/status.h"
#include "cuda/launch.h"
#include "cuda/placement.h"

namespace fa::cuda {
namespace {

using kernels::Entry;

/// Memory in the order of a stream, for the length of a call. In a capture it becomes nodes of the graph.
class StreamMemory {
 public:
  explicit StreamMemory(CUstream stream) : stream_(stream) {}
  ~StreamMemory() {
    if (address_ != 0) machine().driver.cuMemFreeAsync(address_, stream_);
  }
  StreamMemory(const StreamMemory &) = delete;
  StreamMemory &operator=(const StreamMemory &) = delete;

  fa_status allocate(const Device &device, int64_t bytes) {
    const Driver &driver = machine().driver;
    if (!device.pools)
      return fail(FA_ERROR_UNSUPPORTED,
                  "args.workspace is NULL, and device %d (%s) cannot allocate memory in stream order; expected a "
                  "workspace of %lld bytes, as fa_workspace_size returns",
                  device.index, device.name, static_cast<long long>(bytes));
    const CUresult result = driver.cuMemAllocAsync(&address_, static_cast<size_t>(bytes), stream_);
    if (result == CUDA_SUCCESS) return FA_OK;
    address_ = 0;
    return failed(driver, "cuMemAllocAsync", result,
                  "of %lld bytes on device %d: pass a workspace that is allocated once (fa_workspace_size), or ask for "
                  "fewer num_splits",
                  static_cast<long long>(bytes), device.index);
  }

  char *data() const { return reinterpret_cast<char *>(address_); }

 private:
  CUstream stream_;
  CUdeviceptr address_ = 0;
};

/// One line a call: which kernel, and why not those that are better at other calls.
void say_choice(const Plan &plan) {
  std::string text;
  for (int i = 0; i < plan.skipped_count; i++) {
    const Skipped &skipped = plan.skipped[i];
    text.append("; not ").append(skipped.image->name).append(" ").append(name_of(skipped.entry));
    text.append(": ").append(skipped.why);
  }
  if (plan.image != nullptr) say("call: %s %s%s", plan.image->name, name_of(plan.entry), text.c_str());
}

/// Of an op whose kernel was asked for by name.
fa_status not_served(const Plan &plan) {
  const Skipped &last = plan.skipped[plan.skipped_count - 1];
  return fail(
      FA_ERROR_UNSUPPORTED,
      "FA_FORCE_KERNEL is \"%s\", which serves some calls only, and not this one: %s; without it another kernel "
      "would serve",
      last.image->name, last.why);
}

fa_status refuse_backward() {
  return fail(FA_ERROR_UNSUPPORTED,
              "fa_backward of a CUDA op: the backward pass runs on the CPU so far; expected an op of FA_DEVICE_CPU or "
              "FA_DEVICE_AUTO and tensors in memory of the host: copy them there");
}

}  // namespace

CudaEngine::CudaEngine(const Attention &attention, const Device &device, const Serving &serving)
    : attention_(attention), device_(device), serving_(serving) {}

CudaEngine::~CudaEngine() {
  for (Resident *resident = resident_; resident != nullptr;) delete std::exchange(resident, resident->next);
}

fa_status CudaEngine::load() {
  InContext in;
  if (const fa_status status = in.enter(device_, nullptr)) return status;
  return make_resident(in.context(), nullptr) != nullptr ? FA_OK : last_status();
}

/// Contexts are added in front and never taken away, so that no lock is needed to look.
const CudaEngine::Resident *CudaEngine::make_resident(const Context &context, const CUstream *stream) const {
  Resident *first = resident_.load(std::memory_order_acquire);
  for (const Resident *known = first; known != nullptr; known = known->next)
    if (known->context == context.id) return known;
  Resident found = {context.id, {}, {}, first};
  for (int i = 0; i < serving_.count; i++)
    if (find_module(*serving_.images[i], device_, context, stream, &found.modules[i]) != FA_OK) return nullptr;
  if (find_module(*serving_.combine, device_, context, stream, &found.combine) != FA_OK) return nullptr;
  Resident *added = new Resident(found);
  while (!resident_.compare_exchange_weak(added->next, added, std::memory_order_acq_rel)) {
  }
  return added;
}

fa_status CudaEngine::workspace_size(const Problem &problem, size_t *bytes) const {
  *bytes = static_cast<size_t>(workspace_bound(problem, serving_, device_));
  return FA_OK;
}

fa_status CudaEngine::compute(const Problem &given) const {
  Problem problem = given;
  const bool host_serves = attention_.device == FA_DEVICE_AUTO;
  if (const char *why = why_not_after_fork()) return host_serves ? not_here : fail(FA_ERROR_DRIVER, "%s", why);
  Place place;
  CUcontext wanted = nullptr;
  bool translate = false;
  if (const fa_status status = find_place(device_, &problem, host_serves, &place, &wanted, &translate)) return status;
  if (place == Place::host) return not_here;
  if (place == Place::both && problem.stream == nullptr) return compute_plain(problem, host_serves);
  InContext in;
  if (const fa_status status = in.enter(device_, wanted)) return status;
  if (translate) {
    if (const fa_status status = translate_addresses(&problem)) return status;
  }
  const CUstream stream = static_cast<CUstream>(problem.stream);
  if (const fa_status status = check_stream(stream, in.context())) return status;
  const Resident *resident = make_resident(in.context(), &stream);
  return resident != nullptr ? run(problem, *resident) : last_status();
}

fa_status CudaEngine::workspace_size(const Backward &, size_t *) const {
  return refuse_backward();
}

fa_status CudaEngine::compute(const Backward &given) const {
  if (attention_.device != FA_DEVICE_AUTO) return refuse_backward();
  if (why_not_after_fork() != nullptr) return not_here;
  Backward call = given;
  Place place;
  CUcontext context = nullptr;
  bool translate = false;
  if (const fa_status status = find_place(device_, &call, true, &place, &context, &translate)) return status;
  return place == Place::device ? refuse_backward() : not_here;
}

/// Serves a caller who may know nothing of GPUs, whose memory both reach: the result is there when this returns, and
/// where the CPU may serve, a GPU that is not ready leaves the call to it. The thread's own stream waits for the legacy
/// one as that would itself, but leaves other threads and their captures alone.
fa_status CudaEngine::compute_plain(Problem problem, bool host_serves) const {
  const CUstream stream = CU_STREAM_PER_THREAD;
  problem.stream = stream;
  InContext in;
  const auto prepared = [&] {
    return in.enter(device_, nullptr) == FA_OK ? make_resident(in.context(), &stream) : nullptr;
  };
  const Resident *resident = nullptr;
  if (host_serves) {
    const KeepError keep;
    if ((resident = prepared()) == nullptr) {
      if (verbose_dispatch()) say("forward: device %d is not ready: %s", device_.index, last_error());
      return not_here;
    }
  } else if ((resident = prepared()) == nullptr) {
    return last_status();
  }
  if (const fa_status status = run(problem, *resident)) return status;
  const Driver &driver = machine().driver;
  const CUresult result = driver.cuStreamSynchronize(stream);
  return result == CUDA_SUCCESS ? FA_OK
                                : failed(driver, "cuStreamSynchronize", result, "after %s on device %d (%s)",
                                         serving_.images[0]->name, device_.index, device_.name);
}

fa_status CudaEngine::run(const Problem &problem, const Resident &resident) const {
  const CUstream stream = static_cast<CUstream>(problem.stream);
  Plan plan = plan_of(problem, serving_, device_);
  if (verbose_dispatch()) say_choice(plan);
  if (plan.image == nullptr) return not_served(plan);
  StreamMemory own(stream);
  if (plan.partial_bytes > 0) {
    char *workspace = static_cast<char *>(problem.workspace);
    if (workspace == nullptr) {
      if (const fa_status status = own.allocate(device_, plan.partial_bytes)) return status;
      workspace = own.data();
    }
    plan.place_partials(workspace);
  }
  return launch(plan, resident, stream);
}

fa_status CudaEngine::launch(const Plan &given, const Resident &resident, CUstream stream) const {
  Plan plan = given;
  const auto check = [&](CUresult result, const Image &image, Entry entry) -> fa_status {
    if (result == CUDA_SUCCESS) return FA_OK;
    return failed(machine().driver, "cuLaunchKernelEx", result, "%s of %s on device %d (%s)", name_of(entry),
                  image.name, device_.index, device_.name);
  };
  const Image &image = *plan.image, &combine = *serving_.combine;
  const auto chosen = std::find(serving_.begin(), serving_.end(), plan.image) - serving_.begin();
  const CUkernel kernel = resident.modules[chosen][plan.entry];
  const bool dependent = combine.arch->has(kernels::dependent_launch);
  for (int64_t first = 0; first < plan.tiles; first += plan.launch_tiles) {
    const int64_t tiles = std::min(plan.launch_tiles, plan.tiles - first);
    plan.params.schedule.first_tile = first;
    CUresult result = start({kernel, plan.tile, tiles * plan.splits()}, device_, stream, &plan.params, &plan.maps);
    if (const fa_status status = check(result, image, plan.entry)) return status;
    if (plan.splits() == 1) continue;
    result = start({resident.combine[Entry::combine], combine.tile_of(Entry::combine), tiles,
                    kernels::combine::blocks_of_tile(plan.tile.rows, plan.splits()),
                    kernels::combine::blocks_of_row(plan.params.head_dim_v), dependent},
                   device_, stream, &plan.params, &plan.maps);
    if (const fa_status status = check(result, combine, Entry::combine)) return status;
  }
  return FA_OK;
}

}  // namespace fa::cuda
