"""The mutants of kernels/backward/wgmma, seen by tests/engine/checked_backward.cpp."""

from table import RACE, STALE, UNWRITTEN, WRONG, Mutant

FOLDER = "backward/wgmma/"
NAN = r"is -?nan, expected"
REACHED = r"inputs of NaN or infinity reach it"
UNREAD = r"unwritten-memory: asynchronously reads shared memory"  # by products


def fixed_order(name, file, old, new, expected=WRONG, dim="64", test="GradientsInOrder", dtype="bf16"):
    path = file if "/" in file else file and FOLDER + file
    return Mutant(name, ("90a", "backward_wgmma", dtype, dim), path, old, new, expected,
                  test=f"*/CheckedGradients.{test}Dim{dim}/{dtype}_sm_90a")  # fmt: skip


def any_order(name, file, old, new, expected=WRONG, dim="64"):
    return fixed_order(name, file, old, new, expected, dim, "GradientsAnyOrder")


def of_f16(name, file, old, new, expected=WRONG):
    return fixed_order(name, file, old, new, expected, "96", "GradientsAnyOrder", "f16")


WARPGROUP_GRADIENTS = [
    fixed_order("clean_gradients_of_warpgroups", "", "", "", ""),
    fixed_order("barrier_of_ds", "consumer.cuh", "    else\n      sync_consumers();\n", "", RACE + "|" + STALE + "|" + UNWRITTEN),
    fixed_order("ds_of_the_other_warpgroup", "consumer.cuh", "      mbarrier_wait(shared_address(&state_.ds_full[(n_ + 1) % 2]), (n_ - 1) / 2 % 2);\n", "      ;\n", RACE + "|" + STALE + "|" + UNWRITTEN, dim="128"),
    fixed_order("room_for_ds", "consumer.cuh", "if constexpr (late_dq) mbarrier_wait(shared_address(&state_.empty[(n_ - 1) % B::stages]), (n_ - 1) / B::stages % 2);", "", RACE + "|" + STALE, dim="128"),
    fixed_order("fence_of_ds", "consumer.cuh", "    fence_proxy_async();\n    if constexpr (late_dq) {", "    if constexpr (late_dq) {", r"error \(proxy-fence\)"),
    fixed_order("ds_of_this_step", "consumer.cuh", "ds_of((n_ + 1) % 2)", "ds_of(n_ % 2)", UNREAD),
    fixed_order("room_for_dq", "consumer.cuh", "    mbarrier_wait(shared_address(&state_.dq_empty), n % 2 ^ 1);\n", "", RACE + "|" + STALE),
    fixed_order("dq_still_read", "producer.cuh", "    cp_async_bulk_wait_group_read();\n", "", RACE + "|" + STALE),
    fixed_order("queries_of_a_warpgroup", "consumer.cuh", "ds.from(0, group_), keys_", "ds.from(0, 0), keys_"),
    fixed_order("columns_of_a_warpgroup", "consumer.cuh", "group_ * (B::dq_columns / B::OwnTile::panel_columns)", "0", dim="128"),
    fixed_order("columns_that_nobody_has", "consumer.cuh", "constexpr int half = B::dq_twice / 2 / block_columns;", "constexpr int half = B::dq_twice / block_columns;", r"unwritten-memory: asynchronously reads shared memory", dim="96"),
    any_order("columns_of_careful_dq", "consumer.cuh", "B::dq_columns / 8 * group_", "0", dim="96"),
    any_order("rows_of_a_mask", "scores.cuh", "keys.holds(key + 8 * r)", "keys.holds(key)"),
    any_order("queries_of_a_key", "scores.cuh", "first[r] = queries.low - column", "first[r] = queries.low + 1 - column"),
    any_order("products_that_are_not_finite", "consumer.cuh", "pairs == Pairs::masked && has_finite_products(x)", "pairs == Pairs::masked", NAN),
    any_order("statistics_that_are_not_finite", "scores.cuh", "return any_row(is_odd) ? Pairs::careful : Pairs::masked;", "return Pairs::masked;", NAN),
    any_order("statistics_of_the_caller", "scores.cuh", "uneven || p_.given_delta.data != nullptr", "uneven", NAN),
    any_order("queries_that_are_not_finite", "consumer.cuh", "    if (any_odd) repair(x, y);\n", "", NAN),
    any_order("keys_that_are_not_finite", "collective/dq_chunk.cuh", "b[n] = finite_halves(b[n], B::exponents);", "", NAN),
    any_order("first_dq", "scores.cuh", "uint32_t n_ = no_dq;", "uint32_t n_ = 0;", "deadlock|" + WRONG + "|" + RACE),
    fixed_order("stage_still_read", "consumer.cuh", "    wgmma_wait_group<0>();\n    pin(sum.dv);\n", "    wgmma_wait_group<1>();\n    pin(sum.dv);\n", RACE + "|" + STALE + "|in flight|while"),
    fixed_order("distance_of_a_row", "scores.cuh", "return 8 * j + e % 2 - e / 2 * 8;", "return 8 * j + e % 2;", test="GradientsAlibi"),
    fixed_order("slope_of_a_step", "scores.cuh", "state_.work.kv_head * state_.group + tile.head);", "state_.work.kv_head * state_.group);", test="GradientsAlibi"),
    fixed_order("distance_of_the_last_queries", "scores.cuh", "query + state_.sequence.offset - key", "query - key", test="GradientsAlibi"),
    fixed_order("derivative_of_capped_products", "collective/gradient_score_mod.cuh", "return 4 * t * (1 - t);", "return 1;", dim="128", test="GradientsSoftcap"),
    fixed_order("slope_under_a_cap", "scores.cuh", "ex2_approx_ftz(alibi.add(score, distance_of(j, e)))", "ex2_approx_ftz(score)", dim="128", test="GradientsSoftcapAlibi"),
    fixed_order("cap_of_the_next_loop", "consumer.cuh", "if (caps && mod == ScoreMod::softcap)", "if (false)", dim="128", test="GradientsSoftcap"),
    fixed_order("capped_queries_that_are_not_finite", "consumer.cuh", "      if (any_odd) clear_nonfinite_queries();\n", "", NAN, dim="128", test="GradientsSoftcap"),
    fixed_order("infinite_products_of_a_cap", "scores.cuh", "if (Carefully) number = fmaf(number, 0.f, number);", "", REACHED, dim="128", test="GradientsSoftcap"),
    fixed_order("capped_weights_that_are_not_finite", "scores.cuh", "repaired = odd ? ~0u : 0;", "repaired = 0;", REACHED, dim="128", test="GradientsSoftcap"),
    any_order("twice_of_halves", "consumer.cuh", "return Factors<B>().inverse(r);", "return 1;"),
    of_f16("clean_gradients_of_factors", "", "", "", ""),
    of_f16("scales_of_warps_differ", "consumer.cuh", "      if (one) return;\n", "      return;\n"),
    of_f16("moved_factors_are_lost", "consumer.cuh", "if (of_rows.fit(top, sum)) factors(which) = of_rows;", "of_rows.fit(top, sum);"),
    of_f16("queries_of_warpgroups_without_factors", "scores.cuh", "any = __any_sync(~0u, any);", "any = false;"),
    of_f16("scale_of_a_released_stage", "consumer.cuh", "      unscale(dq, n_ - 1);\n    }\n    release_stage();\n", "    }\n    release_stage();\n    if constexpr (late_dq) unscale(dq, n_ - 1);\n", RACE),
    of_f16("ds_that_is_still_read", "consumer.cuh", "if (B::scales && has_dq()) unify_ds", "if (B::scales) unify_ds", RACE),
    of_f16("barrier_of_rescaled_ds", "consumer.cuh", "      fence_proxy_async();\n      sync_consumers();\n    }\n  }", "      fence_proxy_async();\n    }\n  }", RACE + "|" + STALE + "|proxy"),
]  # fmt: skip
