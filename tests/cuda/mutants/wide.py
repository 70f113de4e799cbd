"""The mutants of kernels/forward/mma_wide: chunks in the ring, and the values that warps exchange for shared rows."""

from table import OUTSIDE, RACE, SPLIT, TABLE, UNDER_WAY, UNWRITTEN, Mutant

IMAGE = ("80", "mma_wide", "bf16", "512")
STAGED = ("75", "mma_wide", "f16", "512")
FOLDER = "forward/mma_wide/"
WRONG = r"\] is .*, expected .*(sq=130|softcap=[23]|splits=3) "  # results of Entry::split
SHARED = RACE + r"\((ld|st)\.shared"


def wide(name, file, old, new, expected=WRONG, entry="split", image=IMAGE, **more):
    """A fault that tests/engine/checked.cpp shows at head dimension 512."""
    return Mutant(name, image, FOLDER + file, old, new, expected, 512, image[2], entry=entry, **more)


WIDE = [
    Mutant("clean_mma_wide", IMAGE, "", "", "", "", 512),
    wide("wait_for_a_chunk", "ring.cuh", "cp_async_wait_group<B::stages - 2>();", "cp_async_wait_group<B::stages - 1>();", UNDER_WAY),
    wide("barrier_of_the_chunks", "ring.cuh", "    __syncthreads();  // all threads' copies have arrived, and all have left the chunk before\n", "",
         UNDER_WAY + "|" + RACE + r"\(cp\.async|" + SHARED),
    wide("delivery_of_a_chunk", "ring.cuh", "if (B::staged && staged_) chunks_.deliver(current_);", "", UNWRITTEN, image=STAGED),
    wide("columns_of_a_chunk", "ring.cuh", "(of_keys ? chunk_ : chunk_ - key_chunks) * B::chunk", "(of_keys ? chunk_ : 0) * B::chunk"),
    wide("keys_of_no_row", "ring.cuh", "attended.holds(first_key + i * P::step); };", "true; };", WRONG + "|kernel: error 700: illegal address|" + OUTSIDE),
    wide("last_keys_of_a_tile", "block.cuh", "(1u << (high + 15) / 16)", "(1u << high / 16)"),
    wide("pages_of_the_current_tile", "ring.cuh", "find<false>(p_, block, tile_);", "find<false>(p_, block, tile_ + 1);",
         WRONG + "|" + TABLE),
    wide("barrier_of_the_maxima_of_warps", "forward.cuh", "    __syncthreads();\n    if (has_rows) {\n      softmax.update", "    if (has_rows) {\n      softmax.update", SHARED),
    wide("maxima_of_warps", "softmax.cuh", "float t = block.top[0][row];", "float t = block.top[B::rank(thread / 32)][row];"),
    wide("rescale_of_columns", "softmax.cuh", "    o.scale_rows(a);\n", "", SPLIT),
    wide("keys_of_a_weight", "products.cuh", "B::first_key(warp) / 8 + j) + lane", "j) + lane", WRONG + "|" + RACE),
    wide("weights_before_their_barrier", "forward.cuh",
         "      const uint32_t values = ring.next(block);\n      if (c == 0 && has_rows) weights.load(shared.weights);\n",
         "      if (c == 0 && has_rows) weights.load(shared.weights);\n      const uint32_t values = ring.next(block);\n",
         RACE + r"\((ldmatrix|st\.shared)|" + UNWRITTEN),
    wide("keys_that_are_shown", "forward.cuh", "shown >> B::rank(warp) & 1", "shown >> 3 & 1"),
    wide("columns_of_a_product_of_values", "products.cuh", "o.multiply_add(c * blocks + j,", "o.multiply_add(j,"),
    wide("columns_of_a_warp", "block.cuh", "column / warp_columns * chunk + rank(warp) * warp_columns", "column / warp_columns * chunk", WRONG + "|" + RACE),
    wide("barrier_of_mended_chunks", "forward.cuh", "infinities<B::dtype>);\n        __syncthreads();", "infinities<B::dtype>);",
         RACE + r"\((st\.shared\.v4|ldmatrix)"),
    wide("sums_of_warps", "store.cuh", "(of_warp[0].x + of_warp[1].x) + (of_warp[2].x + of_warp[3].x)", "of_warp[0].x"),
    wide("columns_that_are_not_finite", "store.cuh", "(of_warp[0].y + of_warp[1].y) + (of_warp[2].y + of_warp[3].y)", "of_warp[3].y",
         r"out\[.*\] is nan, expected -?[0-9]"),
    wide("barrier_of_the_ends", "store.cuh", "  __syncthreads();\n  const bool needs_fixup", "  const bool needs_fixup", SHARED),
    wide("barrier_of_the_factors", "store.cuh", "  __syncthreads();\n  const bool chunks", "  const bool chunks", SHARED),
    wide("syncwarp_before_staged_rows", "store.cuh", "    __syncwarp();\n    for_constants<", "    for_constants<", SHARED),
    wide("syncwarp_behind_chunks", "store.cuh", "  });\n  __syncwarp();\n#pragma unroll 1\n  for (int i = lane;", "  });\n#pragma unroll 1\n  for (int i = lane;", SHARED),
    wide("entry_split_of_wide_heads", "kernel.cu", "  forward<BlockOf<Entry::split>>(p);\n", "", entry=""),
    wide("entry_decode_of_wide_heads", "kernel.cu", "  forward<BlockOf<Entry::decode>>(p);\n", "", r"\] is .*, expected .*(page=7|splits=2) ", ""),
]
