"""The mutants of the kernels: the text that is replaced, and a regular expression of the line that shows it (README.md has
them as a table)."""

from dataclasses import dataclass, replace

MMA = ("80", "mma", "bf16", "32")
STAGED = ("75", "mma", "f16", "32")
F16 = ("80", "mma", "f16", "32")
SIMT = ("80", "simt", "f32", "64")
F16_64 = ("80", "mma", "f16", "64")  # which the suites of whole results run
BF16_64 = ("80", "mma", "bf16", "64")  # holds larger scores
COMBINE = ("80", "combine", "f32", "576")
DEPENDENT = ("90a", "combine", "f32", "576")
OVERLAPPED = ("90a", "mma", "f16", "32")

MMA_QUANTISED = ("80", "mma_quantised", "f16", "128")
SIMT_QUANTISED = ("80", "simt_quantised", "f32", "128")
BACKWARD = ("80", "backward_simt", "f32", "576")
DELTA = ("80", "delta", "f32", "576")

# Results, by the case of tests/engine/checked.cpp that they are of.
PLAIN = r"lse\[.*\] is .*, expected .*sq=130 "
FEATURED = r"\] is .*, expected .*softcap=3 "
GENERAL = r"\] is .*, expected .*softcap=2 "
PAGED = r"\] is .*, expected .*page=7 "
SPLIT = r"\] is .*, expected .*splits=3 "
DECODE = r"\] is .*, expected .*splits=2 "
SPLITS = "*/Splits.InTwoRounds/f32_sm_80"  # a test of the engine's suites

WRONG = r"\] is .*, expected "
REPEATED_BY_OTHERS = r"is -?nan, expected|kernel: error 719: grid-race: writes global memory"  # whichever comes first
OVERTAKEN = r"kernel: error 719: stream-race: "
FAR = WRONG + "|kernel: error 700: illegal address"

ENTRY_OF = {PLAIN: "plain", FEATURED: "score_mod", GENERAL: "general", PAGED: "decode", SPLIT: "split", DECODE: "decode"}

# Faults that the emulator reports.
RACE = r"kernel: error 719: (race|lane-race|equal-values): (reads|writes) shared memory .*"
STALE = WRONG + r"|kernel: error 719: (race|pending-copy|unwritten-memory|lost-phase|lane-race): |error \((race|pending-copy)\): |deadlock"  # whichever comes first
UNDER_WAY = r"kernel: error 719: pending-copy: reads shared memory .*\(cp\.async.* still writes: nothing has waited for it"
TABLE = r"kernel: error 700: illegal address: .*ld\.global\.nc"
UNWRITTEN = r"kernel: error 719: unwritten-memory: reads shared memory .* which was never written"
OUTSIDE = r"kernel: error 700: illegal address: .* behind its end.*cp\.async"


@dataclass
class Mutant:
    name: str
    image: tuple
    file: str
    old: str
    new: str
    expected: str
    test_dim: int = 32
    test_types: str = "bf16"
    test: str = ""  # a filter of GoogleTest's in place of the checked suite's
    program: str = "engine"  # or "cuda", "tree", "quantised", "rotated": fa_test_cuda and so on
    device: str = ""  # in place of the image's architecture
    formal: bool = False  # findings that are harmless on known machines count, too
    also: tuple = ()  # further (file, old, new), which are not faults
    entry: str = ""  # the entry point that is enough to see the fault; the others are empty, which compiles faster
    preset: str = "standard"  # of kernels/presets.inc; one whose tiles are the build's own
    code: str = ""  # the architecture whose code takes the image's place, where it runs on the same devices

    def __post_init__(self):
        if self.image[1] == "mma" and not self.test:
            self.entry = self.entry or ENTRY_OF.get(self.expected, "")


def tree(name, file, old, new, test, image=F16, types="f16"):
    """One that a test of trees of new tokens shows."""
    return Mutant(name, image, file, old, new, WRONG, test=f"*/Trees.{test}/{types}_sm_{image[0]}", program="tree")


def quantised(name, file, old, new, test="EachFormatAlone", image=MMA_QUANTISED, types="f16", expected=WRONG):
    """One that a test of quantised keys and values shows."""
    return Mutant(name, image, file, old, new, expected, test=f"*/Quantised.{test}/{types}_sm_80", program="quantised")


def extreme(name, file, old, new, test, image=F16_64, types="f16", expected=WRONG):
    """A fault that tests/engine/extremes.cpp shows."""
    return Mutant(name, image, file, old, new, expected, test=f"*/Extremes.{test}/{types}_sm_80")


WGMMA = ("90a", "wgmma", "bf16", "64")


# From the end of the tiles that all rows attend on.
STEPS_DOWN = """      last = max(tiles.first, tiles.full_first);
#pragma unroll 1
      for (; tile >= last; tile--) step<false>(pass, item, rows, tile);
      last = tiles.first;
#pragma unroll 1
      for (; tile >= last; tile--) step<true>(pass, item, rows, tile);
"""


def warpgroups(name, file, old, new, expected, test="Of64Columns", entry="plain"):
    """A fault of the family for warpgroups, in blocks that have several work tiles each."""
    return Mutant(name, WGMMA, file, old, new, expected, test=f"Wgmma.ManyTiles{test}", program="cuda", device="sm_90a:sms=2", entry=entry)


def of_results(name, file, old, new, test, entry="plain"):
    """A fault of that family that the suites of whole results show."""
    return Mutant(name, WGMMA, file, old, new, WRONG, test=f"*/{test}/bf16_sm_90a", entry=entry)


def block_mask(name, file, old, new, expected=WRONG + "|" + FAR, test="BlockMask.ResultsAreRight"):
    """A fault of the code that skips blocks that a mask or a bias hides (tests/engine/block_mask.cpp)."""
    return Mutant(name, F16_64, file, old, new, expected, test=f"*/{test}/f16_sm_80")


def gradients(name, file, old, new, image=BACKWARD, expected=WRONG):
    """A fault of the backward pass."""
    return Mutant(name, image, file, old, new, expected, test="*/Checked.GradientsDim32/f32_sm_80")


def lost(name, old, new):
    """A fault of a pair whose gradients are not finite."""
    test = "*/BackwardProperty.NothingIsLost/f32_sm_80"
    return Mutant(name, BACKWARD, "backward/simt/pairs.cuh", old, new, r"inputs of NaN or infinity reach it", test=test)


CLEAN = [
    Mutant("clean_mma", MMA, "", "", "", ""),
    Mutant("clean_simt", SIMT, "", "", "", "", 64, "f32"),
    gradients("clean_gradients", "", "", "", expected=""),
    Mutant("clean_dependent", DEPENDENT, "", "", "", "", 64, "f32"),
]

MUTANTS = [
    Mutant("cp_async_wait_group", MMA, "forward/mma/ring.cuh", "cp_async_wait_group<B::stages - 2>();",
           "cp_async_wait_group<B::stages - 1>();", UNDER_WAY, entry="plain"),
    Mutant("barrier_of_the_ring", MMA, "forward/mma/ring.cuh",
           "    __syncthreads();  // all threads' copies have arrived, and all have left the item before\n", "",
           UNDER_WAY + "|" + RACE + r"\(cp\.async", entry="plain"),
    Mutant("barrier_after_mending", MMA, "forward/mma/forward.cuh",
           "infinities<B::dtype>);\n      __syncthreads();", "infinities<B::dtype>);", RACE + r"\((st\.shared\.v4|ldmatrix)", entry="plain"),
    Mutant("syncwarp_before_staging", MMA, "forward/mma/store.cuh",
           "  __syncwarp();\n  o.for_each_pair_in_row(", "  o.for_each_pair_in_row(", RACE + r"\(ld\.shared\.f32", entry="split"),
    Mutant("delivery", STAGED, "forward/mma/ring.cuh", "keys_.staged()) chunks_.deliver(current_);", "keys_.staged()) {}",
           "unwritten-memory: reads shared memory .* which was never written", test_types="f16", entry="plain"),
    Mutant("swizzle", MMA, "common/shared_tile.cuh", "return row * row_bytes + (chunk ^ swizzle(row)) * 16;",
           "return row * row_bytes + (chunk ^ swizzle(row + 2)) * 16;", PLAIN),
    Mutant("mask", MMA, "forward/mma/scores.cuh", "if (!columns.holds(column))", "if (column < columns.low)", PLAIN),
    Mutant("bound_of_keys", MMA, "forward/mma/rows.cuh", "exists && (!Masked || P::row() + i * P::step < keys)", "exists", OUTSIDE, entry="plain"),
    Mutant("bound_of_columns", MMA, "forward/mma/load.cuh", "cp_async_16(to, row + column * stride, read && column < columns);",
           "cp_async_16(to, row + column * stride, read);", SPLIT),
    Mutant("rescale", MMA, "forward/mma/softmax.cuh", "  o.scale_rows(a);\n", "", SPLIT),
    Mutant("repair", MMA, "forward/mma/store.cuh", "special ? finite_values : 0", "0", r"out\[.*\] is nan, expected -?[0-9]", entry="plain"),
    Mutant("page", MMA, "collective/sequence.cuh", "token % p.page_size * view", "(token + 1) % p.page_size * view", PAGED),
    Mutant("row_of_a_page", MMA, "forward/mma/rows.cuh", "row_ = token - number * p.page_size;", "row_ = token - page_number(p, token + 8) * p.page_size;", FEATURED + "|" + OUTSIDE),
    Mutant("row_of_another_pass", MMA, "forward/mma/rows.cuh", "__shfl_sync(~0u, own, i, P::lanes)", "own", FEATURED),
    Mutant("page_of_a_row", MMA, "collective/sequence.cuh", "quotient(token, p.by_page_size)", "quotient(token / 2, p.by_page_size)", FEATURED + "|" + OUTSIDE, entry="score_mod"),
    Mutant("pages_before_the_first", MMA, "forward/mma/rows.cuh", "    if (tile < block.tiles.first) return;\n", "", TABLE, entry="score_mod"),
    Mutant("pages_past_the_last", MMA, "forward/mma/rows.cuh", "if (Whole || token < ", "if (true || token < ", TABLE, entry="score_mod"),
    Mutant("pages_of_the_tile_before", MMA, "forward/mma/ring.cuh", "find<true>(p_, block, tiles_.before(tile, ahead / 2));", "find<true>(p_, block, tile);", FEATURED + "|" + TABLE, entry="score_mod"),
    Mutant("cap", MMA, "collective/deferred_score_mod.cuh", "rcp_approx_ftz(-1 - ex2", "rcp_approx_ftz(-2 - ex2", FEATURED),
    Mutant("zero_of_a_cap", MMA, "forward/mma/store.cuh", "B::score_mod ? p.softcap + from_zero : from_zero;", "from_zero;", FEATURED),
    Mutant("distance", MMA, "forward/mma/scores.cuh", "float(8 * row - column)", "float(row - column)", FEATURED),
    Mutant("split_bounds", MMA, "collective/tile_scheduler.cuh", "low = uint32_t(split) * share;",
           "low = uint32_t(split) * share + (split > 0);", SPLIT),
    Mutant("entry_forward", MMA, "forward/mma/kernel.cu", "  forward<BlockOf<Entry::plain>>(p);\n", "", PLAIN),
    Mutant("entry_score_mod", MMA, "forward/mma/kernel.cu", "  forward<BlockOf<Entry::score_mod>>(p);\n", "", FEATURED),
    Mutant("entry_general", MMA, "forward/mma/kernel.cu", "  forward<BlockOf<Entry::general>>(p);\n", "", GENERAL),
    Mutant("entry_split", MMA, "forward/mma/kernel.cu", "  forward<BlockOf<Entry::split>>(p);\n", "", SPLIT),
    Mutant("entry_decode", MMA, "forward/mma/kernel.cu", "  forward<BlockOf<Entry::decode>>(p);\n", "", DECODE),
    Mutant("keys_of_a_warp", MMA, "forward/mma/block.cuh", "split_keys_across_warps ? warp * warp_keys : 0", "0", DECODE),
    Mutant("join", MMA, "forward/mma/cross_warp.cuh", "l += weight[i] * of_warps[i].y;", "l += i == 0 ? of_warps[i].y : 0;", DECODE),
    Mutant("join_values", MMA, "forward/mma/cross_warp.cuh", "fmaf(weight[i], of_warp.x[c], sum.x[c])", "of_warp.x[c] + sum.x[c]", DECODE),
    Mutant("barrier_of_the_join", MMA, "forward/mma/cross_warp.cuh", "first_row);\n  __syncthreads();\n  return combine_warps", "first_row);\n  return combine_warps",
           r"error 719: (race|lane-race|equal-values): (reads|writes) shared memory .*mma/cross_warp\.cuh", entry="decode"),
    Mutant("entry_combine", COMBINE, "forward/combine/kernel.cu", "  Quad sum;\n  const", "  if (p.batch > 0) return;\n  Quad sum;\n  const", SPLIT),
    Mutant("combine_sums", COMBINE, "forward/combine/kernel.cu", "(own.sum * weight)", "(own.sum)", SPLIT),
    Mutant("combine_weights", COMBINE, "forward/combine/values.cuh", "__shfl_sync(~0u, weight, i, depth)", "__shfl_sync(~0u, weight, 0, depth)", SPLIT),
    Mutant("combine_maxima", COMBINE, "forward/combine/kernel.cu", "max_over_threads(max, span, maxima_of_warps)",
           "max_over_threads(max, 1, maxima_of_warps)", SPLIT),
    Mutant("combine_last_split", COMBINE, "forward/combine/kernel.cu", "partials.splits - round - first,",
           "partials.splits - round - first - 1,", SPLIT),
    Mutant("combine_groups", COMBINE, "forward/combine/sums.cuh", "  if (warps <= 1) return sums;\n", "  return sums;\n", WRONG, test=SPLITS),
    Mutant("combine_rounds", COMBINE, "forward/combine/kernel.cu", "round < p.schedule.num_splits; round += span",
           "round == 0; round += span", WRONG, test=SPLITS),
    Mutant("barrier_of_the_maxima", COMBINE, "forward/combine/sums.cuh", "of_warps[warp] = x;\n  __syncthreads();\n", "of_warps[warp] = x;\n",
           RACE + r"\((ld|st)\.shared", test=SPLITS),
    Mutant("barrier_of_the_groups", COMBINE, "forward/combine/sums.cuh", "weights_of_warps[warp] = sums.weights;\n  __syncthreads();\n",
           "weights_of_warps[warp] = sums.weights;\n", RACE + r"\((ld|st)\.shared", test=SPLITS),
    Mutant("simt_barrier", SIMT, "forward/simt/forward.cuh", "    weigh<dim>(p, w, thread, shared, s, j);\n    __syncthreads();\n",
           "    weigh<dim>(p, w, thread, shared, s, j);\n", RACE + r"\(ld\.shared\.f32", 64, "f32"),
    Mutant("simt_rescale", SIMT, "forward/simt/forward.cuh", "thread.o[i][d] *= rescale;", "", SPLIT, 64, "f32"),
    Mutant("wait_for_the_splits", DEPENDENT, "forward/combine/kernel.cu", "  griddepcontrol_wait();\n", "",
           "|".join([PLAIN, SPLIT, DECODE, OVERTAKEN]), 64, "f32"),  # whichever the combine kernel overtakes
    Mutant("wait_for_the_kernel_before", OVERLAPPED, "forward/mma/forward.cuh", "    griddepcontrol_wait();               //", "    //",
           WRONG + "|" + OVERTAKEN, test="Dependent.*", program="cuda", entry="decode"),
    Mutant("combine_before_the_lengths", OVERLAPPED, "forward/mma/forward.cuh", "    griddepcontrol_wait();               //",
           "    griddepcontrol_launch_dependents();\n    griddepcontrol_wait();  //", WRONG + "|" + OVERTAKEN, test="Dependent.Lengths*",
           program="cuda", entry="decode"),
    Mutant("prefill_before_the_lengths", ("90a", "wgmma", "f16", "64"), "forward/wgmma/kernel.cu", "  griddepcontrol_wait();               //", "  //",
           WRONG + "|" + OVERTAKEN, test="Dependent.*Prefill", program="cuda", entry="plain"),
    Mutant("full_tiles", MMA, "forward/mma/block.cuh", "int((uint32_t(rows.full_low) + B::keys - 1) / B::keys)", "rows.full_low / B::keys", WRONG,
           test="*/ManyKeys.WindowsWiderThanATile/bf16_sm_80"),
    Mutant("full_tiles_end", MMA, "forward/mma/block.cuh", "rows.full_high / B::keys};", "(rows.full_high + B::keys - 1) / B::keys};",
           WRONG, test="*/ManyKeys.WindowsWiderThanATile/bf16_sm_80"),
    Mutant("window_of_16_bits", MMA, "../src/core/sequence.h", "first - b.window_left);", "first - uint16_t(b.window_left));", WRONG,
           test="*/ManyKeys.WindowsBeyondSixteenBits/bf16_sm_80"),
    Mutant("columns_of_a_group", F16, "collective/tile_scheduler.cuh", "return {first + index - rank * section,",
           "return {index - rank * section,", r"is -?nan, expected", test="Slices.SmallCachesChangeNoBit", program="cuda"),
    # Large scores, small weights and values that are not finite.
    extreme("lift_of_f16", "common/element.h", "max_offset = 10;", "max_offset = 0;", "SmallWeights"),
    extreme("far_scores_unnoticed", "collective/rescale.cuh", "constexpr float exact_score_threshold = 0x1p22f;", "constexpr float exact_score_threshold = 0x1p100f;",
            "TiesShareEvenly"),
    extreme("far_rows_not_redone", "forward/mma/store.cuh", "(needs_exact ? exact_weights : 0) |", "0 |", "TiesShareEvenly"),
    extreme("sums_of_inexact_weights", "forward/mma/softmax.cuh", "(invalid ? nan_value() : a[r])", "a[r]",
            "OneScoreOfZeroAboveAllOthers"),
    extreme("reference_of_exact_rows", "forward/mma/store.cuh", "!exact ? ln_2 : B::score_mod ? score_scale(p) : p.scale", "ln_2", "OneKeyAboveAllOthers",
            expected=r"difference between s\.lse"),
    extreme("special_values_lost", "forward/mma/store.cuh", "x = special == 0 ? x : special;", "", "NonFiniteValues"),
    extreme("special_values_of_lost_sums", "forward/mma/store.cuh", "if constexpr (!B::plain) zero =", "zero =", "NonFiniteValues", BF16_64,
            "bf16"),
    extreme("special_values_without_keys", "forward/mma/store.cuh",
            "if (thread % 4 == 0 && l == 0 && block->fixups[r]) block->fixups[r] = exact_weights;", "", "NonFiniteValuesOfKeysWithoutWeight"),
    extreme("last_special_value", "collective/nonfinite.cuh", "sum += value;", "sum = value;", "NonFiniteValues"),
    extreme("hidden_values_show", "collective/nonfinite.cuh", " && !hidden_with_tree<has_trees>(p, w.sequence, row, j)) sum", ") sum", "NonFiniteValues"),
    extreme("special_of_one_split", "forward/combine/kernel.cu", "special += value;", "special = value;", "NonFiniteValues", COMBINE),
    extreme("special_of_keys_without_weight", "collective/epilogue.cuh", "softmax.sum == 0 ? 0 : special == 0", "special == 0",
            "NonFiniteValuesOfKeysWithoutWeight", COMBINE),
    extreme("simt_special_values", "forward/simt/forward.cuh", "if (special != 0) store_element(", "if (false) store_element(",
            "NonFiniteValues", SIMT, "f32"),
    extreme("simt_masked_values", "forward/simt/forward.cuh", "if (special && signbit(weight)) return;", "", "NonFiniteValues",
            SIMT, "f32"),
    # Blocks that masks hide.
    block_mask("rows_that_show", "collective/block_mask.cuh", "if (view.stride[1] == 0 && view.stride[2] == 0) rows = 1;", "rows = 1;"),
    block_mask("pairs_that_show", "collective/block_mask.cuh", "at += at_once * 32 * elements)", "at += rows * Keys)"),
    block_mask("range_of_shown_tiles", "collective/block_mask.cuh", "own = begin + 32 * n + lane;", "own = 32 * n + lane;"),
    block_mask("keys_of_a_shown_tile", "forward/mma/rows.cuh", "mad_wide_s32(tile * B::keys,", "mad_wide_s32((block.tiles.end - 1) * B::keys,"),
    block_mask("pages_of_a_shown_tile", "forward/mma/shown_tiles.cuh", "return tiles_[ahead + 1]; }", "return tiles_[ahead] - 1; }"),
    block_mask("barrier_of_shown_tiles", "collective/block_mask.cuh", "return __syncthreads_or(any_hidden);", "return true;",
               RACE + "|" + UNWRITTEN + r"|error \((race|unwritten-memory)\): ", "CheckedBlockMask.HiddenBlocks"),  # whichever comes first
    # Trees of new tokens.
    tree("bits_of_a_tree", "forward/mma/scores.cuh", "if ((bits >> column & 1) == 0) x = -infinity;", "", "LengthsAroundWordsAndBlocks"),
    tree("rows_of_a_tree", "forward/mma/scores.cuh", "attended, r * 8 + B::Out", "attended, B::Out", "LengthsAroundWordsAndBlocks"),
    tree("tiles_of_a_tree", "forward/mma/scores.cuh", "first_key + B::warp_keys > first_new_key", "first_key > first_new_key", "LengthsAroundWordsAndBlocks"),
    tree("words_of_a_tree", "collective/tree.cuh", "word(at), word(at + 1), first)", "word(at), 0, first)", "LengthsAroundWordsAndBlocks"),
    tree("keys_before_a_tree", "collective/tree.cuh", "if (at < 0) return ~0u;", "if (at < 0) return 0;", "LengthsAroundWordsAndBlocks"),
    tree("keys_behind_a_tree", "collective/tree.cuh", "tree ? min(int64_t{s.keys}, s.offset + s.queries) : s.keys", "s.keys", "Offsets"),
    tree("depths_of_new_tokens", "collective/tree.cuh", "bits &= ~(1u << i);", "continue;", "WindowsAndChunks"),
    tree("window_of_the_prefix", "collective/tree.cuh", "depths ? min(end, s.offset) : end", "end", "WindowsAndChunks"),
    tree("hidden_tokens_show", "collective/nonfinite.cuh", "if (has_trees && p.tree_mask.data &&", "if (false &&", "MaskedTokensDoNotShow"),
    tree("simt_bits_of_a_tree", "forward/simt/forward.cuh", "hidden |= 1u << n;", "continue;", "LengthsAroundWordsAndBlocks", SIMT, "f32"),
    tree("simt_depths", "forward/simt/forward.cuh", "position_of_key(p, w.sequence, key + thread.lane + c * lanes); });",
         "key + thread.lane + c * lanes; });", "WindowsAndChunks", SIMT, "f32"),
    # Gradients.
    gradients("barrier_of_gradients", "backward/simt/keys.cuh", "true, first);\n        __syncthreads();\n", "true, first);\n", expected=RACE),
    gradients("heads_of_keys", "backward/simt/keys.cuh", "pair.head < (w.kv_head + 1) * group", "pair.head <= w.kv_head * group"),
    gradients("sequences_of_a_row", "backward/simt/keys.cuh", "p.kv_batch_idx[b] != w.entry", "b != w.entry"),
    gradients("sum_of_dbias", "backward/simt/bias.cuh", "one_query ? rows : i + 1", "i + 1"),
    lost("products_of_a_cap_that_are_infinite", "fmaf(product, 0.f, dx * score.derivative)", "dx * score.derivative"),
    lost("infinite_scores", "exponent > most && score.x < infinity", "exponent > most"),
    gradients("dlse", "backward/delta/kernel.cu", "delta -= row_number", "delta += row_number", DELTA),
    # Warpgroups, their copies and products.
    warpgroups("phase_of_the_values", "forward/wgmma/consumer.cuh", "state_.v_full + at_values_.stage), at_values_.parity);",
               "state_.v_full + at_values_.stage), at_values_.parity ^ 1);", STALE),
    warpgroups("wait_for_a_free_stage", "collective/tma_producer.cuh",
               "    mbarrier_wait(shared_address(empty + at.stage), at.parity ^ 1);\n", "",
               STALE + r"|kernel: error 715: illegal instruction: .* arrivals at an mbarrier"),
    warpgroups("bytes_of_a_tile", "collective/tma_producer.cuh", "mbarrier_arrive_expect_tx(arrived, Tile::bytes);",
               "mbarrier_arrive_expect_tx(arrived, Tile::bytes - 128);", STALE),
    warpgroups("keys_released_early", "forward/wgmma/consumer.cuh",
               "    wgmma_wait_group<1>();\n    pin(s);\n    release_keys();\n",
               "    release_keys();\n    wgmma_wait_group<1>();\n    pin(s);\n", STALE),
    warpgroups("registers_of_the_producer", "forward/wgmma/kernel.cu", "    setmaxnreg_dec<B::shape.producer_registers>();\n", "", "deadlock"),
    warpgroups("wait_for_scores", "forward/wgmma/consumer.cuh", "    wgmma_wait_group<1>();\n", "",
               r"kernel: error 719: pending-register: "),
    warpgroups("fence_of_registers", "forward/wgmma/products.cuh", "  wgmma_fence();\n", "", r"kernel: error 719: wgmma-fence: "),
    warpgroups("fence_of_cleared_values", "forward/wgmma/consumer.cuh",
               "{});\n    fence_proxy_async();\n", "{});\n", r"kernel: error 719: proxy-fence: "),
    warpgroups("barrier_of_cleared_values", "forward/wgmma/consumer.cuh",
               "{});\n    fence_proxy_async();\n    sync_consumers();\n",
               "{});\n    fence_proxy_async();\n", STALE + r"|kernel: error 719: proxy-fence: "),
    warpgroups("scheduler_barrier_of_the_next", "forward/wgmma/consumer.cuh", "warp_scheduler_barrier + (group_ + 1) % B::consumers",
               "warp_scheduler_barrier + (group_ + 2) % B::consumers", r"deadlock"),
    warpgroups("step_of_the_grid", "forward/wgmma/producer.cuh", "return index + gridDim.x;", "return index + gridDim.x + 1;", WRONG),
    replace(warpgroups("lost_ticket", "forward/wgmma/producer.cuh", "gridDim.x + atomicAdd", "gridDim.x + 1 + atomicAdd", WRONG, "ByTickets"),
            image=("90a", "wgmma", "f16", "128")),
    replace(warpgroups("indices_looked_up", "forward/wgmma/producer.cuh", "    return state_.work_indices[number];\n",
                       "    return repeats() ? index + gridDim.x : state_.work_indices[number];\n", REPEATED_BY_OTHERS, "ByTickets"),
            image=("90a", "wgmma", "f16", "128")),
    warpgroups("wait_for_free_queries", "collective/tma_producer.cuh",
               "    mbarrier_wait(shared_address(&state_.q_empty), items_ % 2 ^ 1);\n", "", STALE),
    replace(warpgroups("works_that_share_a_bit", "collective/work_items.cuh", "return int32_t((tiles + bits - 1) / bits);", "return 1;",
                       r"unwritten-memory: reads shared memory"), test="Wgmma.MoreTilesThanBits"),
    warpgroups("works_not_repeated", "forward/wgmma/consumer.cuh", " && lane() == 0) state_.fixup_bitmap.set(p_, item.number);", " && lane() == 0) {}",
               r"is -?nan, expected"),
    warpgroups("box_of_the_tile_before", "collective/tma_producer.cuh", "w, tile - 1, next);", "w, tile - 1, here);", WRONG, "FromPages"),
    warpgroups("boxes_without_keys", "collective/tma_producer.cuh", "return token < w.sequence.keys ? ", "return true ? ",
               r"kernel: error 700: illegal address: |" + WRONG, "FromPages"),
    warpgroups("heads_of_a_box", "forward/wgmma/producer.cuh", "w.head_group * packed", "w.head_group", WRONG, "FromPages"),
    warpgroups("query_of_a_row", "collective/key_blocks.cuh", "row_at(p, w, row).query", "row", WRONG, "FromPages"),
    warpgroups("split_of_a_row", "collective/key_blocks.cuh", "{max(keys.low, split.low), min(keys.high, split.high)}", "keys", WRONG, "FromPages"),
    warpgroups("weights_of_a_moved_row", "forward/wgmma/softmax.cuh", "      p.scale_row(r, factor);\n", "", WRONG, "OfRisingScores"),
    warpgroups("sums_of_a_moved_row", "forward/wgmma/softmax.cuh", "      (*sums)[r] *= factor;\n", "", WRONG, "OfRisingScores"),
    warpgroups("slope_of_a_row", "forward/wgmma/consumer.cuh", "distance - float(column)", "distance + float(column)", WRONG,
               "OfASlope", "score_mod"),
    warpgroups("store_before_fence", "forward/wgmma/store.cuh", "  });\n  fence_proxy_async();\n", "  });\n", r"kernel: error 719: proxy-fence: "),
    warpgroups("boxes_still_read", "forward/wgmma/store.cuh", "  cp_async_bulk_wait_group_read();  // the boxes before\n", "", STALE, "WithoutKeys"),
    warpgroups("box_behind_the_last_row", "forward/wgmma/store.cuh", "first + rows_of_warp <= item.work.rows", "first < item.work.rows",
               WRONG + r"|race", "OfPackedRows"),
    warpgroups("wait_for_gathered_rows", "collective/paged_gather.cuh", "signal<1>();", "signal<2>();", STALE, "FromOddPages"),
    warpgroups("last_gathered_rows", "collective/paged_gather.cuh", "signal<0>();", "signal<1>();", STALE, "FromOddPages"),
    warpgroups("pages_without_keys", "collective/paged_gather.cuh", "found.page[i] = exists ? ", "found.page[i] = true ? ",
               r"kernel: error 700: illegal address: |" + WRONG, "FromOddPages"),
    warpgroups("rows_of_no_box", "forward/wgmma/store.cuh", "return row < rows ? ", "return true ? ", FAR, "FromOddPages"),
    warpgroups("fence_of_gathered_rows", "collective/paged_gather.cuh", "    fence_proxy_async();\n", "", r"kernel: error 719: proxy-fence: ", "FromOddPages"),
    warpgroups("fence_of_finite_values", "forward/wgmma/consumer.cuh", "threadIdx.x - 128,\n                      128 * B::consumers);\n      fence_proxy_async();\n",
               "threadIdx.x - 128,\n                      128 * B::consumers);\n", r"kernel: error 719: proxy-fence: "),
    warpgroups("barrier_of_finite_values", "forward/wgmma/consumer.cuh",
               "threadIdx.x - 128,\n                      128 * B::consumers);\n      fence_proxy_async();\n      sync_consumers();\n",
               "threadIdx.x - 128,\n                      128 * B::consumers);\n      fence_proxy_async();\n", STALE + r"|kernel: error 719: proxy-fence: "),
    warpgroups("values_released_early", "forward/wgmma/consumer.cuh",
               "    wgmma_wait_group<0>();\n    pin(pass.out);\n    pin(s);\n    release_values();\n",
               "    release_values();\n    wgmma_wait_group<0>();\n    pin(pass.out);\n    pin(s);\n", STALE),
    warpgroups("queries_released_early", "forward/wgmma/consumer.cuh", STEPS_DOWN + "      release_queries();\n", "      release_queries();\n" + STEPS_DOWN, STALE),
    warpgroups("phase_of_the_keys", "forward/wgmma/consumer.cuh", "state_.k_full + at_keys_.stage), at_keys_.parity);",
               "state_.k_full + at_keys_.stage), at_keys_.parity ^ 1);", STALE),
    of_results("first_whole_tile_of_a_work", "collective/key_blocks.cuh", "(uint32_t(rows.full_low) + Keys - 1) / Keys", "uint32_t(rows.full_low) / Keys",
               "ManyKeys.WindowsWiderThanATile"),
    quantised("plain_unscaled_values", "forward/mma_quantised/plain.cuh", "if (!B::f32_scales && tiles.has_scales_of_values()) scale_weights(weights);", "",
              "ScoresThatRiseLate"),
    quantised("plain_unsigned_bytes", "forward/mma_quantised/plain_widen.cuh", "const uint32_t x = bytes ^ 0x80808080;",
              "const uint32_t x = bytes;", "ScoresThatRiseLate"),
    quantised("plain_halves_swapped", "forward/mma_quantised/plain_widen.cuh", "{pair(0x4040), pair(0x4141), pair(0x4242), pair(0x4343)}",
              "{pair(0x4141), pair(0x4040), pair(0x4242), pair(0x4343)}", "ScoresThatRiseLate"),
    quantised("codes_nibbles_swapped", "collective/codes.cuh", "byte_at(row + d / 2) >> d % 2 * 4", "byte_at(row + d / 2) >> (1 - d % 2) * 4",
              image=SIMT_QUANTISED, types="f32"),
    quantised("codes_blocks_not_centred", "collective/codes.cuh", "(int32_t(code) - 8)", "(int32_t(code) - 7)", image=SIMT_QUANTISED,
              types="f32"),
    quantised("codes_zeros_ignored", "collective/codes.cuh",
              "    if (zero.data) x -= load_factor(p, zero, s, key, head, d);\n", "", image=SIMT_QUANTISED, types="f32"),
    quantised("codes_first_group", "collective/codes.cuh", "d / factors.channels * factors.stride[3]", "0", image=SIMT_QUANTISED,
              types="f32"),
    quantised("codes_second_part_begins_late", "collective/codes.cuh", "if (d >= dim)", "if (d > dim)", "KeysInTwoParts", SIMT_QUANTISED, "f32", FAR),
    Mutant("hash", COMBINE, "common/build.cuh", "FA_CONCATENATE(fa_build_, hash)", "FA_CONCATENATE(fa_build_0, hash)",
           "belongs to another build of libfa: it has no fa_build_"),
]
