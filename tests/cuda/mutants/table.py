"""The mutants of the kernels: what is replaced where, and a word of what tells it (README.md has them as a table)."""

from dataclasses import dataclass

MMA = ("80", "mma", "bf16", "32")
SIMT = ("80", "simt", "f32", "64")
COMBINE = ("80", "combine", "f32", "576")
DEPENDENT = ("90a", "combine", "f32", "576")

NUMBERS = "expected"
FAILED = "the GPU says CUDA_ERROR_"


@dataclass
class Mutant:
    name: str
    image: tuple
    file: str
    old: str
    new: str
    tells: str
    test_dim: int = 32
    test_types: str = "bf16"


CLEAN = [Mutant("clean_mma", MMA, "", "", "", ""), Mutant("clean_simt", SIMT, "", "", "", "", 64)]

MUTANTS = [
    Mutant("wait_for_copies", MMA, "mma/forward.cuh", "wait_for_copies<B::stages - 2>();",
           "wait_for_copies<B::stages - 1>();", FAILED),
    Mutant("barrier_of_the_ring", MMA, "mma/forward.cuh",
           "    __syncthreads();  // everyone's copies have arrived, and everyone has left the item before\n", "", FAILED),
    Mutant("barrier_after_mending", MMA, "mma/forward.cuh",
           "0x7c007c00 : 0x7f807f80);\n      __syncthreads();", "0x7c007c00 : 0x7f807f80);", FAILED),
    Mutant("syncwarp_before_staging", MMA, "mma/store.cuh",
           "  __syncwarp();\n#pragma unroll\n  for (int j = 0; j < B::out_blocks; j++)  // blocks",
           "#pragma unroll\n  for (int j = 0; j < B::out_blocks; j++)  // blocks", FAILED),
    Mutant("swizzle", MMA, "common/shared_tile.cuh", "return row * row_bytes + (chunk ^ swizzle(row)) * 16;",
           "return row * row_bytes + (chunk ^ swizzle(row + 2)) * 16;", NUMBERS),
    Mutant("mask", MMA, "mma/scores.cuh", "if (key < low || key >= high)", "if (key < low)", NUMBERS),
    Mutant("bound_of_keys", MMA, "mma/load.cuh", "exists && (!Bounded || P::row() + i * P::step < keys)", "exists", FAILED),
    Mutant("bound_of_columns", MMA, "mma/load.cuh", "copy_chunk(to, row + column * stride, read && column < columns);",
           "copy_chunk(to, row + column * stride, read);", FAILED),
    Mutant("rescale", MMA, "mma/softmax.cuh", "        o[i][j].x[2 * h] *= a;\n", "", NUMBERS),
    Mutant("repair", MMA, "mma/store.cuh", "exists && is_finite(l) && nonfinite;", "false;", NUMBERS),
    Mutant("page", MMA, "common/sequence.cuh", "token % p.page_size * view", "(token + 1) % p.page_size * view", NUMBERS),
    Mutant("split_bounds", MMA, "common/schedule.cuh", "low = int64_t(split) * share,",
           "low = int64_t(split) * share + (split > 0),", NUMBERS),
    Mutant("entry_forward", MMA, "mma/kernel.cu", "  forward<This<Entry::forward>>(p);\n", "", NUMBERS),
    Mutant("entry_general", MMA, "mma/kernel.cu", "  forward<This<Entry::general>>(p);\n", "", NUMBERS),
    Mutant("entry_split", MMA, "mma/kernel.cu", "  forward<This<Entry::split>>(p);\n", "", NUMBERS),
    Mutant("entry_combine", COMBINE, "combine/kernel.cu", "  combine::combine_row(params, w, row);\n", "", NUMBERS),
    Mutant("combine_weights", COMBINE, "combine/kernel.cu", "part.sum * exp2f(part.max - finite)", "part.sum", NUMBERS),
    Mutant("simt_barrier", SIMT, "simt/forward.cuh", "    weigh<dim>(p, shared, mine, j);\n    __syncthreads();\n",
           "    weigh<dim>(p, shared, mine, j);\n", FAILED, 64),
    Mutant("simt_rescale", SIMT, "simt/forward.cuh", "for (float &o : mine.o[i]) o *= rescale;", "", NUMBERS, 64),
    Mutant("wait_for_the_splits", DEPENDENT, "combine/kernel.cu", "  wait_for_primary();\n", "", "", 64, "f32"),
]
