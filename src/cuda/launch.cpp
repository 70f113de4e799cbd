#include "cuda/launch.h"

#include <algorithm>

#include "core/status.h"
#include "cuda/derive.h"

namespace fa::cuda {
namespace {

/// The attributes of a launch, one after another.
class Attributes {
 public:
  CUlaunchAttribute &add(int id) {
    list_[count_] = {id, 0, {}};
    return list_[count_++];
  }

  CUlaunchAttribute *list() { return list_; }
  unsigned count() const { return count_; }

 private:
  CUlaunchAttribute list_[2];
  unsigned count_ = 0;
};

/// Whether a launch may depend on the one before it by itself. Graphs have such edges since CUDA 12.3; the behaviour of
/// older drivers with one in a capture is not documented.
bool may_be_dependent(CUstream stream) {
  constexpr int since = 12030;
  const Driver &driver = machine().driver;
  int capturing = 0;
  return driver.version >= since || (driver.cuStreamIsCapturing(stream, &capturing) == CUDA_SUCCESS && capturing == 0);
}

/// Tiles without rows recur, every second or third one where sequences are of one length. In a persistent grid of a
/// multiple of that, the same blocks would get them all. The result is this number of places, or a few less.
int64_t without_rhythm(int64_t places) {
  constexpr int64_t max_idle = 32;  // one of this many
  for (int64_t fewer = places; fewer >= places - places / max_idle; fewer--)
    if (fewer % 2 != 0 && fewer % 3 != 0) return fewer;
  return places;
}

/// One launch, of the tiles that params->schedule begins with.
fa_status launch(const KernelLaunch &kernel, CUkernel handle, int64_t tiles, const Device &device, CUstream stream,
                 kernels::Params *params) {
  const kernels::TileConfig &tile = kernel.tile;
  params->schedule.blocks = tiles * kernel.blocks_per_tile;
  Attributes attributes;
  if (kernel.dependent && may_be_dependent(stream))
    attributes.add(CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION).value.number = 1;
  if (tile.cluster > 1) {
    unsigned (&shape)[3] = attributes.add(CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION).value.shape;
    shape[0] = static_cast<unsigned>(tile.cluster), shape[1] = shape[2] = 1;
  }
  const int64_t blocks = params->schedule.blocks;
  const int64_t x = kernel.takes_over ? blocks : grid_of(tile, blocks, device, params->cu_seqlens_q != nullptr);
  const CUlaunchConfig config = {
      {static_cast<unsigned>(x), static_cast<unsigned>(kernel.grid_y), static_cast<unsigned>(kernel.grid_z)},
      {static_cast<unsigned>(tile.threads), 1, 1},
      static_cast<unsigned>(tile.shared_bytes),
      stream,
      attributes.list(),
      attributes.count()};
  // The driver takes as many arguments as the kernel has, and only reads them.
  void *arguments[] = {params, kernel.maps ? const_cast<kernels::TensorMaps *>(&*kernel.maps) : nullptr,
                       const_cast<uint32_t **>(&kernel.tickets)};
  const auto function = reinterpret_cast<CUfunction>(handle);  // as the driver has it: in whichever context is current
  const Driver &driver = machine().driver;
  if (kernel.tickets != nullptr) {
    const CUresult cleared = driver.cuMemsetD32Async(reinterpret_cast<CUdeviceptr>(kernel.tickets), 0, 1, stream);
    if (cleared != CUDA_SUCCESS)
      return failed(driver, "cuMemsetD32Async", cleared, "of the tickets of %s of %s on device %d (%s)",
                    name_of(kernel.entry), kernel.image->name, device.index, device.name);
  }
  const CUresult result = driver.cuLaunchKernelEx(&config, function, arguments, nullptr);
  return result == CUDA_SUCCESS ? FA_OK
                                : failed(driver, "cuLaunchKernelEx", result, "%s of %s on device %d (%s)",
                                         name_of(kernel.entry), kernel.image->name, device.index, device.name);
}

}  // namespace

int64_t grid_of(const kernels::TileConfig &tile, int64_t blocks, const Device &device, bool packed) {
  const int64_t cluster = tile.cluster;
  if (tile.persistent) {
    const int64_t places = int64_t{device.sm_count} * tile.min_blocks_per_sm;
    blocks = std::min(blocks, packed && blocks > places ? without_rhythm(places) : places);
  }
  return (blocks + cluster - 1) / cluster * cluster;
}

fa_status launch(std::span<const LaunchLoop> loops, const KernelSet &kernels, const Resident &resident,
                 const Device &device, CUstream stream, kernels::Params *params) {
  for (const LaunchLoop &loop : loops) {
    set_schedule(loop.schedule, params);
    for (int64_t first = 0; first < loop.tiles; first += loop.tiles_per_launch) {
      params->schedule.first_tile = loop.first_tile + first;
      const int64_t tiles = std::min(loop.tiles_per_launch, loop.tiles - first);
      for (const KernelLaunch &kernel : loop.launches()) {
        const CUkernel handle = resident.modules[kernels.index_of(kernel.image)][kernel.entry];
        if (const fa_status status = launch(kernel, handle, tiles, device, stream, params)) return status;
      }
    }
  }
  return FA_OK;
}

}  // namespace fa::cuda
