"""Faults of fa_merge."""

from mutant import Mutant

MERGE = r"^merge(d_forward)?\.f32\.(avx2|generic)$"

MUTANTS = [
    Mutant("merge_into_other_strides", "src/api/overlap.cpp", " && std::ranges::equal(a.stride, b.stride)", "", "^api.merge"),
    Mutant("merge_into_another_type", "src/api/overlap.cpp", " && a.dtype == b.dtype", "", "^api.merge"),
    Mutant("merge_into_any_part", "src/api/overlap.cpp", "return part == 0 && same_view", "return same_view", "^api.merge"),
    Mutant("merge_into_the_array", "src/api/overlap.cpp", "if (part == 0) add_plain(field.array", "if (false) add_plain(field.array", "^api.merge"),
    Mutant("merge_of_other_shapes", "src/api/merge_args.cpp", "exactly(n[1], \"as out\"), exactly(n[2]", "any(\"rows\"), exactly(n[2]", "^api.merge"),
    Mutant("merge_of_masked_rows", "src/cpu/kernel/merge_parts.h", "for (int p = 1; p < call.num_parts && *call.mask", "for (int p = 2; p < call.num_parts && *call.mask", MERGE),
    Mutant("merge_of_parts_without_keys", "src/cpu/kernel/merge_parts.h", "if (block.lse[p][lane] == -infinity) continue;\n      part[", "part[", MERGE),
    Mutant("merge_without_maximum", "src/cpu/kernel/merge_parts.h", "Simd::sub(Simd::load(block.lse[p]), finite)", "Simd::load(block.lse[p])", MERGE),
    Mutant("merge_base", "src/cpu/kernel/merge_parts.h", "call.base_2 ? 1.0f : log2_e", "log2_e", MERGE),
    Mutant("merge_of_nan", "src/cpu/kernel/merge_parts.h", "Simd::select(Simd::equal(sum, sum), merged, sum)", "merged", MERGE),
    Mutant("merge_of_infinite_values", "src/cpu/kernel/merge_parts.h", "if (special != 0) values", "if (false) values", MERGE),
    Mutant("merge_of_unlike_parts", "src/cpu/kernel/merge_parts.h", "alike = alike && is_alike", "alike = alike || is_alike", r"^merge\.(f16|mixed)\.(avx2|generic)$"),
    Mutant("merge_rows_of_a_batch", "src/cpu/merge.h", "outer_index_ = first / inner_ % outer_;", "outer_index_ = 0;", MERGE),
    Mutant("merge_rows_of_the_last_item", "src/cpu/merge.cpp", "std::min(first + shared.rows_at_a_time, shared.rows)", "first + shared.rows_at_a_time", MERGE),
]
