// Launching: cuLaunchKernel and its kin, with their attributes.
#include "driver/cuda_structs.h"
#include "driver/graph.h"
#include "driver/state.h"
#include "driver/submit.h"

using namespace fa::emu::driver;

namespace {

/// The cluster that the kernel was compiled for, or that its attributes ask for.
void set_cluster(KernelWork &work) {
  const uint32_t *compiled = work.kernel->limits().cluster, *asked = work.kernel->settings.cluster;
  const uint32_t *cluster = compiled[0] ? compiled : asked;
  for (int d = 0; d < 3; d++) work.shape.cluster[d] = cluster[d] ? cluster[d] : 1;
}

KernelWork work_of(Context &context, CUfunction function, const unsigned (&grid)[3], const unsigned (&block)[3],
                   unsigned shared, void **parameters, void **extra) {
  KernelWork work;
  work.kernel = &kernel_of(function, context);
  for (int d = 0; d < 3; d++) {
    work.shape.grid[d] = grid[d];
    work.shape.block[d] = block[d];
  }
  work.shape.dynamic_shared = shared;
  work.parameters = pack_parameters(*work.kernel, parameters, extra);
  set_cluster(work);
  return work;
}

/// Graphs have edges between parts of kernels since CUDA 12.3, and no older driver is known to capture one.
void refuse_early_edges(const Stream &stream, const KernelWork &work) {
  constexpr int since = 12030;
  if (stream.capture && work.programmatic && settings().driver_version < since)
    refuse(CUDA_ERROR_NOT_SUPPORTED, "a programmatic dependency in a capture, which drivers have since CUDA 12.3");
}

/// Marks the kernel that was launched last: when its dependents may start, or its end.
void record(const Stream &stream, CUevent event, bool programmatic) {
  Event &marked = object<Event>(event);
  marked.captured = false;
  marked.recorded = programmatic ? stream.last->trigger : stream.last;
}

}  // namespace

namespace fa::emu::driver {

void apply(KernelWork &work, const CudaLaunchAttribute &attribute) {
  require(attribute.id >= 0 && attribute.id <= CU_LAUNCH_ATTRIBUTE_LAST, "no such launch attribute");
  if (attribute.id == CU_LAUNCH_ATTRIBUTE_COOPERATIVE) work.cooperative = attribute.value.number != 0;
  if (attribute.id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION)
    work.programmatic = attribute.value.number != 0;
  if (attribute.id != CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION) return;
  const uint32_t *compiled = work.kernel->limits().cluster;
  for (int d = 0; d < 3; d++) {
    require(compiled[0] == 0 || compiled[d] == attribute.value.dimensions[d],
            "another cluster than the kernel was compiled for", CUDA_ERROR_INVALID_CLUSTER_SIZE);
    work.shape.cluster[d] = attribute.value.dimensions[d];
  }
}

KernelWork kernel_work(const CudaKernelNode &node, Context &context) {
  CUfunction function = node.function ? node.function : reinterpret_cast<CUfunction>(node.kernel);
  return work_of(context, function, node.grid, node.block, node.shared, node.parameters, node.extra);
}

}  // namespace fa::emu::driver

EMU_API CUresult cuLaunchKernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                                unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared, CUstream handle,
                                void **parameters, void **extra) {
  return api("cuLaunchKernel", [&] {
    Lock lock(process().mutex);
    Stream &stream = stream_of(handle);
    submit(stream, work_of(*stream.context, function, {grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, shared,
                           parameters, extra));
    return CUDA_SUCCESS;
  });
}

EMU_API CUresult cuLaunchKernelEx(const CudaLaunchConfig *config, CUfunction function, void **parameters,
                                  void **extra) {
  return api("cuLaunchKernelEx", [&] {
    Lock lock(process().mutex);
    require(config != nullptr, "no configuration");
    require(config->attribute_count == 0 || config->attributes != nullptr, "no attributes");
    Stream &stream = stream_of(config->stream);
    KernelWork work =
        work_of(*stream.context, function, config->grid, config->block, config->shared, parameters, extra);
    for (unsigned i = 0; i < config->attribute_count; i++) apply(work, config->attributes[i]);
    refuse_early_edges(stream, work);
    submit(stream, std::move(work));
    for (unsigned i = 0; i < config->attribute_count; i++) {
      const CudaLaunchAttribute &attribute = config->attributes[i];
      bool programmatic = attribute.id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT;
      bool marks = programmatic || attribute.id == CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT;
      if (marks && !stream.capture) record(stream, attribute.value.event.event, programmatic);
    }
    return CUDA_SUCCESS;
  });
}

EMU_API CUresult cuLaunchCooperativeKernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                                           unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared,
                                           CUstream handle, void **parameters) {
  return api("cuLaunchCooperativeKernel", [&] {
    Lock lock(process().mutex);
    Stream &stream = stream_of(handle);
    KernelWork work = work_of(*stream.context, function, {grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, shared,
                              parameters, nullptr);
    work.cooperative = true;
    submit(stream, std::move(work));
    return CUDA_SUCCESS;
  });
}
