#include "cuda/engine.h"

#include <algorithm>
#include <new>

#include "combine/tiles.h"
#include "core/log.h"
#include "core/status.h"
#include "cuda/placement.h"

namespace fa::cuda {
namespace {

using kernels::Entry;

/// Launches that wait for the one before by themselves (griddepcontrol), from this architecture on.
constexpr int first_dependent_sm = 90;

CUresult launch_kernel(CUkernel kernel, int64_t x, int64_t y, const kernels::Tile &tile, CUstream stream,
                       bool dependent, kernels::Params *params) {
  CUlaunchAttribute attribute = {CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION, 0, {}};
  attribute.value.number = 1;
  const CUlaunchConfig config = {{static_cast<unsigned>(x), static_cast<unsigned>(y), 1},
                                 {static_cast<unsigned>(tile.threads), 1, 1},
                                 static_cast<unsigned>(tile.shared_bytes),
                                 stream,
                                 dependent ? &attribute : nullptr,
                                 dependent ? 1u : 0u};
  void *arguments[] = {params};
  const auto launched = reinterpret_cast<CUfunction>(kernel);  // as the driver has it: in whichever context is current
  return machine().driver.cuLaunchKernelEx(&config, launched, arguments, nullptr);
}

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
                  "args.workspace is NULL, and device %d (%s) allocates no memory in the order of a stream; expected a "
                  "workspace of %lld bytes, as fa_workspace_size tells",
                  device.index, device.name, static_cast<long long>(bytes));
    const CUresult result = driver.cuMemAllocAsync(&address_, static_cast<size_t>(bytes), stream_);
    if (result == CUDA_SUCCESS) return FA_OK;
    address_ = 0;
    return failed(driver, "cuMemAllocAsync", result,
                  "of %lld bytes on device %d: a workspace that is allocated once (fa_workspace_size), or fewer "
                  "num_splits, need not be found by each call",
                  static_cast<long long>(bytes), device.index);
  }

  char *data() const { return reinterpret_cast<char *>(address_); }

 private:
  CUstream stream_;
  CUdeviceptr address_ = 0;
};

}  // namespace

CudaEngine::CudaEngine(const Attention &attention, const Device &device, const Image &image, const Image &combine)
    : attention_(attention), device_(device), image_(image), combine_(combine) {}

CudaEngine::~CudaEngine() {
  for (Bound *bound = bound_; bound != nullptr;) {
    Bound *next = bound->next;
    delete bound;
    bound = next;
  }
}

fa_status CudaEngine::load() {
  InContext in;
  if (const fa_status status = in.enter(device_, nullptr)) return status;
  return bind(in.context(), nullptr) != nullptr ? FA_OK : last_status();
}

/// Contexts are added in front and never taken away, so that no lock is needed to look.
const CudaEngine::Bound *CudaEngine::bind(const Context &context, const CUstream *stream) const {
  Bound *first = bound_.load(std::memory_order_acquire);
  for (Bound *bound = first; bound != nullptr; bound = bound->next)
    if (bound->context == context.id) return bound;
  Module kernels, combine;
  if (find_module(image_, device_, context, stream, &kernels) != FA_OK ||
      find_module(combine_, device_, context, stream, &combine) != FA_OK)
    return nullptr;
  Bound *added = new Bound{context.id, kernels, combine, first};
  while (!bound_.compare_exchange_weak(added->next, added, std::memory_order_acq_rel)) {
  }
  return added;
}

fa_status CudaEngine::workspace_size(const Problem &problem, size_t *bytes) const {
  *bytes = static_cast<size_t>(workspace_bound(problem, image_, device_));
  return FA_OK;
}

fa_status CudaEngine::forward(const Problem &given) const {
  Problem problem = given;
  const bool host_serves = attention_.device == FA_DEVICE_AUTO;
  if (const char *why = why_not_after_fork()) return host_serves ? not_here : fail(FA_ERROR_DRIVER, "%s", why);
  Place place;
  CUcontext wanted = nullptr;
  bool translate = false;
  if (const fa_status status = find_place(device_, &problem, host_serves, &place, &wanted, &translate)) return status;
  if (place == Place::host) return not_here;
  if (place == Place::both && problem.stream == nullptr) return forward_plain(problem, host_serves);
  InContext in;
  if (const fa_status status = in.enter(device_, wanted)) return status;
  if (translate) {
    if (const fa_status status = translate_addresses(&problem)) return status;
  }
  const CUstream stream = static_cast<CUstream>(problem.stream);
  if (const fa_status status = check_stream(stream, in.context())) return status;
  const Bound *bound = bind(in.context(), &stream);
  return bound != nullptr ? run(problem, *bound) : last_status();
}

/// Serves a caller who may know nothing of GPUs, whose memory both reach: the result is there when this returns, and
/// where the CPU may serve, a GPU that is not ready leaves the call to it. The thread's own stream waits for the legacy
/// one as that would itself, but leaves other threads and their captures alone.
fa_status CudaEngine::forward_plain(Problem problem, bool host_serves) const {
  const CUstream stream = CU_STREAM_PER_THREAD;
  problem.stream = stream;
  InContext in;
  const auto prepared = [&] { return in.enter(device_, nullptr) == FA_OK ? bind(in.context(), &stream) : nullptr; };
  const Bound *bound = nullptr;
  if (host_serves) {
    const KeepError keep;
    if ((bound = prepared()) == nullptr) {
      if (verbose_dispatch()) say("forward: device %d is not ready: %s", device_.index, last_error());
      return not_here;
    }
  } else if ((bound = prepared()) == nullptr) {
    return last_status();
  }
  if (const fa_status status = run(problem, *bound)) return status;
  const Driver &driver = machine().driver;
  const CUresult result = driver.cuStreamSynchronize(stream);
  return result == CUDA_SUCCESS ? FA_OK
                                : failed(driver, "cuStreamSynchronize", result, "after %s.%s on device %d (%s)",
                                         image_.arch, image_.family, device_.index, device_.name);
}

fa_status CudaEngine::run(const Problem &problem, const Bound &bound) const {
  const CUstream stream = static_cast<CUstream>(problem.stream);
  const Plan plan = plan_of(problem, image_, device_);
  char *workspace = static_cast<char *>(problem.workspace);
  StreamMemory own(stream);
  if (plan.partial_bytes > 0 && workspace == nullptr) {
    if (const fa_status status = own.allocate(device_, plan.partial_bytes)) return status;
    workspace = own.data();
  }
  const Launched launched = launch(problem, plan, bound, workspace);
  if (launched.result == CUDA_SUCCESS) return FA_OK;
  return failed(machine().driver, "cuLaunchKernelEx", launched.result, "%s of %s.%s on device %d (%s)",
                name_of(launched.entry), image_.arch, image_.family, device_.index, device_.name);
}

CudaEngine::Launched CudaEngine::launch(const Problem &problem, const Plan &plan, const Bound &bound,
                                        char *workspace) const {
  kernels::Params params = params_of(problem, plan, workspace);
  const CUstream stream = static_cast<CUstream>(problem.stream);
  const kernels::Tile ends = combine_.tile_of(Entry::combine);
  const bool dependent = combine_.sm() >= first_dependent_sm;
  for (int64_t first = 0; first < plan.places; first += plan.launch_places) {
    const int64_t places = std::min(plan.launch_places, plan.places - first);
    params.schedule.first_tile = first;
    CUresult result =
        launch_kernel(bound.kernels[plan.entry], places * plan.num_splits, 1, plan.tile, stream, false, &params);
    if (result != CUDA_SUCCESS) return {result, plan.entry};
    if (plan.num_splits == 1) continue;
    result = launch_kernel(bound.combine[Entry::combine], places, plan.tile.rows / kernels::combine::rows, ends, stream,
                           dependent, &params);
    if (result != CUDA_SUCCESS) return {result, Entry::combine};
  }
  return {CUDA_SUCCESS, plan.entry};
}

}  // namespace fa::cuda
