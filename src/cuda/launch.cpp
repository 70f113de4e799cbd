#include "cuda/launch.h"

#include <algorithm>

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

/// Whether a launch may depend on the one before it by itself. Graphs have such edges since CUDA 12.3; what older
/// drivers do with one in a capture is not documented.
bool may_be_dependent(CUstream stream) {
  constexpr int since = 12030;
  const Driver &driver = machine().driver;
  int capturing = 0;
  return driver.version >= since || (driver.cuStreamIsCapturing(stream, &capturing) == CUDA_SUCCESS && capturing == 0);
}

/// Tiles without rows recur, every second or third one where sequences are of one length. In a persistent grid of a
/// multiple of that, the same blocks would get them all. So many places, or a few less.
int64_t without_rhythm(int64_t places) {
  constexpr int64_t most_idle = 32;  // one of this many
  for (int64_t fewer = places; fewer >= places - places / most_idle; fewer--)
    if (fewer % 2 != 0 && fewer % 3 != 0) return fewer;
  return places;
}

}  // namespace

int64_t grid_of(const Launch &launch, const Device &device, bool packed) {
  const int64_t cluster = launch.tile.cluster;
  int64_t blocks = launch.blocks;
  if (launch.tile.persistent) {
    const int64_t places = int64_t{device.sm_count} * launch.tile.min_blocks_per_sm;
    blocks = std::min(blocks, packed && blocks > places ? without_rhythm(places) : places);
  }
  return (blocks + cluster - 1) / cluster * cluster;
}

CUresult start(const Launch &launch, const Device &device, CUstream stream, kernels::Params *params,
               kernels::TensorMaps *maps) {
  const kernels::TileConfig &tile = launch.tile;
  params->schedule.blocks = launch.blocks;
  Attributes attributes;
  if (launch.dependent && may_be_dependent(stream))
    attributes.add(CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION).value.number = 1;
  if (tile.cluster > 1) {
    unsigned(&shape)[3] = attributes.add(CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION).value.shape;
    shape[0] = static_cast<unsigned>(tile.cluster), shape[1] = shape[2] = 1;
  }
  const auto x = static_cast<unsigned>(grid_of(launch, device, params->cu_seqlens_q != nullptr));
  const CUlaunchConfig config = {{x, static_cast<unsigned>(launch.rows), static_cast<unsigned>(launch.columns)},
                                 {static_cast<unsigned>(tile.threads), 1, 1},
                                 static_cast<unsigned>(tile.shared_bytes),
                                 stream,
                                 attributes.list(),
                                 attributes.count()};
  void *arguments[] = {params, maps};  // the driver takes as many as the kernel has
  const auto function =
      reinterpret_cast<CUfunction>(launch.kernel);  // as the driver has it: in whichever context is current
  return machine().driver.cuLaunchKernelEx(&config, function, arguments, nullptr);
}

}  // namespace fa::cuda
