"""Faults of the CUDA engine, on emulated GPUs. The kernels' own are in tests/cuda/mutants."""

from mutant import Mutant


def emulated(name, file, old, new, tests):
    return Mutant(name, file, old, new, tests, "emulated")


CUDA = [
    emulated(
        "launches_in_turns",
        "src/cuda/engine.cpp",
        "params.schedule.first_tile = first;",
        "params.schedule.first_tile = 0;",
        "^cuda_offsets.any.sm_80",
    ),
    emulated(
        "capture_mode",
        "src/cuda/module.cpp",
        "  ~BesideCaptures() { machine().driver.cuThreadExchangeStreamCaptureMode(&mode_); }\n",
        "  ~BesideCaptures() {}\n",
        r"^cuda\.f32",
    ),
    emulated(
        "order_of_a_stream",
        "src/cuda/engine.cpp",
        "place == Place::both && problem.stream == nullptr",
        "place == Place::both",
        "^cuda_variants",
    ),
    emulated(
        "order_without_a_stream",
        "src/cuda/engine.cpp",
        "const CUresult result = driver.cuStreamSynchronize(stream);\n  return",
        "const CUresult result = CUDA_SUCCESS;\n  return",
        "^cuda_variants",
    ),
    emulated(
        "stream_of_a_call",
        "src/cuda/engine.cpp",
        "const CUstream stream = static_cast<CUstream>(problem.stream);\n  Plan plan",
        "const CUstream stream = nullptr;\n  Plan plan",
        r"^cuda\.f32",
    ),
    emulated("addresses_of_the_host", "src/cuda/engine.cpp", "  if (translate) {", "  if (false) {", "^cuda_variants"),
    emulated(
        "addresses_of_arrays",
        "src/cuda/placement.cpp",
        "    p->*a.data = reinterpret_cast<const int32_t *>(data);\n",
        "",
        "^cuda_variants",
    ),
    emulated("address_of_the_workspace", "src/cuda/placement.cpp", "  p->workspace = workspace;\n", "", "^cuda_variants"),
    emulated(
        "forced_kernel_alone",
        "src/dispatch/prepare.cpp",
        "  attention.device = kernel.device;  // no other kernel may stand in\n",
        "",
        r"^cuda\.f32",
    ),
    emulated(
        "rows_far_apart",
        "kernels/mma/tiles.h",
        "-longest_row < rows.stride[1] && rows.stride[1] < longest_row",
        "rows.stride[1] == rows.stride[1]",
        "^cuda_(plan|offsets)",
    ),
    emulated("rows_of_values", "kernels/mma/tiles.h", "!is_near(p.k) || !is_near(p.v)", "!is_near(p.k)", "^cuda_plan"),
    emulated("aligned_values", "kernels/mma/tiles.h", "!is_aligned(p.v, p.head_dim_v, 2) ||", "", "^cuda_plan"),
    emulated(
        "two_splits_at_least",
        "src/cuda/plan.cpp",
        "invariant_split_keys), 2)",
        "invariant_split_keys), 1)",
        r"^cuda_plan|^cuda\.f32",
    ),
    emulated(
        "bound_of_partials",
        "src/cuda/plan.cpp",
        "std::max(most_partial_bytes, fixed * bytes)",
        "most_partial_bytes",
        "^cuda_plan",
    ),
    emulated(
        "maxima_behind_values",
        "src/cuda/plan.cpp",
        "params.partial_values + params.schedule.num_splits * params.partial_rows",
        "params.partial_values + params.partial_rows",
        r"^cuda\.f32",
    ),
    emulated(
        "columns_of_a_group",
        "kernels/common/schedule.cuh",
        "first = groups_before * s.group;",
        "first = groups_before * s.group + 1;",
        "^cuda_schedule",
    ),
    emulated("last_group", "kernels/common/schedule.cuh", "min(s.group, columns - first)", "s.group", "^cuda_schedule"),
    emulated("late_tiles", "kernels/common/schedule.cuh", "      index -= columns * early;\n", "", "^cuda_schedule"),
    emulated("heads_of_a_group", "src/cuda/order.cpp", "clusters <= most ? clusters : head;", "1;", "^cuda_schedule"),
    emulated("bytes_of_a_group", "src/cuda/order.cpp", "device.l2_bytes / l2_parts", "device.l2_bytes", "^cuda_schedule"),
    emulated("no_groups", "src/cuda/order.cpp", "if (most >= columns) return columns;", "return columns;", "^cuda_schedule"),
    emulated("family_of_a_call", "src/cuda/plan.cpp", "image->family->why_not_call(entry, plan->params)", "\"\"", "^cuda_family"),
    emulated("family_alone", "src/cuda/cuda.cpp", "if (alone || row.family()", "if (row.family()", "^cuda_family"),
    emulated("clusters", "src/cuda/launch.cpp", "if (tile.cluster > 1)", "if (tile.cluster > 2)", "^cuda_family"),
    emulated("whole_clusters", "src/cuda/launch.cpp", "(blocks + cluster - 1) / cluster * cluster", "blocks", "^cuda_(family|plan)"),
    emulated("context_of_another", "src/cuda/placement.cpp", "is.context != context_) {", "false) {", r"^cuda\.f32"),
    emulated("pinned_is_known", "src/cuda/placement.cpp", "!known && !device_reads_plain_", "!device_reads_plain_", r"^cuda\.f32"),
    emulated(
        "primary_after_reset",
        "src/cuda/context.cpp",
        " && is_active(device);",
        " && (is_active(device) || true);",
        r"^cuda\.f32",
    ),
    emulated("contexts_popped", "src/cuda/context.cpp", "while (pushed_-- > 0)", "while (pushed_-- > 1)", r"^cuda\.f32"),
    emulated(
        "image_of_another_build",
        "src/cuda/module.cpp",
        "if (result == CUDA_SUCCESS) {\n    libraries",
        "if (true) {\n    libraries",
        "^cuda_fault",
    ),
    emulated(
        "newest_ptx",
        "src/cuda/image.cpp",
        "kernels::Reach::onward || device.capability < arch.number",
        "kernels::Reach::onward",
        "^cuda_devices",
    ),
    emulated("graph_edges_since_123", "src/cuda/launch.cpp", "since = 12030", "since = 12000", "^cuda_drivers"),
    emulated("ptx_of_a_newer_cuda", "src/cuda/toolkit.cpp", "driver_version >= kernel_cuda_version", "driver_version > 0", "^cuda_drivers"),
]
