"""Faults of the interface, the CPU engine and the tool."""

from mutant import Mutant

INVARIANT = r"^property\.f32\.(avx2|generic)$"
PROPERTIES = r"^(bitwise|property)\.f32\.(avx2|generic)$"
EXTREME = r"^extremes\.f32\.(avx2|generic)$"
GRADIENTS = r"^backward(_property)?\.f32\.generic$"
MANY_KEYS = r"^many_keys\.f32\.(avx2|generic)$"

API = [
    Mutant(
        "suite_in_no_filter", "tests/api/CMakeLists.txt", '"Overlap*"', '"Overlaps*"', "^selection", "host", ("fa_test_api",)
    ),
    Mutant(
        "overlap_without_slopes",
        "src/api/overlap.cpp",
        "    if (view) all",
        "    if (view && &tensor != &args.alibi_slopes) all",
        "^api.overlap",
    ),
    Mutant(
        "overlap_without_q",
        "src/api/overlap.cpp",
        "    if (view) all",
        "    if (view && &tensor != &args.q) all",
        r"^api\.(overlap|errors)",
    ),
    Mutant(
        "overlap_by_either_end",
        "src/api/overlap.cpp",
        "b.low + b.element) || holds(",
        "b.low + b.element) && holds(",
        "^api.overlap",
    ),
    Mutant("overlap_of_workspace", "src/api/overlap.cpp", "call.workspace_size);", "1);", "^api.overlap"),
    Mutant(
        "gaps_of_reversed_tensors",
        "src/api/overlap.cpp",
        "way < 0 ? memory.low : memory.end",
        "way < 0 ? memory.end : memory.end",
        r"^api\.(overlap|errors|legal|fuzz)|^forward\.f32\.generic$",
    ),
    Mutant(
        "windows_of_16_bits",
        "src/api/desc.cpp",
        "side >= everything ? -1 : side;",
        "side >= everything ? -1 : std::min<int64_t>(side, 65535);",
        MANY_KEYS,
    ),
    Mutant(
        "largest_window_closes",
        "src/api/desc.cpp",
        "side < 0 || side >= everything ? -1 : side",
        "side < 0 ? -1 : side >= everything ? 0 : side",
        MANY_KEYS,
    ),
    Mutant(
        "flag_of_bias",
        "src/api/desc.cpp",
        "d.flags & FA_FLAG_BIAS_BEFORE_SOFTCAP;",
        "d.flags & FA_FLAG_BATCH_INVARIANT;",
        r"^forward\.f32\.generic$",
    ),
    Mutant(
        "scale_of_values",
        "src/api/desc.cpp",
        "std::sqrt(static_cast<double>(d.head_dim))",
        "std::sqrt(static_cast<double>(a->head_dim_v))",
        r"^forward\.f32\.generic$",
    ),
    Mutant("bound_above_rows", "src/api/tensors.cpp", "std::min(b.given, b.rows)", "b.given", r"^(api|memory)\."),
    Mutant("workspace_alignment", "src/api/fields.h", "(args.workspace) % 256", "(args.workspace) % 64", r"^api\."),
    Mutant("sums_of_16_bits", "src/api/backward_args.cpp", "view.dtype == FA_F32) continue;", "true) continue;", "^api.backward"),
    Mutant("pages_of_gradients", "src/api/backward_args.cpp", "if (args.block_table.data) {", "if (false) {", "^api.backward"),
    Mutant(
        "gradients_without_queries",
        "src/api/op.cpp",
        "return !call.dq && !call.dk",
        "return call.rows_q == 0 || !call.dq && !call.dk",
        r"^(api\.backward|backward\.f32\.generic)$",
    ),
    Mutant(
        "shape_of_dk",
        "src/core/backward_operands.inc",
        "FA_TENSOR(dk, written, optional, like_kv, as_k)",
        "FA_TENSOR(dk, written, optional, like_kv, as_v)",
        r"^backward\.f32\.generic$",
    ),
    Mutant(
        "overlap_of_gradients",
        "src/core/backward_operands.inc",
        "FA_TENSOR(dv, written",
        "FA_TENSOR(dv, read",
        "^api.backward",
    ),
    Mutant(
        "newer_fields",
        "src/api/struct_size.h",
        "bytes + sizeof(T), bytes + size",
        "bytes + sizeof(T) + 8, bytes + size",
        r"^(api|abi)\.",
    ),
    Mutant(
        "older_fields",
        "src/api/struct_size.h",
        "std::memcpy(storage, given, size);",
        "std::memcpy(storage, given, size - 8);",
        r"^(api|abi)\.",
    ),
    Mutant("strides_below", "src/api/view.cpp", "reach[t.stride[i] < 0]", "reach[0]", r"^api\."),
    Mutant(
        "written_twice", "src/api/view.cpp", "use.written && t.stride[i] == 0", "use.written && t.stride[i] == 1", r"^api\."
    ),
    Mutant("most_elements", "src/api/view.cpp", "fits && count <= max_elements", "fits", r"^api\."),
    Mutant("heads_divide", "src/api/tensors.cpp", "p.heads_q % p.heads_kv == 0", "p.heads_q >= p.heads_kv", r"^api\."),
    Mutant("lse_of_workspace_size", "src/dispatch/auto.cpp", "std::max(*bytes, on_cpu)", "on_cpu", "^cuda.f32", "emulated"),
    Mutant("info_of_the_last", "src/api/info.cpp", "fa_kernel_count() - 1,", "fa_kernel_count(),", r"^api\.info"),
    Mutant(
        "number_of_another_base",
        "src/core/environment.cpp",
        "std::strtoll(value, &end, 10)",
        "std::strtoll(value, &end, 0)",
        r"^api\.(environment|dispatch)",
    ),
    Mutant("errors_of_all_threads", "src/core/status.cpp", "constinit thread_local Error", "constinit Error", r"^api\."),
    Mutant("error_not_kept", "src/core/status.cpp", "  error = kept_;\n", "", "^cuda_variants", "emulated"),
    Mutant(
        "forced_kernel_ignored",
        "src/dispatch/table.cpp",
        'environment("FA_FORCE_KERNEL")) return forced',
        'environment("FA_FORCE_KERNEL_")) return forced',
        r"^api\.dispatch",
    ),
    Mutant(
        "max_arch_of_any_device",
        "src/dispatch/table.cpp",
        "i < newest && kernel(i).device == kernel(newest).device",
        "i < newest",
        r"^api\.dispatch",
    ),
]

CPU = [
    Mutant("dlse_of_delta", "src/cpu/backward/head.cpp", "- dlse : dlse;", "+ dlse : dlse;", GRADIENTS),
    Mutant(
        "turns_backwards",
        "src/cpu/backward/head.cpp",
        "for (int64_t turn = 0; turn < all.turns(); turn++)",
        "for (int64_t turn = all.turns() - 1; turn >= 0; turn--)",
        GRADIENTS,
    ),
    Mutant(
        "rows_said_to_be_empty", "src/cpu/backward/head.cpp", "const bool empty = g.lse ==", "const bool empty = false && g.lse ==", GRADIENTS
    ),
    Mutant("cache_rows_added_twice", "src/cpu/backward/head.cpp", "if (!before) f(row);", "f(row);", GRADIENTS),
    Mutant("softcap_of_gradients", "src/cpu/kernel/backward/weigh.h", "if (capped) d = ", "if (false) d = ", GRADIENTS),
    Mutant(
        "masked_gradients", "src/cpu/kernel/backward/weigh.h", "d = Simd::select(masked, Simd::zero(), d);", "", GRADIENTS
    ),
    Mutant("special_keys", "src/cpu/kernel/backward/stage.h", "tile.special = k || v;", "tile.special = false;", GRADIENTS),
    Mutant("sinks_without_dlse", "src/cpu/backward/scores.cpp", "weight * (dlse - delta)", "weight * (0 - delta)", GRADIENTS),
    Mutant(
        "bias_of_one_tile",
        "src/cpu/backward/scores.cpp",
        "if (dimension == 1) return {0, all, step};",
        "if (dimension == 1) return {0, std::min<int64_t>(all, step), step};",
        GRADIENTS,
    ),
    Mutant("added_gradients", "src/cpu/kernel/backward/store.h", "if (!add) return", "if (true) return", GRADIENTS),
    Mutant("no_avx2", "src/cpu/features.cpp", '!__builtin_cpu_supports("avx2")', "true", r"^kernels\.any"),
    Mutant(
        "invariance_of_many_rows", "src/cpu/plan.cpp", "(job.tiles == 1 || a.batch_invariant)", "(job.tiles == 1)", INVARIANT
    ),
    Mutant("invariance_of_decode", "src/cpu/kernel/decode.h", "!a.batch_invariant && a.head_dim", "a.head_dim", INVARIANT),
    Mutant(
        "scheme_of_any_stride",
        "src/cpu/plan.cpp",
        "(scheme.any_stride || unit_stride)",
        "(scheme.any_stride || true)",
        r"^forward\.f32\.generic$",
    ),
    Mutant(
        "splits_backwards",
        "src/cpu/worker.cpp",
        "for (int64_t i = 1; i < job.splits; i++) call_.kernels.merge(tile_, split(0), split(i));",
        "for (int64_t i = job.splits - 1; i > 0; i--) call_.kernels.merge(tile_, split(0), split(i));",
        INVARIANT,
    ),
    Mutant(
        "splits_above_40",
        "src/cpu/worker.cpp",
        "for (int64_t i = 1; i < job.splits; i++) call_",
        "for (int64_t i = 1; i < std::min<int64_t>(job.splits, 40); i++) call_",
        MANY_KEYS,
    ),
    Mutant(
        "keys_above_3072",
        "src/cpu/plan.cpp",
        "job.splits = std::max<int64_t>(ceil_div(keys, split_keys), 1);",
        "job.splits = std::clamp<int64_t>(ceil_div(keys, split_keys), 1, 3);",
        MANY_KEYS,
    ),
    Mutant(
        "split_counter",
        "src/cpu/worker.cpp",
        "done.fetch_add(1, std::memory_order_acq_rel)",
        "done.fetch_add(1, std::memory_order_relaxed)",
        r"^threads\.f32\.(avx2|generic)$",
        "tsan",
    ),
    Mutant("exp2_coefficient", "src/cpu/kernel/vector_math.h", "6.931470036506653e-1f", "6.93150e-1f", "^math"),
    Mutant("tanh_coefficient", "src/cpu/kernel/vector_math.h", "2.05834764e-5f", "2.05e-5f", "^math"),
    Mutant(
        "tanh_end",
        "src/cpu/kernel/vector_math.h",
        "Simd::min(Simd::set1(9.02f), x)",
        "Simd::min(Simd::set1(7.02f), x)",
        "^math",
    ),
    Mutant("exp2_end", "src/cpu/isa/generic.h", "x = max(set1(-127.0f), x);", "x = max(set1(-126.0f), x);", "^math"),
    Mutant(
        "cpus_of_the_machine",
        "src/cpu/pool.cpp",
        "sched_getaffinity(0, sizeof cpus, &cpus) == 0 ? CPU_COUNT(&cpus) : 1",
        "sched_getaffinity(0, sizeof cpus, &cpus) == 0 ? static_cast<int>(std::thread::hardware_concurrency()) : 1",
        "^pool",
    ),
    Mutant("signals_of_the_pool", "src/cpu/pool.cpp", "sigfillset(&all);", "sigemptyset(&all);", "^pool"),
    Mutant("signals_of_the_caller", "src/cpu/pool.cpp", "    pthread_sigmask(SIG_SETMASK, &before, nullptr);\n", "", "^pool"),
    Mutant(
        "round_left_open",
        "src/cpu/pool.cpp",
        "uint64_t now = round_.fetch_and(~open, std::memory_order_acq_rel) & ~open;",
        "uint64_t now = round_.load(std::memory_order_acquire);",
        "^pool",
        "tsan",
    ),
    Mutant("pool_at_unload", "src/cpu/pool.cpp", "  ~AtUnload() { shutdown_pool(); }\n", "  ~AtUnload() {}\n", r"^abi\.unload"),
    Mutant(
        "pool_after_fork",
        "src/cpu/pool.cpp",
        "Pool *parents = the_pool.exchange(nullptr);",
        "Pool *parents = the_pool.load();",
        r"^threads\.f32\.generic$",
    ),
    Mutant(
        "workers_by_items",
        "src/cpu/engine.cpp",
        "std::min(bounds.workers, plan.items())",
        "plan.items()",
        r"^(threads|memory)\.f32\.generic$",
    ),
    Mutant("hosts_pool", "src/cpu/engine.cpp", "attention_.parallel_for != nullptr", "false", r"^threads\.f32\.generic$"),
    Mutant(
        "last_tile_first",
        "src/cpu/worker.cpp",
        "job.tiles - 1 - i / per_tile % job.tiles",
        "job.tiles - 1 - i % job.tiles",
        PROPERTIES,
    ),
    Mutant(
        "counter_of_heads",
        "src/cpu/worker.cpp",
        "job.first_counter + at.head * job.tiles + at.tile",
        "job.first_counter + at.head + at.tile",
        r"^(bitwise|threads|many_keys|forward)\.f32\.generic$",
    ),
    Mutant(
        "partials_of_tiles",
        "src/cpu/worker.cpp",
        "at.head * job.rows + at.tile * job.tile_rows",
        "at.head * job.rows + at.tile",
        r"^(bitwise|threads|many_keys|forward)\.f32\.generic$",
    ),
    Mutant("heads_of_a_page", "src/cpu/sequences.cpp", "p.page_size, s.k_first};", "p.page_size, 0};", r"^forward\.f32\.generic$"),
    Mutant(
        "three_results",
        "src/cpu/plan.cpp",
        "Count(3 * bounds.tile_rows)",
        "Count(2 * bounds.tile_rows)",
        r"^(memory|property|forward)\.f32\.generic$",
    ),
]

REPAIR = [
    Mutant("split_not_mended", "src/cpu/worker.cpp", "if (all_finite(tile_, partial)) return;", "return;", EXTREME),
    Mutant(
        "masked_values_show",
        "src/cpu/repair.cpp",
        "!std::isfinite(value) && attends(tile, row, j)",
        "!std::isfinite(value)",
        EXTREME,
    ),
    Mutant("last_special_value", "src/cpu/repair.cpp", "sum += value;", "sum = value;", EXTREME),
    Mutant("special_unsettled", "src/cpu/repair.cpp", "    if (value != 0) partial.values[i] = value;\n", "", EXTREME),
    Mutant(
        "special_mended_away",
        "src/cpu/repair.cpp",
        "if (special_value(tile, row, d, begin, end) == 0) partial",
        "partial",
        EXTREME,
    ),
    Mutant("special_weighed", "src/cpu/kernel/finish.h", "any_special(to, n) || any_special(from, n)", "false", EXTREME),
    Mutant("special_without_keys", "src/cpu/kernel/finish.h", "values[d] = no_key ? 0 : any", "values[d] = any", EXTREME),
]

EXTREMES = [
    Mutant(
        "weights_by_fma",
        "src/cpu/kernel/prefill.h",
        "Simd::mul(Simd::sub(Simd::load(scores + k * lanes + v * width), maximum[v]), scale));",
        "Simd::fma(Simd::load(scores + k * lanes + v * width), scale, "
        "Simd::mul(Simd::set1(-1), Simd::mul(maximum[v], scale))));",
        EXTREME,
    ),
    Mutant("small_scales_fold", "src/cpu/kernel/scores.h", "scale >= 0x1p-100f &&", "scale > 0 &&", EXTREME),
    Mutant("large_scales_fold", "src/cpu/kernel/scores.h", " && scale <= FLT_MAX / log2_e;", ";", EXTREME),
    Mutant(
        "inverse_of_tiny_softcaps",
        "src/cpu/kernel/scores.h",
        "smaller(1.0f / m.softcap, FLT_MAX)",
        "1.0f / m.softcap",
        EXTREME,
    ),
    Mutant(
        "positions_beyond_32_bits",
        "src/cpu/rows.cpp",
        "row.beyond = static_cast<float>(std::abs(position - near));",
        "row.beyond = 0;",
        EXTREME,
    ),
    Mutant(
        "window_left_of_32_bits",
        "src/cpu/sequences.cpp",
        "position - a.window_left",
        "position - static_cast<int32_t>(a.window_left)",
        EXTREME,
    ),
    Mutant(
        "window_right_of_32_bits",
        "src/cpu/sequences.cpp",
        "position + a.window_right + 1",
        "position + static_cast<int32_t>(a.window_right + 1)",
        EXTREME,
    ),
    Mutant(
        "offsets_of_32_bits",
        "src/cpu/sequences.cpp",
        "const int64_t position = query + offset;",
        "const int64_t position = static_cast<int32_t>(query + offset);",
        EXTREME,
    ),
    Mutant("chunks_below_0", "src/cpu/sequences.cpp", "(position % a.chunk < 0 ? 1 : 0)", "0", EXTREME),
]

TOOL = [
    Mutant(
        "rate_of_the_table",
        "tools/bench_report.cpp",
        "m.flops / middle * 1e-9, m.bytes",
        "m.flops / middle * 1e-6, m.bytes",
        r"^tool\.bench",
    ),
    Mutant(
        "rate_of_the_json",
        "tools/bench_report.cpp",
        '{"gflops", m.flops / middle * 1e-9}',
        '{"gflops", m.flops / middle * 1e-6}',
        r"^tool\.bench",
    ),
    Mutant("rate_of_run", "tools/run.cpp", "flops / middle * 1e-9", "flops / middle * 1e-6", r"^tool\.run$"),
    Mutant(
        "columns_of_rates",
        "tools/bench_report.cpp",
        "m.flops / middle * 1e-9, m.bytes / middle * 1e-9",
        "m.bytes / middle * 1e-9, m.flops / middle * 1e-9",
        r"^tool\.bench",
    ),
    Mutant(
        "columns_of_changes",
        "tools/bench_report.cpp",
        "seconds_text(median(change.base->seconds)), seconds_text(median(change.current->seconds))",
        "seconds_text(median(change.current->seconds)), seconds_text(median(change.base->seconds))",
        r"^tool\.bench",
    ),
    Mutant(
        "names_in_json",
        "tools/bench_report.cpp",
        '{"flops", m.flops},\n          {"bytes", m.bytes}',
        '{"flops", m.bytes},\n          {"bytes", m.flops}',
        r"^tool\.bench",
    ),
    Mutant(
        "ends_in_json",
        "tools/bench_report.cpp",
        "{interval.low, interval.high}",
        "{interval.high, interval.low}",
        r"^tool\.bench",
    ),
    Mutant(
        "work_of_windows",
        "tools/work.cpp",
        "std::max(low, p - desc.window_left)",
        "std::max(low, p - desc.window_right)",
        r"^tool\.(bench|text)",
    ),
    Mutant("bytes_of_values", "tools/work.cpp", "keys * call.heads_kv()", "keys * call.heads()", r"^tool\.(bench|text)"),
]
