"""The mutants of fa_append's kernels."""

from table import Mutant

APPEND = ("80", "append", "f32", "576")
APPEND_QUANTISED = ("80", "append_quantised", "f32", "576")


def append(name, file, old, new, test, types="f32"):
    """A fault of the kernel of appends (tests/engine/append.cpp)."""
    expected = r"byte \d+(: is|: has the bits| has the bits| of \d+ was written)|error 700: illegal address|race: writes global memory"
    return Mutant(name, APPEND, f"append/append/{file}", old, new, expected, test=f"*/Append.{test}/{types}_sm_80")


def codes(name, file, old, new, test, types="f32"):
    """A fault of the kernel of appends to quantised caches (tests/engine/append_quantised.cpp)."""
    expected = r"byte \d+|code \d+ is|scale|error 700: illegal address|race: writes global memory|AppendQuantised"
    return Mutant(name, APPEND_QUANTISED, f"append/append_quantised/{file}", old, new, expected,
                  test=f"*/AppendQuantised.{test}/{types}_sm_80")


def rotated(name, old, new, test="RowsOfAnyLength"):
    """A fault of the rotation by the same kernel."""
    return Mutant(name, APPEND_QUANTISED, "append/append_quantised/row.cuh", old, new, r"expected|byte \d+|lane-race|ILLEGAL_ADDRESS",
                  test=f"*/Rotated*.{test}/f16_sm_80", program="rotated")


MUTANTS = [
    append("append_skipped_tokens", "token.cuh", "if (slot < 0) return {0, -1};", "", "EachPlace"),
    append("append_first_sequence", "token.cuh", "cumulative[middle] <= row", "cumulative[middle] < row", "EachPlace"),
    append("append_unused_tokens", "token.cuh", "token.number < (as_new ? token.sequence.count : rows)", "token.number < rows", "EachPlace"),
    append("append_wide_slots", "token.cuh", "index_of(p.slot_mapping, p.slots_wide, token)", "index_of(p.slot_mapping, 0, token)", "EachPlace"),
    append("append_positions_of_q", "token.cuh", "if (of_q && p.q_positions", "if (!of_q && p.q_positions", "EachRotation"),
    append("append_sine", "rows.cuh", "y = before * sin + y * cos;", "y = y * sin + before * cos;", "EachRotation"),
    append("append_neighbours", "rows.cuh", "cos.x[4 + i], sin.x[4 + i]", "cos.x[i], sin.x[i]", "EachRotation"),
    append("append_columns_without_pairs", "rows.cuh", "before < s.first ? before : before + 2 * s.pairs", "before", "EachRotation"),
    append("append_bits_of_nan", "rows.cuh", "if constexpr (from_type() == to_type()) {", "if constexpr (false) {", "SpecialNumbers", "f16"),
    append("append_rows_past_the_last", "items.cuh", "    if (tile.first_token + token >= tile.tokens) break;\n", "", "EachPlace"),
    append("append_heads", "items.cuh", "int32_t(below - token * s.heads)", "int32_t(below)", "EachPlace"),
    rotated("rotated_differences", "__fsub_rn(a, b);", "__fsub_rn(b, a);"),
    rotated("rotated_factor", "x[i] = __fmul_rn(x[i], c.factor);", "x[i] = x[i];"),
    rotated("rotated_without_waiting", "    __syncwarp();\n    for (int pair", "    for (int pair"),
    rotated("rotated_queries_whole", "2 * pair < c.rotated", "2 * pair < c.dim", "KeysInTwoParts"),
    codes("codes_past_the_last", "kernel.cu", "n < tile.tokens", "true", "EachCacheAtEachPlace"),
    codes("codes_of_signed_maxima", "row.cuh", "magnitude = max(magnitude, uint32_t(bits) & 0x7fffffff)",
          "magnitude = max(magnitude, uint32_t(max(bits, 0)))", "EachCacheAtEachPlace"),
    codes("codes_of_one_lane", "row.cuh", "range.join(c.group_lanes);", "", "EachCacheAtEachPlace"),
    codes("codes_of_the_first_group", "row.cuh", "row.scales(c)[quotient(d, c.by_scale_channels)]", "row.scales(c)[0]",
          "EachCacheAtEachPlace"),
    codes("codes_without_zeros", "row.cuh", "__fadd_rn(__fdiv_rn(x.x[i], factor.scale), factor.zero)", "__fdiv_rn(x.x[i], factor.scale)",
          "EachCacheAtEachPlace"),
    codes("codes_of_unrounded_scales", "row.cuh", "  scale = rounded_to(c.scale.dtype, scale);\n", "", "EachCacheAtEachPlace"),
    codes("codes_truncated", "encode.cuh", "__float2int_rn(x)", "__float2int_rz(x)", "EachCacheAtEachPlace"),
    codes("codes_that_wrap", "encode.cuh", "min(max(__float2int_rn(x), Low), High)", "__float2int_rn(x)", "SpecialNumbers"),
    codes("codes_of_swapped_halves", "row.cuh", "words[i * Codes::bits / 32] |= code << i * Codes::bits % 32",
          "words[i * Codes::bits / 32] |= code << (Codes::bits == 4 ? i ^ 1 : i) * Codes::bits % 32", "EachCacheAtEachPlace"),
    codes("codes_of_the_later_maximum", "row.cuh", "(its == own && (lane & d) != 0)", "(its == own && (lane & d) == 0)",
          "LargestNumbersOfBothSigns"),
    codes("codes_of_nan_scales", "row.cuh", "factor.usable() ? Codes::code(number) : 0", "Codes::code(number)", "SpecialNumbers"),
    Mutant("hash_of_appends", APPEND, "common/build.cuh", "FA_CONCATENATE(fa_build_, hash)", "FA_CONCATENATE(fa_build_0, hash)",
           "belongs to another build of libfa: it has no fa_build_", test="*/Append.EachPlace/f32_sm_80"),
]
