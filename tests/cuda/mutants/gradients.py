"""The mutants of kernels/backward, as table.py has those of the other kernels. tests/engine/checked_backward.cpp shows them."""

from table import OUTSIDE, RACE, UNDER_WAY, UNWRITTEN, WRONG, Mutant

F16 = ("80", "backward_mma", "f16", "32")
STAGED = ("75", "backward_mma", "f16", "32")

KEYS, KEYS_PASS, QUERIES = "backward/mma/keys.cuh", "backward/mma/keys_pass.cuh", "backward/mma/queries.cuh"
LOAD, WALK = "backward/mma/load.cuh", "backward/mma/query_stream.cuh"
NAN = r"is -?nan, expected"
LOADED_OUTSIDE = r"kernel: error 700: illegal address: .* behind its end"
OF_KEYS = r"d[kv]\[.*\] is .*, expected "
OF_QUERIES = r"dq\[.*\] is .*, expected "


def gradients(name, file, old, new, expected, image=F16):
    arch, _, dtype, dim = image
    return Mutant(name, image, file, old, new, expected, test=f"*/CheckedGradients.GradientsDim{dim}/{dtype}_sm_{arch}")


BF16 = ("80", "backward_mma", "bf16", "64")


def at_the_ends(name, file, old, new, image):
    """A fault that tests/engine/tensor_cores.cpp shows."""
    return Mutant(name, image, file, old, new, WRONG, test=f"*/TensorCores.LargestGradientsOfScores/{image[2]}_sm_80")


# All three gradients in one loop, of calls in a fixed order and in any.
TOGETHER, DELTA = ("80", "backward_mma", "bf16", "32"), ("80", "delta", "f32", "576")
DQ_ACCUMULATE = "backward/mma/dq_accumulate.cuh"


def any_order(name, file, old, new, expected, image=TOGETHER):
    return Mutant(name, image, file, old, new, expected, test="*/CheckedGradients.GradientsAnyOrderDim32/bf16_sm_80")


def of_f16(name, file, old, new, expected, image=F16):
    return Mutant(name, image, file, old, new, expected, test="*/CheckedGradients.GradientsAnyOrderDim32/f16_sm_80")


def fixed_order(name, file, old, new, expected, image=TOGETHER, also=(), device=""):
    return Mutant(name, image, file, old, new, expected, test="*/CheckedGradients.GradientsInOrderDim32/bf16_sm_80", also=also, device=device)


# A block that is next in the fixed order is alone at the sums: they may as well add by loads and stores, which the emulator's checks
# see where nothing orders them.
PLAIN_ADDITIONS = (("collective/dq_accum.cuh",
                    'asm volatile("red.relaxed.gpu.global.add.f32 [%0], %1;" ::"l"(sums + e * 32), "f"(x.x[e]) : "memory");',
                    "sums[e * 32] += x.x[e];"),)  # fmt: skip
OF_SUMS = r"kernel: error 719: grid-race: (reads|writes) global memory"


def ordered(name, file, old, new, expected=OF_SUMS):
    return fixed_order(name, file, old, new, expected, also=PLAIN_ADDITIONS)


GRADIENTS = [
    gradients("clean_backward", "", "", "", ""),
    gradients("entry_dkv", "backward/mma/kernel.cu", "  keys_pass<BlockOf<Entry::dkv>>(p);\n", "", OF_KEYS),
    gradients("entry_dq", "backward/mma/kernel.cu", "  queries_pass<BlockOf<Entry::dq>>(p);\n", "", OF_QUERIES),
    # The range of 16 bits.
    at_the_ends("halves_of_bf16", "backward/mma/grad_scale.cuh", "return B::halves ? 2 : 1;", "return 1;", BF16),
    at_the_ends("halves_of_keys", KEYS, "if constexpr (B::halves) neg_lse_log2 -= 1;", "", BF16),
    at_the_ends("halves_of_queries", QUERIES, "if constexpr (B::halves) t.neg_lse_log2 -= 1;", "", BF16),
    at_the_ends("least_factor", "backward/mma/grad_scale.cuh", "least_exponent = -118", "least_exponent = -100", ("80", "backward_mma", "f16", "64")),
    # NaN and infinities of dO, which reach dV by its weights.
    Mutant("weights_without_nan", TOGETHER, KEYS_PASS, "unroll<4>([&](int e) { x.block[i][j].x[e] += zero.x[e]; });", "(void)zero;", WRONG,
           test="*/BackwardProperty.NothingLeaks/bf16_sm_80"),
    Mutant("infinite_products_of_a_cap_of_a_warp", ("80", "backward_mma", "f16", "64"), "backward/mma/scores.cuh",
           "fmaf(product, 0.f, product)", "product", r"inputs of NaN or infinity reach it", test="*/CheckedGradients.GradientsSoftcapDim64/f16_sm_80"),
    # Copies and barriers.
    gradients("wait_for_a_step", LOAD, "cp_async_wait_group<0>();", "cp_async_wait_group<1>();", UNDER_WAY),
    gradients("barrier_of_a_step", QUERIES, "    ring.arrive(stage);\n    __syncthreads();\n", "    ring.arrive(stage);\n",
              UNDER_WAY + "|" + RACE),
    # At 32 columns a block's queries are all in registers, and nobody reads their tile at the end.
    gradients("barrier_of_the_stores", QUERIES, "  __syncthreads();  // the tiles are free\n", "", RACE, ("80", "backward_mma", "f16", "64")),
    gradients("barrier_of_kept_keys", KEYS_PASS, "      __syncthreads();\n      kept.load", "      kept.load", UNDER_WAY + "|" + RACE),
    gradients("barrier_of_kept_queries", QUERIES, "      __syncthreads();\n      unroll<2>", "      unroll<2>", UNDER_WAY + "|" + RACE),
    gradients("tile_of_kept_keys", KEYS_PASS, "kept.load(shared.own(of_keys()));", "kept.load(shared.own(0));", OF_KEYS),
    gradients("wait_of_a_pair", KEYS_PASS, "    exchange.wait();\n", "", UNWRITTEN + "|" + RACE),
    gradients("barrier_of_noted_keys", KEYS_PASS, "__syncthreads_or(any_nonfinite<B>(x))", "__any_sync(~0u, any_nonfinite<B>(x))",
              UNWRITTEN + "|" + RACE + "|deadlock|barrier"),
    gradients("barrier_of_cleared_rows", KEYS_PASS, "    clear_nonfinite<B>(shared.slot(stage, 1));\n    __syncthreads();\n",
              "    clear_nonfinite<B>(shared.slot(stage, 1));\n", RACE),
    gradients("slot_of_a_step", QUERIES, "    if (B::stages == 2) stage = 1 - stage;\n", "", WRONG + "|" + UNDER_WAY + "|" + RACE),
    gradients("rows_past_the_last", LOAD, "row + r + i * step < end", "true", WRONG + "|" + OUTSIDE),
    # SM 75 keeps chunks in registers between their loads and a step.
    gradients("delivery_of_a_step", LOAD, "st_shared_v4_b32(to + at, chunks_[which].chunk[n]);", "", UNWRITTEN, STAGED),
    gradients("zeros_past_the_last", LOAD, "read ? __ldg(reinterpret_cast<const uint4 *>(from)) : uint4{}",
              "__ldg(reinterpret_cast<const uint4 *>(from))", LOADED_OUTSIDE, STAGED),
    # Masks.
    gradients("edge_of_the_keys", KEYS_PASS, ".holds(B::row_of(thread, 2 * i + e / 2))", ".holds(B::row_of(thread, 2 * i + e / 2) - 1)", OF_KEYS),
    gradients("edge_of_the_queries", QUERIES, "keys.holds(first + column)", "keys.holds(first + column - 1)", OF_QUERIES),
    gradients("whole_tiles_of_queries", "../src/core/sequence.h", "  if (causal) low = bounds::larger(low, last);\n", "", OF_KEYS),
    gradients("whole_tiles_of_keys", QUERIES, "rows.full_high / B::columns};", "up(rows.full_high)};", OF_QUERIES),
    gradients("rows_without_keys", KEYS, "without_keys = neg_lse_log2 == -infinity;", "without_keys = false;", NAN),
    gradients("rows_of_dout_stay", KEYS_PASS, "    clear_nonfinite<B>(shared.slot(stage, 1));\n", "", NAN),
    gradients("keys_stay", QUERIES, "      clear_nonfinite<B>(shared.slot(stage, 0));\n", "", NAN),
    # Operands, heads, scores.
    gradients("operands_of_a_pair", KEYS_PASS, "shared.slot(stage, 1));  // dV", "shared.slot(stage, 0));  // dV", OF_KEYS),
    gradients("heads_of_a_group", "collective/query_stream.cuh", "if (++head == group)", "if ((head += 2) >= group)", OF_KEYS),
    gradients("slope_of_a_head", "backward/mma/scores.cuh", "add_alibi(x, slope_2, distance)", "x", WRONG),
    gradients("derivative_of_a_cap", "backward/mma/scores.cuh", "derivative = 4 * t * (1 - t);", "derivative = 1;", WRONG),
    gradients("added_gradients", "collective/gradient_output.cuh", "quad.x[c] += *", "quad.x[c] = *", OF_QUERIES),
    # Beyond the range of 16 bits.
    gradients("factors_stay", "backward/mma/grad_scale.cuh", "__any_sync(~0u, moved)", "false", WRONG),
    gradients("sums_keep_a_factor", "backward/mma/grad_scale.cuh", "      sum.scale_row(r, factor(r) / before);\n", "", WRONG),
    # Sums of dq that blocks of keys add to.
    any_order("clean_any_order", "", "", "", ""),
    any_order("sums_begin_with_zeros", "backward/delta/kernel.cu", "sums[i] = {};", "sums[i] = {1, 0, 0, 0};", OF_QUERIES, DELTA),
    any_order("shown_to_all", KEYS_PASS, "      __syncthreads();  // dS of the step before has been read, and pairs may exchange again\n", "", RACE),
    any_order("exchanged_before_shown", KEYS_PASS, "if (keys) __syncwarp();", "", RACE + "|lane-race"),
    any_order("place_of_a_sum", "collective/dq_accum.cuh", "quad[e / 2].x[e % 2] = x.x", "quad[e % 2].x[e / 2] = x.x", OF_QUERIES, DELTA),
    any_order("keys_that_stay_odd", DQ_ACCUMULATE, "b[n] = finite_halves(b[n], B::exponents);", "b[n] = b[n];", NAN),
    any_order("keys_that_do_not_exist", KEYS, "p.has_score_mod || partial ?", "p.has_score_mod ?", NAN),
    any_order("a_head_of_sums", DQ_ACCUMULATE, "at.head * p.stats_rows + at.tile", "at.tile", OF_QUERIES),
    of_f16("clean_any_order_of_f16", "", "", "", ""),
    of_f16("factor_of_a_sum", DQ_ACCUMULATE, "const float inverse = 1 / factor_of_sum();", "const float inverse = 1;", OF_QUERIES),
    of_f16("factors_of_warps", DQ_ACCUMULATE, "if constexpr (Careful && B::scales_ds) rescale(a, k * 16 / B::warp_rows);", "", OF_QUERIES),
    of_f16("several_factors", DQ_ACCUMULATE, "shared.state->dq_semaphore.odd || !is_one_factor()", "shared.state->dq_semaphore.odd", OF_QUERIES),
    of_f16("infinite_terms", "backward/mma/grad_scale.cuh", "if (bits == __float_as_int(infinity)) {", "if (false) {", OF_QUERIES),
    of_f16("rows_without_factors", "backward/delta/kernel.cu", "counts(sizes[r]) ? min(top - exponent(sizes[r]), most) : 0;", "0;", OF_QUERIES, DELTA),
    of_f16("factors_stay_in_dq", "backward/delta/kernel.cu", "factors ? 1 / factors[own] : 2;", "1;", OF_QUERIES, DELTA),
    of_f16("scaled_where_shown", KEYS_PASS, "          if (is_uneven(n)) multiply_by_factors<false>(x);\n", "", OF_QUERIES),
    of_f16("scaled_for_dk", KEYS_PASS, "          if (is_uneven(n)) multiply_by_factors<true>(x);\n", "", OF_KEYS),
    of_f16("whole_tiles_of_uneven_rows", KEYS, "threadIdx.x == 0 && pass.is_uneven(n);", "false;", OF_QUERIES),
    # The fixed order.
    fixed_order("clean_fixed_order", "", "", "", ""),
    fixed_order("counter_never_rises", DQ_ACCUMULATE, "if (semaphore.*counter != nullptr) st_release_gpu(semaphore.*counter, semaphore.key_tile + 1);", "", "deadlock"),
    fixed_order("counters_not_cleared", "backward/delta/kernel.cu", "p.dq_semaphore[first_row / dq_semaphore_rows + threadIdx.x] = 0;", ";", "LAUNCH_TIMEOUT", DELTA),
    fixed_order("tickets_of_the_call_before", "backward/delta/kernel.cu", "*key_tickets(p) = 0;", ";", WRONG, DELTA),
    fixed_order("order_of_blocks", DQ_ACCUMULATE, "!= semaphore.key_tile)", "!= semaphore.key_tile + 1)", "deadlock"),
    fixed_order("first_of_a_chain", DQ_ACCUMULATE, "semaphore.before.holds(at.tile)", "true", "deadlock"),
    fixed_order("order_against_blocks", "collective/backward_tile_scheduler.cuh", "int32_t tile = int32_t(rank);", "int32_t tile = int32_t(s.tiles - 1 - rank);",
             "deadlock", device="sm_80:sms=1"),
    ordered("clean_ordered", "", "", "", ""),
    ordered("wait_for_the_block_before", DQ_ACCUMULATE, "    while (ld_acquire_gpu(semaphore.begun) != semaphore.key_tile) {\n    }\n", ""),
    ordered("wait_of_the_first", DQ_ACCUMULATE, "semaphore.before.holds(at.tile)", "false"),
    ordered("counter_rises_early", DQ_ACCUMULATE, "if (threadIdx.x == 0) release(&DqSemaphore::ended);", "if (threadIdx.x == 0) release(&DqSemaphore::begun);"),
    ordered("counter_rises_before_the_sum", DQ_ACCUMULATE, "    __syncthreads();\n    if (threadIdx.x == 0) release(&DqSemaphore::begun);",
            "    if (threadIdx.x == 0) release(&DqSemaphore::begun);"),
]
