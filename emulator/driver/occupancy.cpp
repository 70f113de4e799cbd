// The number of blocks that an SM holds: the least of the limits by blocks, warps, registers and shared memory, each
// counted in the units in which the hardware gives them out (CUDA C++ Programming Guide, "Occupancy").
#include <algorithm>

#include "driver/called_as.h"
#include "driver/cuda_structs.h"
#include "driver/state.h"

using namespace fa::emu;
using namespace fa::emu::driver;

namespace fa::emu::driver {
namespace {

constexpr uint32_t registers_per_sm = 65536, register_unit = 256, warp_unit = 4, portable_cluster = 8;

uint32_t round_up(uint32_t value, uint32_t unit) {
  return (value + unit - 1) / unit * unit;
}

uint32_t shared_of(const DeviceLimits &limits, const Kernel &kernel, uint32_t dynamic) {
  uint32_t bytes = kernel.program->dynamic_shared_offset + dynamic + limits.shared_reserved;
  return round_up(bytes, limits.major >= 8 ? 128 : 256);
}

}  // namespace

uint32_t blocks_per_sm(const DeviceLimits &limits, const Kernel &kernel, const LaunchShape &shape) {
  uint32_t warps = (shape.block[0] * shape.block[1] * shape.block[2] + 31) / 32;
  uint32_t blocks = std::min(static_cast<uint32_t>(limits.blocks_per_sm),
                             static_cast<uint32_t>(limits.threads_per_sm) / 32 / std::max(warps, 1u));
  if (uint32_t shared = shared_of(limits, kernel, shape.dynamic_shared))
    blocks = std::min(blocks, limits.shared_per_sm / shared);
  if (kernel.resources.registers) {
    uint32_t a_warp = round_up(kernel.resources.registers * 32, register_unit);
    blocks = std::min(blocks, registers_per_sm / a_warp / warp_unit * warp_unit / round_up(warps, warp_unit));
  }
  return blocks;
}

namespace {

using SharedOf = size_t (*)(int block);

uint32_t blocks_of(Kernel &kernel, int threads, size_t dynamic) {
  LaunchShape shape;
  shape.block[0] = static_cast<uint32_t>(threads);
  shape.dynamic_shared = static_cast<uint32_t>(dynamic);
  const DeviceLimits &limits = kernel.module->context->device->limits;
  uint64_t shared = uint64_t{kernel.program->static_shared_bytes} + dynamic;
  if (shared > limits.shared_per_block_optin || threads > 1024) return 0;
  return blocks_per_sm(limits, kernel, shape);
}

int max_threads(const Kernel &kernel) {
  const auto &allowed = kernel.limits().max_threads;
  return allowed[0] ? static_cast<int>(allowed[0] * allowed[1] * allowed[2]) : 1024;
}

}  // namespace
}  // namespace fa::emu::driver

EMU_API CUresult cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *blocks, CUfunction function, int threads,
                                                                      size_t dynamic, unsigned) {
  const CalledAs name("cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags");
  return api("cuOccupancyMaxActiveBlocksPerMultiprocessor", [&] {
    Lock lock(process().mutex);
    require(blocks != nullptr && threads > 0, "no place for the number, or no threads");
    *blocks = static_cast<int>(blocks_of(kernel_of(function, current()), threads, dynamic));
    return CUDA_SUCCESS;
  });
}

EMU_API CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, CUfunction function, int threads,
                                                             size_t dynamic) {
  const CalledAs name("cuOccupancyMaxActiveBlocksPerMultiprocessor");
  return cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, function, threads, dynamic, 0);
}

EMU_API CUresult cuOccupancyMaxPotentialBlockSizeWithFlags(int *grid, int *block, CUfunction function,
                                                           SharedOf shared_of_block, size_t dynamic, int limit,
                                                           unsigned) {
  const CalledAs name("cuOccupancyMaxPotentialBlockSizeWithFlags");
  return api("cuOccupancyMaxPotentialBlockSize", [&] {
    Lock lock(process().mutex);
    require(grid != nullptr && block != nullptr, "no place for the sizes");
    Kernel &kernel = kernel_of(function, current());
    int most = max_threads(kernel);
    if (limit > 0) most = std::min(most, limit);
    int best = 0;
    *grid = *block = 0;
    // The largest of the block sizes that fill an SM equally.
    for (int threads = (most + 31) / 32 * 32; threads > 0; threads -= 32) {
      int used = std::min(threads, most);
      int blocks = static_cast<int>(blocks_of(kernel, used, shared_of_block ? shared_of_block(used) : dynamic));
      if (blocks * used <= best) continue;
      best = blocks * used;
      *block = used;
      *grid = blocks * kernel.module->context->device->limits.sm_count;
    }
    return CUDA_SUCCESS;
  });
}

EMU_API CUresult cuOccupancyMaxPotentialBlockSize(int *grid, int *block, CUfunction function, SharedOf shared_of_block,
                                                  size_t dynamic, int limit) {
  const CalledAs name("cuOccupancyMaxPotentialBlockSize");
  return cuOccupancyMaxPotentialBlockSizeWithFlags(grid, block, function, shared_of_block, dynamic, limit, 0);
}

EMU_API CUresult cuOccupancyAvailableDynamicSMemPerBlock(size_t *bytes, CUfunction function, int blocks, int threads) {
  return api("cuOccupancyAvailableDynamicSMemPerBlock", [&] {
    Lock lock(process().mutex);
    require(bytes != nullptr && blocks > 0 && threads > 0, "no place for the size, or no blocks");
    Kernel &kernel = kernel_of(function, current());
    const DeviceLimits &limits = kernel.module->context->device->limits;
    require(static_cast<int>(blocks_of(kernel, threads, 0)) >= blocks, "an SM does not hold that many of these blocks");
    uint32_t a_block = limits.shared_per_sm / static_cast<uint32_t>(blocks) / 128 * 128;
    uint32_t fixed = kernel.program->dynamic_shared_offset;
    a_block = std::min(a_block - limits.shared_reserved, limits.shared_per_block_optin);
    *bytes = a_block > fixed ? a_block - fixed : 0;
    return CUDA_SUCCESS;
  });
}

EMU_API CUresult cuOccupancyMaxPotentialClusterSize(int *blocks, CUfunction function, const CudaLaunchConfig *config) {
  return api("cuOccupancyMaxPotentialClusterSize", [&] {
    Lock lock(process().mutex);
    require(blocks != nullptr && config != nullptr, "no place for the size, or no configuration");
    Kernel &kernel = kernel_of(function, current());
    require(kernel.module->context->device->limits.has_clusters(), "this device has no clusters",
            CUDA_ERROR_INVALID_CLUSTER_SIZE);
    *blocks = kernel.settings.large_clusters ? 16 : static_cast<int>(portable_cluster);
    return CUDA_SUCCESS;
  });
}

EMU_API CUresult cuOccupancyMaxActiveClusters(int *clusters, CUfunction function, const CudaLaunchConfig *config) {
  return api("cuOccupancyMaxActiveClusters", [&] {
    Lock lock(process().mutex);
    require(clusters != nullptr && config != nullptr, "no place for the number, or no configuration");
    Kernel &kernel = kernel_of(function, current());
    const DeviceLimits &limits = kernel.module->context->device->limits;
    require(limits.has_clusters(), "this device has no clusters", CUDA_ERROR_INVALID_CLUSTER_SIZE);
    uint32_t size = 1;
    for (unsigned i = 0; i < config->attribute_count; i++)
      if (config->attributes[i].id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION)
        for (unsigned extent : config->attributes[i].value.dimensions) size *= extent;
    require(size > 0, "a cluster without extent", CUDA_ERROR_INVALID_CLUSTER_SIZE);
    int threads = static_cast<int>(config->block[0] * config->block[1] * config->block[2]);
    *clusters =
        static_cast<int>(blocks_of(kernel, threads, config->shared) * static_cast<uint32_t>(limits.sm_count) / size);
    return CUDA_SUCCESS;
  });
}
