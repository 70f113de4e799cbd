// Launching: limits first, as the driver checks them, then the run.
#include "exec/launch.h"

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "check/attach.h"
#include "driver/host_memory.h"
#include "driver/interrupt.h"
#include "driver/report.h"
#include "driver/state.h"

namespace fa::emu::driver {
namespace {

CUresult code_of(FaultKind kind) {
  switch (kind) {
    case FaultKind::illegal_address:
      return CUDA_ERROR_ILLEGAL_ADDRESS;
    case FaultKind::misaligned_address:
      return CUDA_ERROR_MISALIGNED_ADDRESS;
    case FaultKind::illegal_instruction:
      return CUDA_ERROR_ILLEGAL_INSTRUCTION;
    case FaultKind::assertion:
      return CUDA_ERROR_ASSERT;
    case FaultKind::stack_overflow:
      return CUDA_ERROR_HARDWARE_STACK_ERROR;
    case FaultKind::deadlock:
    case FaultKind::timeout:
      return CUDA_ERROR_LAUNCH_TIMEOUT;
    default:
      return CUDA_ERROR_LAUNCH_FAILED;
  }
}

void check_block(const DeviceLimits &limits, const Kernel &kernel, const LaunchShape &shape) {
  const ptx::EntryLimits &entry = kernel.limits();
  for (int d = 0; d < 3; d++)
    require(entry.required_threads[0] == 0 || entry.required_threads[d] == shape.block[d],
            "the kernel was compiled for another block (.reqntid)");
  uint64_t threads = uint64_t{shape.block[0]} * shape.block[1] * shape.block[2];
  require(shape.block[0] <= 1024 && shape.block[1] <= 1024 && shape.block[2] <= 64 && threads <= 1024,
          "a block has at most 1024 threads (64 in z)");
  uint64_t allowed = uint64_t{entry.max_threads[0]} * entry.max_threads[1] * entry.max_threads[2];
  require(allowed == 0 || threads <= allowed, "more threads than the kernel was compiled for (.maxntid)");
  require(shape.dynamic_shared <= kernel.settings.max_dynamic_shared,
          "more dynamic shared memory than CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES allows");
  uint64_t shared = uint64_t{kernel.program->static_shared_bytes} + shape.dynamic_shared;
  require(shared <= limits.shared_per_block_optin, "more shared memory than a block of this device can have");
  require(kernel.settings.dynamic_shared_set || shared <= 48 * 1024,
          "more than 48 KB of shared memory, without CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES");
  require(uint64_t{kernel.resources.registers} * threads <= 65536, "more registers than an SM has",
          CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
}

void check_cluster(const DeviceLimits &limits, const Kernel &kernel, const LaunchShape &shape) {
  constexpr CUresult code = CUDA_ERROR_INVALID_CLUSTER_SIZE;
  for (int d = 0; d < 3; d++)
    require(shape.cluster[d] >= 1 && shape.grid[d] % shape.cluster[d] == 0, "the grid is not a multiple of the cluster",
            code);
  uint64_t blocks = uint64_t{shape.cluster[0]} * shape.cluster[1] * shape.cluster[2];
  require(blocks == 1 || limits.has_clusters(), "this device has no clusters", code);
  require(blocks <= 8 || kernel.settings.large_clusters,
          "a cluster of more than 8 blocks needs CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED", code);
  require(blocks <= 16, "a cluster has at most 16 blocks", code);
  uint32_t most = kernel.limits().max_cluster_rank;
  require(most == 0 || blocks <= most, "a larger cluster than the kernel was compiled for (.maxclusterrank)", code);
}

bool waits_for_prerequisite(const Program &program) {
  for (uint32_t pc = 0; pc < program.code.size(); pc++)
    if (program.opcode(pc) == "griddepcontrol.wait") return true;
  return false;
}

/// Adds its conflicts with operations of other streams to its findings.
void compare_with_others(Launch &launch, const Operation &operation, const Device &device) {
  check::Footprint footprint = launch.footprint();
  constexpr uint64_t page_bytes = check::GlobalShadow::page_bytes;
  // Who has a piece of the heap may hand it to others without a word.
  std::erase_if(footprint.pages,
                [&](const auto &one) { return device.heap && device.heap->holds(one.first * page_bytes); });
  check::StreamOperation self;
  self.name = "launch " + std::to_string(launch.grid_number) + " (" + readable_name(launch.program->name) + ") in " +
              operation.stream;
  self.program = launch.program;
  for (const auto &[number, page] : footprint.pages) {
    const memory::Range *range = launch.ranges->nearest_below((number + 1) * page_bytes - 1);
    if (!range || range->kind == memory::RangeKind::device || range->kind == memory::RangeKind::module) continue;
    for (const check::GlobalCell &cell : page->cells) self.tells_host |= cell.write.cluster != 0;
  }
  const bool waits = operation.prerequisite && waits_for_prerequisite(*launch.program);
  for (Finding &finding : queue().compare(operation, waits, std::move(self), std::move(footprint), &launch))
    launch.findings.add(std::move(finding));
}

}  // namespace

void check_launch(Context &context, const KernelWork &work) {
  const DeviceLimits &limits = context.device->limits;
  const LaunchShape &shape = work.shape;
  const Kernel &kernel = *work.kernel;
  require(kernel.module->context == &context, "a kernel of another context", CUDA_ERROR_INVALID_HANDLE);
  for (int d = 0; d < 3; d++) {
    require(shape.grid[d] >= 1 && shape.block[d] >= 1, "a grid or block without extent");
    require(d == 0 || shape.grid[d] <= 65535, "the grid's y and z go up to 65535");
    require(shape.grid[d] <= 0x7fffffff, "the grid's x goes up to 2147483647");
  }
  check_block(limits, kernel, shape);
  check_cluster(limits, kernel, shape);
  uint64_t fit = uint64_t{blocks_per_sm(limits, kernel, shape)} * static_cast<uint32_t>(limits.sm_count);
  require(fit > 0, "no block of this shape fits on an SM", CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
  uint64_t blocks = uint64_t{shape.grid[0]} * shape.grid[1] * shape.grid[2];
  if (work.cooperative && blocks > fit)
    refuse(CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE,
           std::to_string(blocks) + " blocks, of which " + std::to_string(fit) + " fit at once");
}

std::vector<uint8_t> pack_parameters(const Kernel &kernel, void **parameters, void **extra) {
  const auto &formal = kernel.parameters;
  std::vector<uint8_t> packed(formal.empty() ? 0 : formal.back().offset + formal.back().bytes);
  if (extra) {
    const void *buffer = nullptr;
    size_t bytes = 0;
    for (void **at = extra; *at != reinterpret_cast<void *>(CU_LAUNCH_PARAM_END_VALUE); at += 2) {
      if (*at == reinterpret_cast<void *>(CU_LAUNCH_PARAM_BUFFER_POINTER_VALUE)) buffer = at[1];
      if (*at == reinterpret_cast<void *>(CU_LAUNCH_PARAM_BUFFER_SIZE_VALUE)) bytes = *static_cast<size_t *>(at[1]);
    }
    require(buffer != nullptr && bytes <= packed.size() + 15, "a parameter buffer that does not fit the kernel");
    std::memcpy(packed.data(), buffer, std::min(bytes, packed.size()));
    return packed;
  }
  require(formal.empty() || parameters != nullptr, "the kernel has parameters, and none are given");
  for (size_t i = 0; i < formal.size(); i++) {
    require(parameters[i] != nullptr, "a parameter is null");
    std::memcpy(packed.data() + formal[i].offset, parameters[i], formal[i].bytes);
  }
  return packed;
}

void launch(Context &context, const KernelWork &work, Operation &operation) {
  static std::atomic<uint64_t> launches{0};
  const DeviceLimits &limits = context.device->limits;
  Launch run_state;
  run_state.program = work.kernel->program;
  run_state.shape = work.shape;
  run_state.options = settings().run;
  run_state.parameters = work.parameters;
  run_state.registers = work.kernel->resources.registers;
  Device &device = *context.device;
  if (work.kernel->program->uses_heap) {
    Lock lock(process().mutex);
    if (!device.heap) device.heap = std::make_unique<memory::DeviceHeap>(*device.memory);
    run_state.heap = device.heap.get();
  }
  if (work.cooperative) run_state.grid_workspace = device.memory->allocate(16);
  run_state.ranges = reachable(device);
  run_state.resident_ctas = blocks_per_sm(limits, *work.kernel, work.shape) * device.room.multiprocessors.usable();
  run_state.paced = limits.paced;
  run_state.short_mma = settings().short_sums && limits.capability() == 89;
  run_state.short_wgmma = settings().short_sums && limits.capability() == 90;
  run_state.grid_number = ++launches;
  if (run_state.options.observed()) check::attach(run_state);
  run_state.progressed = [&] { std::fprintf(stderr, "fa-emu: %s\n", progress_of(run_state).c_str()); };
  queue().begin_launch(operation, run_state, device.room);
  std::optional<Fault> fault;
  {
    Interruptible interruptible(run_state);
    fault = run(run_state);
  }
  queue().end_launch(operation);
  if (run_state.footprint) compare_with_others(run_state, operation, device);
  if (run_state.grid_workspace) device.memory->release(run_state.grid_workspace);
  report(run_state, fault);
  if (fault || context.sticky != CUDA_SUCCESS) device.room.multiprocessors.reset_columns(run_state.grid_number);
  if (!fault) return;
  // First the reason: the program may end as soon as it sees the error.
  report_always("kernel", code_of(fault->kind), fault->what());
  context.sticky = code_of(fault->kind);
}

}  // namespace fa::emu::driver
