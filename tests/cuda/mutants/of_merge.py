"""The mutants of fa_merge's kernel."""

from table import RACE, UNWRITTEN, WRONG, Mutant

MERGE = ("80", "merge", "f32", "576")


def merge(name, old, new, test, expected=r"element \d+ is .*, expected ", types="f32"):
    """A fault of the kernel of merges (tests/engine/merge.cpp)."""
    return Mutant(name, MERGE, "merge/merge/kernel.cu", old, new, expected, test=f"*/Merge.{test}/{types}_sm_80")


MUTANTS = [
    merge("merge_of_masked_rows", "merges(p, row) ? p.num_parts : 1", "p.num_parts", "RowsThatAMask*"),
    merge("merge_of_parts_without_keys", "weight[i] == -infinity ? no_keys : exp2f", "exp2f", "AnyLayout"),
    merge("merge_base", "const float unit = p.base_2 ? 1 : log2_e;", "const float unit = log2_e;", "LogarithmsToBaseTwo"),
    merge("merge_lse_base", "p.base_2 ? log2f(softmax.sum) : logf(softmax.sum)", "logf(softmax.sum)", "LogarithmsToBaseTwo"),
    merge("merge_of_infinite_values", "if (i == c && special != 0)", "if (i == c && special == 1)", "NaNAndInfinity"),
    merge("merge_of_an_infinite_lse", "softmax.wrong |= !(lse < infinity);", "", "NaNAndInfinity"),
    merge("merge_order_of_rows", "Row{batch, outer, n} : Row{batch, n, outer}", "Row{batch, outer, n} : Row{batch, outer, n}", "AnyLayout",
          WRONG + "|kernel: error 700: illegal address"),
    merge("merge_of_the_last_parts", "first + i < p.num_parts ? weight", "first + i + 1 < p.num_parts ? weight", "AnyNumberOfParts"),
    merge("merge_of_further_columns", "column += 4 * count", "column += 8 * count", "AnyHeadDimension", types="f16"),
    merge("merge_before_all_have_loaded", "lse_of(p.part[i], row) : -infinity;\n  __syncwarp();\n", "lse_of(p.part[i], row) : -infinity;\n", "AnyNumberOfParts",
          RACE + "|" + UNWRITTEN),
    merge("merge_weights_before_the_maximum", "(lse < infinity);\n  }\n  __syncwarp();\n", "(lse < infinity);\n  }\n", "AnyNumberOfParts", RACE),
    Mutant("hash_of_merges", MERGE, "common/build.cuh", "FA_CONCATENATE(fa_build_, hash)", "FA_CONCATENATE(fa_build_0, hash)",
           "belongs to another build of libfa: it has no fa_build_", test="*/Merge.InPlace/f32_sm_80"),
]
