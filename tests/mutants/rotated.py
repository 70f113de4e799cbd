"""Faults of keys and values that a Hadamard matrix rotates."""

from mutant import Mutant

ARGUMENTS = r"^api\.rotated"
ENGINE = r"^rotated(_codes)?\.f32\.(avx2|generic)$"

ROTATED = [
    Mutant("rotated_rows_of_keys", "src/api/desc.cpp", "block_of(a->head_dim_k())", "block_of(a->head_dim)", ENGINE),
    Mutant("rotated_rows_of_values", "src/api/desc.cpp", "block_of(a->head_dim_v)", "block_of(a->head_dim)", ENGINE),
    Mutant(
        "values_within_a_rotated_block",
        "src/api/args.cpp",
        "(a.hadamard_k == a.hadamard_v && begin % a.hadamard_k == 0)",
        "a.hadamard_k == a.hadamard_v",
        ARGUMENTS,
    ),
    Mutant(
        "values_within_packed_keys",
        "src/api/args.cpp",
        "(k.stride[3] != 0 ? 1 : unit.elements)",
        "1",
        ARGUMENTS,
    ),
    Mutant(
        "keys_that_hold_unrotated_values",
        "src/api/append_args.cpp",
        "a.hadamard_v == 1 || a.hadamard_v == a.hadamard_k)",
        "a.hadamard_v == 1 || a.hadamard_k > 1)",
        ARGUMENTS,
    ),
    Mutant("rotated_gradients", "src/api/backward_args.cpp", "if (a.rotates_cache())", "if (a.hadamard_k > 1)", ARGUMENTS),
    Mutant(
        "rotation_of_lanes",
        "src/cpu/kernel/hadamard.h",
        "!= 0 ? -1.0F : 1.0F)",
        "!= 0 ? 1.0F : -1.0F)",
        ENGINE,
    ),
    Mutant(
        "rotation_of_vectors",
        "src/cpu/kernel/hadamard.h",
        "Simd::store(x + apart, Simd::sub(a, b));",
        "Simd::store(x + apart, Simd::sub(b, a));",
        ENGINE,
    ),
    Mutant("rotation_of_small_blocks", "src/cpu/kernel/hadamard.h", "if (apart < n) return", "return", ENGINE),
    Mutant(
        "rotation_of_a_rest",
        "src/cpu/kernel/hadamard.h",
        "x[i] = a + b, x[i + apart] = a - b;",
        "x[i] = a - b, x[i + apart] = a + b;",
        ENGINE,
    ),
    Mutant(
        "rotation_of_another_length",
        "src/cpu/kernel/hadamard.h",
        "1 / __builtin_sqrt(static_cast<double>(n))",
        "1 / static_cast<double>(n)",
        ENGINE,
    ),
    Mutant(
        "queries_in_place_are_not_rotated",
        "src/cpu/kernel/columns.h",
        "dim % width == 0 && a.hadamard_k == 1;",
        "dim % width == 0;",
        ENGINE,
    ),
    Mutant(
        "queries_are_not_rotated",
        "src/cpu/kernel/hadamard.h",
        "if (a.hadamard_k > 1) hadamard(to",
        "if (false) hadamard(to",
        ENGINE,
    ),
    Mutant(
        "results_are_not_rotated_back",
        "src/cpu/kernel/prefill.h",
        "dtype_bytes(a.out_dtype) || a.hadamard_v > 1)",
        "dtype_bytes(a.out_dtype))",
        ENGINE,
    ),
    Mutant(
        "rotated_results_are_not_divided",
        "src/cpu/kernel/finish.h",
        "a.head_dim_v, a.hadamard_v, factor);",
        "a.head_dim_v, a.hadamard_v);",
        ENGINE,
    ),
    Mutant(
        "new_values_as_keys",
        "src/cpu/append.cpp",
        "0, call_.attention->hadamard_v}",
        "0, call_.attention->hadamard_k}",
        ENGINE,
    ),
    Mutant(
        "new_numbers_are_not_rotated",
        "src/cpu/append.cpp",
        "if (block > 1) return write_rotated",
        "if (false) return write_rotated",
        ENGINE,
    ),
    Mutant(
        "new_codes_are_not_rotated",
        "src/cpu/kernel/quantise.h",
        "rotation.pairs > 0 || rotation.hadamard > 1;",
        "rotation.pairs > 0;",
        ENGINE,
    ),
]
