"""The mutants of kernels/backward/tcgen05, seen by tests/engine/checked_backward.cpp."""

from table import RACE, STALE, WRONG, Mutant

FOLDER = "backward/tcgen05/"
NAN = r"is -?nan, expected"
REACHED = r"inputs of NaN or infinity reach it"
ANY = WRONG + r"|kernel: error 719: |error \([a-z-]+\): |deadlock"  # a race of products, whichever check sees it first


def fixed_order(name, file, old, new, expected=WRONG, dim="64", formal=False, test="GradientsInOrder"):
    path = file if "/" in file else file and FOLDER + file
    return Mutant(name, ("100a", "backward_tcgen05", "bf16", dim), path, old, new, expected, formal=formal,
                  test=f"*/CheckedGradients.{test}Dim{dim}/bf16_sm_100a")  # fmt: skip


def any_order(name, file, old, new, expected=WRONG, dim="64"):
    return fixed_order(name, file, old, new, expected, dim, test="GradientsAnyOrder")


TENSOR_MEMORY_GRADIENTS = [
    fixed_order("clean_gradients_of_tensor_memory", "", "", "", ""),
    fixed_order("clean_wide_gradients_of_tensor_memory", "", "", "", "", dim="128"),
    fixed_order("dp_before_dq_is_drained", "products.cuh", "    wait(state_.dq_empty, n ^ 1);\n", "", ANY, dim="128"),
    fixed_order("dq_before_ds", "products.cuh", "      wait(state_.ds_full, n);\n", "", ANY),
    fixed_order("dv_before_weights", "products.cuh", "    wait(state_.p_full, n);\n", "", ANY),
    fixed_order("scores_before_dv", "products.cuh", "      add_dv(n);\n", "      if (n + 1 < steps) multiply_keys(n + 1);\n      add_dv(n);\n", ANY),
    fixed_order("fence_of_ds_for_products", "scores.cuh", "    tcgen05_wait_st();\n    fence_proxy_async();\n    tcgen05_fence_before_thread_sync();\n    arrive_as_warp(state_.ds_full);",
              "    tcgen05_wait_st();\n    tcgen05_fence_before_thread_sync();\n    arrive_as_warp(state_.ds_full);", r"error \(proxy-fence\)"),
    fixed_order("stores_of_ds", "scores.cuh", "    tcgen05_wait_st();\n    fence_proxy_async();\n    tcgen05_fence_before_thread_sync();\n    arrive_as_warp(state_.ds_full);",
              "    fence_proxy_async();\n    tcgen05_fence_before_thread_sync();\n    arrive_as_warp(state_.ds_full);", ANY),
    fixed_order("fence_behind_ds", "products.cuh", "      wait(state_.ds_full, n);\n      tcgen05_fence_after_thread_sync();\n", "      wait(state_.ds_full, n);\n", r"tensor-fence", formal=True),
    fixed_order("queries_released_before_dk", "products.cuh", "      add_dk(n);\n      release(state_.q_empty[n % B::stages]);", "      release(state_.q_empty[n % B::stages]);\n      add_dk(n);", ANY),
    fixed_order("transposed_ds", "products.cuh", "to_sums | transposed_a", "to_sums"),
    fixed_order("half_of_the_weights", "block.cuh", "k / 4 * 64 + k % 4 * 8", "k * 8"),
    fixed_order("first_dk", "products.cuh", "add_weighted(Columns<B>::dk, Columns<B>::dp, shared_.q(n % B::stages), n > 0);", "add_weighted(Columns<B>::dk, Columns<B>::dp, shared_.q(n % B::stages), true);", ANY),
    fixed_order("dq_given_back_early", "dq_reduce.cuh", "      tcgen05_wait_ld(x[0], x[1]);\n", "", ANY),
    fixed_order("chunks_still_read", "dq_reduce.cuh", "        cp_async_bulk_wait_group_read();\n", "", RACE + "|" + STALE, dim="128"),
    fixed_order("fence_of_chunks", "dq_reduce.cuh", "        fence_proxy_async();\n", "", r"error \(proxy-fence\)"),
    fixed_order("slots_taken_before_they_are_free", "dq_reduce.cuh", "        wait(state_.slots_empty, n * halves + half + 1);\n", "", ANY, dim="128"),
    fixed_order("chunks_before_they_are_there", "dq_reduce.cuh", "        wait(state_.slots_full, n * halves + half);\n", "", ANY),
    fixed_order("columns_of_a_chunk_of_dq", "dq_reduce.cuh", "64 * half * block_rows", "64 * half", dim="128"),
    fixed_order("columns_of_two_halves", "dq_reduce.cuh", "return half > 0 ? (64 * B::accesses - B::dim) / block_columns : 0;", "return 0;", ANY, dim="96"),
    fixed_order("columns_of_an_access", "block.cuh", "access_step = dim - 64;", "access_step = 64;", ANY, dim="96"),
    fixed_order("other_half_of_the_queries", "scores.cuh", "const int first = tile.tile * B::columns + half_ * own;", "const int first = tile.tile * B::columns;"),
    any_order("first_dp_before_dq_is_drained", "products.cuh", "    wait(state_.dq_empty, n ^ 1);\n", "", ANY, dim="128"),
    any_order("dout_released_before_dv", "products.cuh", "      add_dv(n);\n      release(state_.do_empty[n % B::dout_stages]);",
              "      release(state_.do_empty[n % B::dout_stages]);\n      add_dv(n);", ANY, dim="128"),
    any_order("queries_of_a_thread", "scores.cuh", "first(queries.low - first_query)", "first(queries.low + 1 - first_query)"),
    any_order("careful_keys", "producer.cuh", "    if (has_nonfinite_keys()) return Pairs::careful_of_keys;\n", "", NAN),
    any_order("careful_statistics", "producer.cuh", "odd || p_.given_delta.data != nullptr", "p_.given_delta.data != nullptr", NAN),
    any_order("careful_delta", "producer.cuh", "odd || p_.given_delta.data != nullptr", "odd", NAN),
    any_order("careful_queries", "producer.cuh", "has_nonfinite(shared_.q(n % B::stages), B::StreamedTile::bytes) ? Pairs::careful : Pairs::masked", "Pairs::masked", NAN),
    any_order("cleared_queries", "scores.cuh", "      clear_nonfinite(shared_.q(n % B::stages), B::StreamedTile::bytes, B::exponents, thread, 256);\n", "", NAN),
    any_order("cleared_dout", "scores.cuh", "      clear_nonfinite(shared_.dout(n % B::dout_stages), B::StreamedTile::bytes, B::exponents, thread, 256);\n", "", NAN),
    any_order("fence_of_zeros", "scores.cuh", "    fence_proxy_async();  // zeros\n", "", r"error \(proxy-fence\)"),
    any_order("elements_of_keys", "collective/dq_chunk.cuh", "b[n] = finite_halves(b[n], B::exponents);", "", NAN),
    any_order("vote_on_products", "scores.cuh", "odd = bar_red_or(scores, 256, has_nonfinite_products());", "odd = has_nonfinite_products();", ANY),
    any_order("rows_without_weights", "scores.cuh", "        if (neg_lse.x == -infinity) w.p.x = w.of_ds.x = no_weight;\n", "", NAN),
    fixed_order("slope_of_a_head_of_a_thread", "scores.cuh", "state_.work.kv_head * state_.group + tile.head);", "state_.work.kv_head * state_.group);", test="GradientsAlibi"),
    fixed_order("distance_of_a_thread", "scores.cuh", "float(first + state_.sequence.offset - key())", "float(first - key())", test="GradientsAlibi"),
    fixed_order("derivative_of_a_thread", "collective/gradient_score_mod.cuh", "return mul_rn_f32x2(t, fma_rn_f32x2({-4, -4}, t, {4, 4}));", "return {1, 1};", test="GradientsSoftcap"),
    fixed_order("derivative_of_a_step", "scores.cuh", "weight[first / 2 + k] = w.of_ds;", "weight[first / 2 + k] = w.p;", test="GradientsSoftcap"),
    fixed_order("mask_of_capped_gradients", "scores.cuh", "return {w, held(mul_rn_f32x2({a, b}, derivative))};", "return {w, mul_rn_f32x2({a, b}, derivative)};", test="GradientsSoftcap"),
    fixed_order("capped_products_on_their_way", "scores.cuh", "        tcgen05_wait_ld(x[half]);\n", "", r"unwaited-load", formal=True, test="GradientsSoftcap"),
    fixed_order("infinite_products_under_a_cap", "scores.cuh", "return fma_rn_f32x2(s, {0, 0}, s);", "return s;", REACHED + "|" + NAN, test="GradientsSoftcap"),
    any_order("twice_of_halved_weights", "scores.cuh", "constexpr float unit = B::halves ? 2 : 1;", "constexpr float unit = 1;"),
    any_order("tensor_memory_of_gradients", "kernel.cu", "  if (warp_of_block() == product_warp) tcgen05_dealloc<tensor_columns>(shared.state->tensor_memory);\n", "", r"tensor memory|dealloc"),
]  # fmt: skip
