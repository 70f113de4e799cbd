"""The mutants of kernels/forward/tcgen05: who waits for whom, tensor memory, and the descriptors of products."""

from dataclasses import replace

from table import WRONG, Mutant, warpgroups

IMAGE = ("100a", "tcgen05", "f16", "64")
RACE = r"error (719: |\()(race|tensor-race|pending-tensor|unwritten-memory|pending-copy|lost-phase)\b"
NUMBER = r"\] is .*, expected -?nan"
ANY = RACE + "|" + WRONG + "|deadlock"  # whichever comes first


def role(name, file, old, new, expected, test="InAWindow", formal=False, image=IMAGE, entry="plain", also=()):
    """In blocks that have several work tiles each, by most tests."""
    test = test if test == "Features" else f"ManyTiles{test}"
    return Mutant(name, image, file, old, new, expected, test=f"Tcgen05.{test}", program="cuda", device="sm_100a:sms=2", formal=formal,
                  entry=entry, also=also)


def of_one_tile(name, file, old, new, expected):
    """A fault of blocks with one query tile and two alternating tiles of scores."""
    return role(name, file, old, new, expected, "Of256Columns", image=("100a", "tcgen05", "bf16", "256"))


def of_features(name, file, old, new):
    return role(name, file, old, new, WRONG, "Features", entry="score_mod")


def for_103(mutant):
    """The code that B300 has alone, in the place of the image that it would otherwise share with B200."""
    return replace(mutant, code="103f", device="sm_103a:sms=2")


def of_bf16(name, old, new, expected, test):
    """A fault of rows whose references follow their sums."""
    return role(name, "forward/tcgen05/softmax.cuh", old, new, expected, test, image=("100a", "tcgen05", "bf16", "64"))


def extreme(name, file, old, new, test, expected=WRONG):
    """A fault that tests/engine/extremes.cpp shows."""
    return Mutant(name, IMAGE, file, old, new, expected, test=f"*/Extremes.{test}/f16_sm_100a", entry="plain")


# Without a fault: other shares of exponentials are polynomials, and products of warpgroups begin in any order.
PRESETS = [
    replace(role(f"preset_{preset}", "", "", "", ""), preset=preset)
    for preset in ("mufu", "fifth", "tenth")
] + [replace(warpgroups("preset_loose", "", "", "", ""), preset="loose")]

CODES = [
    for_103(replace(role(f"code_of_103_{dtype}_{dim}", "", "", "", "", test, image=("100a", "tcgen05", dtype, dim)), entry=""))
    for dtype, dim, test in (("f16", "64", "*"), ("bf16", "128", "*"), ("bf16", "256", "Of256Columns"))
]

ROLES = [
    role("place_of_a_block", "forward/tcgen05/producer.cuh", "    if (this->is_leader()) state_.work_indices[number] = index;\n", "", r"unwritten-memory|" + ANY, "WithoutNumbers"),
    role("wait_for_an_answer", "forward/tcgen05/producer.cuh", "    answers_.wait(state_.answered, 0);\n", "", ANY),
    role("fence_of_an_answer", "forward/tcgen05/producer.cuh", "    fence_proxy_async();\n    __syncwarp();\n    return index;", "    __syncwarp();\n    return index;", r"reader-fence|proxy-fence|race", formal=True),
    role("work_of_a_block_that_is_taken_over", "forward/tcgen05/producer.cuh", "quotient(index, p_.by_num_splits)", "quotient(blockIdx.x, p_.by_num_splits)", WRONG),
    role("correction_behind_its_arrival", "forward/tcgen05/correction.cuh",
         "        if (iteration > 0) scale(t);\n        tcgen05_fence_before_thread_sync();\n        arrive_as_warp(state_.p_full[scores_of<B>(t, iteration)]);\n",
         "        tcgen05_fence_before_thread_sync();\n        arrive_as_warp(state_.p_full[scores_of<B>(t, iteration)]);\n        if (iteration > 0) scale(t);\n", ANY),
    role("correction_under_way", "forward/tcgen05/correction.cuh", "    phases_.wait(state_.o_full[t], sums + t);\n    if (!__any", "    if (!__any", ANY),
    role("wait_for_weights", "forward/tcgen05/softmax.cuh", "    tcgen05_wait_st();\n    tcgen05_fence", "    tcgen05_fence", RACE),
    role("wait_for_corrected_sums", "forward/tcgen05/correction.cuh", "    tcgen05_wait_st();\n", "", RACE),
    role("fence_before_products", "forward/tcgen05/softmax.cuh", "    tcgen05_fence_before_thread_sync();\n", "", r"tensor-fence", formal=True),
    role("fence_behind_weights", "forward/tcgen05/products.cuh", "from);\n    tcgen05_fence_after_thread_sync();\n", "from);\n", r"tensor-fence", formal=True),
    role("wait_for_the_rest", "forward/tcgen05/products.cuh", "        rest_.wait(state_.p_rest[from], from);\n", "", RACE),
    role("fence_behind_the_rest", "forward/tcgen05/products.cuh", "        tcgen05_fence_after_thread_sync();\n", "", r"tensor-fence", formal=True),
    role("rest_with_the_first_weights", "forward/tcgen05/products.cuh", "i == B::early_keys / 16", "i == B::keys / 16 - 1", RACE),
    role("rest_of_the_other_tile", "forward/tcgen05/softmax.cuh", "state_.p_rest : state_.p_full) + 8 * at", "state_.p_rest : state_.p_full) + 8 * (1 - 2 * t_)", ANY),
    role("correction_with_the_rest", "forward/tcgen05/correction.cuh", "arrive_as_warp(state_.p_full[", "arrive_as_warp(state_.p_rest[", ANY,
         also=(("forward/tcgen05/block.cuh", "state->p_full[i]), softmax + correction)", "state->p_full[i]), softmax)"),
               ("forward/tcgen05/block.cuh", "state->p_rest[i]), softmax)", "state->p_rest[i]), softmax + correction)"))),
    role("wait_for_scores_in_registers", "common/tensor_memory.cuh",
         "  asm volatile(\"tcgen05.wait::ld.sync.aligned;\" ::: \"memory\");\n", "", r"unwaited-load|" + RACE, formal=True),
    role("commit_of_the_other_tile", "forward/tcgen05/products.cuh", "tcgen05_commit(shared_address(&state_.s_full[to]));",
         "tcgen05_commit(shared_address(&state_.s_full[1 - to]));", ANY),
    role("steps_of_a_descriptor", "common/tcgen05.cuh", "k % steps * 2", "k % steps", WRONG),
    of_one_tile("panels_of_a_descriptor", "common/tcgen05.cuh", "k / steps * panel + k % steps * 2", "k % steps * 2", WRONG),
    role("rows_of_a_descriptor", "common/tcgen05.cuh", "k * Tile::row_bytes", "k * Tile::row_bytes / 2", WRONG),
    role("transposed_values", "common/tcgen05.cuh", "uint32_t{Transposed} << 16", "0", ANY + r"|illegal address"),
    role("memory_not_given_back", "forward/tcgen05/kernel.cu",
         "  if (warp_of_block() == B::product_warp) tcgen05_dealloc<tensor_columns>(shared.state->tensor_memory);\n", "",
         r"tensor-not-freed"),
    role("memory_given_back_early", "forward/tcgen05/kernel.cu", "  work<B>(warp, p, maps, shared);\n",
         "  if (warp == B::product_warp) tcgen05_dealloc<tensor_columns>(0);\n  work<B>(warp, p, maps, shared);\n",
         r"error 7\d\d: .*tensor memory"),
    role("weights_of_the_other_tile", "forward/tcgen05/block.cuh", "B::Weights weights(int i) { return {uint32_t(i * B::keys)}; }",
         "B::Weights weights(int i) { return {uint32_t((1 - i) * B::keys)}; }", ANY),
    role("parity_of_free_places", "forward/tcgen05/softmax.cuh", "1u << scales | 1u << final_stats", "1u << scales", "deadlock"),
    role("keys_released_before_products", "forward/tcgen05/products.cuh", "    unroll<B::dim / 16>(",
         "    if (releases_keys) mbarrier_arrive(shared_address(state_.k_empty + keys_.stage));\n    unroll<B::dim / 16>(",
         ANY + r"|arrivals at an mbarrier", "OfTwoTiles"),
    role("stage_that_is_not_free", "collective/tma_producer.cuh", "    mbarrier_wait(shared_address(empty + at.stage), at.parity ^ 1);\n", "",
         ANY + r"|arrivals at an mbarrier", "OfTwoTiles"),
    role("values_released_by_products_alone", "forward/tcgen05/correction.cuh", "      arrive_as_warp(state_.v_empty[at_values_.stage]);\n", "",
         "deadlock"),
    role("scales_replaced_unread", "forward/tcgen05/softmax.cuh", "      phases_.wait(barrier(state_.scales_empty), scales);\n", "", RACE),
    role("fence_of_values_behind_the_end", "forward/tcgen05/correction.cuh", "{});\n    fence_proxy_async();\n", "{});\n",
         r"proxy-fence"),
    role("rows_not_repeated", "forward/tcgen05/correction.cuh", " && lane() == 0)\n        state_.fixup_bitmap.set(p_, item.number);", " && lane() == 0) {}",
         r"is -?nan, expected", "OfTwoTiles"),
    role("reference_of_nobody", "forward/tcgen05/softmax.cuh", "st_shared_f32(scale_, a)", "st_shared_f32(scale_, 1)", WRONG, "OfTwoTiles"),
    role("powers_of_polynomials", "common/packed.cuh", "{times_power(p.x, rounded.x), times_power(p.y, rounded.y)}",
         "{times_power(p.x, rounded.y), times_power(p.y, rounded.x)}", WRONG),
    role("range_of_polynomials", "common/packed.cuh", "fma.rn.sat.f32", "fma.rn.f32", WRONG),
    role("maximum_without_nan", "common/packed.cuh", "max.NaN.f32", "max.f32", NUMBER, "WithoutNumbers"),
    for_103(role("columns_of_a_load", "forward/tcgen05/softmax.cuh", "largest + i, s + chunk * i)", "largest + i, s)", WRONG)),
    of_bf16("polynomials_without_numbers", "softmax.check_range(largest_of_polynomials(x));", "{}", NUMBER, "WithoutNumbersInBf16"),
    of_bf16("reference_of_a_sum", "    row.l *= a;\n    return a;\n  }\n\n  /// Replaces", "    return a;\n  }\n\n  /// Replaces", WRONG, "OfRisingScores"),
    of_bf16("sum_of_rounded_weights", "if (large) softmax.round_sum(sum, rounded);", "", WRONG, "OfRisingScores"),
    of_bf16("reference_of_rounded_weights", "    set_reference(row.neg_max + __log2f(__fdividef(after, before)));\n", "", r"lse\[.*\] is .*, expected ", "OfRisingScores"),
    of_bf16("sum_of_a_scale", "      a = softmax.rescale_by_sum();\n", "      softmax.rescale_by_sum(), a = 1;\n", WRONG, "OfRisingScores"),
    role("first_whole_tile", "forward/tcgen05/softmax.cuh", "(max_over_warp(keys.low) + B::keys - 1) / B::keys", "max_over_warp(keys.low) / B::keys", WRONG),
    role("last_whole_tile", "forward/tcgen05/softmax.cuh", "min_over_warp(keys.high) / B::keys", "(min_over_warp(keys.high) + B::keys - 1) / B::keys", WRONG),
    role("sum_of_an_infinite_score", "forward/tcgen05/softmax.cuh", "    if (!is_finite(t)) row.l = nan_value();\n", "", NUMBER, "WithoutNumbers"),
    of_one_tile("scores_of_the_turn_before", "forward/tcgen05/block.cuh", "return B::queries == 2 ? t : iteration % 2;", "return t;", ANY),
    of_one_tile("scores_behind_the_sums", "forward/tcgen05/products.cuh", "multiply_keys(t, iteration + 1, last, iteration == iterations - 2);\n        multiply_values",
                "multiply_keys(t, iteration, last, iteration == iterations - 2);\n        multiply_values", ANY),
    role("sums_of_both_tiles", "forward/tcgen05/block.cuh", "of_scores + t * B::dim_v)", "of_scores + t * B::dim_v / 2)", ANY, "OfNarrowValues",
         image=("100a", "tcgen05", "bf16", "192"), entry="narrow"),
    role("scale_of_another_row", "forward/tcgen05/softmax.cuh", "st_shared_f32(scale_, a)",
         "st_shared_f32(scale_, __int_as_float(max_over_warp(__float_as_int(a))))", WRONG, "OfTwoTiles"),
    extreme("sums_of_inexact_rows", "forward/tcgen05/softmax.cuh", "row.l *= invalid ? nan_value() : a;", "row.l *= a;", "OneScoreOfZeroAboveAllOthers"),
    extreme("exact_rows_as_others", "forward/tcgen05/softmax.cuh", "exact = is_fixup && needs_exact_;", "exact = false;", "TiesShareEvenly"),
    extreme("far_rows_forgotten", "forward/tcgen05/softmax.cuh", "    needs_exact_ = needs_exact_weights(keys, softmax.row);\n", "", "TiesShareEvenly"),
    extreme("unit_of_exact_rows", "forward/tcgen05/store.cuh", "exact ? unit<B>(p) : ln_2", "ln_2", "OneKeyAboveAllOthers", r"difference between s\.lse"),
    role("fence_before_corrected_sums", "forward/tcgen05/correction.cuh",
         "        tcgen05_fence_before_thread_sync();\n", "", r"tensor-fence", formal=True),
    role("fence_behind_products", "forward/tcgen05/correction.cuh", "return;\n    tcgen05_fence_after_thread_sync();\n", "return;\n", r"tensor-fence", formal=True),
    role("fence_behind_the_last_product", "forward/tcgen05/correction.cuh", "        tcgen05_fence_after_thread_sync();\n", "", r"tensor-fence", formal=True),
    role("sums_of_the_other_tile", "forward/tcgen05/products.cuh", "&state_.o_full[t]", "&state_.o_full[1 - t]", ANY),
    role("queries_released_before_products", "forward/tcgen05/products.cuh", "if (releases_queries) tcgen05_commit(", "if (releases_queries) mbarrier_arrive(", ANY),
    role("columns_of_a_product", "common/tcgen05.cuh", "/ 8 << 17", "/ 16 << 17", ANY),
    role("type_of_a_product", "common/tcgen05.cuh",
         "KindF16<__half> {\n  static constexpr uint32_t type = 0;", "KindF16<__half> {\n  static constexpr uint32_t type = 1;", WRONG),
    of_features("steepness_of_a_cap", "collective/deferred_score_mod.cuh", "(2 * log2_e)", "log2_e"),
    of_features("slope_of_another_head", "forward/tcgen05/score_mod.cuh", "w.sequence, at.head)", "w.sequence, 0)"),
]
