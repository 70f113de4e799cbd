// Products of a warpgroup, four neighbouring warps of which each has 16 of 64 rows (PTX ISA, "Asynchronous warpgroup
// level matrix instructions"). They run on while their warps do other work: between wgmma_fence and wgmma_wait_group
// no thread may touch their sums, their A in registers, or their operands in shared memory.
#pragma once

#include "common/lanes.cuh"
#include "common/register_tile.cuh"
#include "common/registers.cuh"
#include "common/shared_tile.cuh"

namespace fa::kernels {

/// Orders this warp's writes of registers before products that use them.
__device__ inline void wgmma_fence() {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

/// Ends a group of this warpgroup's products.
__device__ inline void wgmma_commit_group() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

/// Waits until at most `Groups` of this warpgroup's groups are still under way.
template <int Groups>
__device__ inline void wgmma_wait_group() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(Groups) : "memory");
}

/// A barrier for the compiler: these registers are computed before it and used after it. The compiler does not know
/// that products use them for longer than an instruction.
template <int Blocks>
__device__ __forceinline__ void pin(AccumulatorTile<1, Blocks> &tile) {
  tile.for_each([](float &x, int, int) { asm volatile("" : "+f"(x)::"memory"); });
}
template <class T>
__device__ __forceinline__ void pin(FragmentsA<T, 1> &a) {
  unroll<4>([&](int i) { asm volatile("" : "+r"(a.block[0].word[i])::"memory"); });
}

/// How a matrix lies in shared memory, for wgmma: SharedTile's panels of 64 columns are the layout of SWIZZLE_128B,
/// those of 32 columns that of SWIZZLE_64B. Descriptors have addresses and distances in units of 16 bytes; those of a
/// tile differ in their lower word alone. The upper one looks like no constant to the compiler, which would otherwise
/// move it into its register before every product.
template <class Tile>
struct MatrixDescriptor {
  static_assert(Tile::rows % 8 == 0);
  static constexpr uint32_t swizzle = Tile::row_bytes == 128 ? 1 : 2;
  static constexpr uint32_t from_eight_rows_to_the_next = 8 * Tile::row_bytes / 16;
  static constexpr uint32_t panel = Tile::panel_bytes / 16;
  static constexpr int steps = Tile::panel_columns / 16;  // of k, in a panel

  uint32_t as_rows, as_columns, upper;

  /// By a whole warp.
  __device__ explicit MatrixDescriptor(uint32_t tile)
      : as_rows(kept_if_narrow(tile / 16 | 1u << 16)),
        as_columns(kept_if_narrow(tile / 16 | panel << 16)),
        upper(kept_if_narrow(swizzle << 30 | from_eight_rows_to_the_next)) {}

  /// Where the tile is.
  __device__ uint32_t address() const { return as_columns % (1u << 16) * 16; }

  /// Of a tile `tiles` behind this one.
  __device__ MatrixDescriptor operator+(uint32_t tiles) const {
    MatrixDescriptor other = *this;
    other.as_rows += tiles * (Tile::bytes / 16), other.as_columns += tiles * (Tile::bytes / 16);
    return other;
  }

  /// Of the tile's part from row `row`, a multiple of 8, and panel i on. The compiler takes it for another one at each
  /// call: of the only tile in a ring it would compute the descriptors of all products ahead of the loop, and spill
  /// them.
  __device__ __forceinline__ MatrixDescriptor from(int row, int i = 0) const {
    MatrixDescriptor other = *this;
    other.as_rows += row * (Tile::row_bytes / 16) + i * panel;
    other.as_columns += row * (Tile::row_bytes / 16) + i * panel;
    asm volatile("" : "+r"(other.as_rows), "+r"(other.as_columns));
    return other;
  }

  /// The tile's rows, as A or as columns of B: columns 16 k .. 16 k + 15.
  __device__ uint64_t rows(int k) const { return descriptor(as_rows + (k / steps * panel + k % steps * 2)); }

  /// The tile's columns as those of B: rows 16 k .. 16 k + 15.
  __device__ uint64_t columns(int k) const { return descriptor(as_columns + k * Tile::row_bytes); }

 private:
  /// Of wide tiles the uniform registers have no room for it.
  __device__ static uint32_t kept_if_narrow(uint32_t x) { return Tile::panels <= 2 ? in_register(x) : x; }

  __device__ uint64_t descriptor(uint32_t lower) const { return uint64_t{upper} << 32 | lower; }
};

/// d = a b, or d + a b, of 64 rows, as many columns as the sums have, and a depth of 16. A's rows and B's columns are rows
/// of shared memory, or, transposed, columns.
template <class T, int Columns>
struct Wgmma;

#define FA_SUM(d, i) "+f"((d).block[0][(i) / 4].x[(i) % 4])
#define FA_FOUR(d, i) FA_SUM(d, i), FA_SUM(d, i + 1), FA_SUM(d, i + 2), FA_SUM(d, i + 3)
#define FA_EIGHT(d, i) FA_FOUR(d, i), FA_FOUR(d, i + 4)
#define FA_SIXTEEN(d, i) FA_EIGHT(d, i), FA_EIGHT(d, i + 8)
#define FA_SUMS_16(d) FA_SIXTEEN(d, 0)
#define FA_SUMS_32(d) FA_SIXTEEN(d, 0), FA_SIXTEEN(d, 16)
#define FA_SUMS_48(d) FA_SUMS_32(d), FA_SIXTEEN(d, 32)
#define FA_SUMS_56(d) FA_SUMS_48(d), FA_EIGHT(d, 48)
#define FA_SUMS_64(d) FA_SUMS_48(d), FA_SIXTEEN(d, 48)
#define FA_SUMS_96(d) FA_SUMS_64(d), FA_SIXTEEN(d, 64), FA_SIXTEEN(d, 80)
#define FA_SUMS_128(d) FA_SUMS_96(d), FA_SIXTEEN(d, 96), FA_SIXTEEN(d, 112)

#define FA_NAMES_16 "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15"
#define FA_NAMES_32 \
  FA_NAMES_16       \
  ",%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31"
#define FA_NAMES_48 FA_NAMES_32 ",%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47"
#define FA_NAMES_56 FA_NAMES_48 ",%48,%49,%50,%51,%52,%53,%54,%55"
#define FA_NAMES_64 FA_NAMES_56 ",%56,%57,%58,%59,%60,%61,%62,%63"
#define FA_NAMES_96                                                  \
  FA_NAMES_64                                                        \
  ",%64,%65,%66,%67,%68,%69,%70,%71,%72,%73,%74,%75,%76,%77,%78,%79" \
  ",%80,%81,%82,%83,%84,%85,%86,%87,%88,%89,%90,%91,%92,%93,%94,%95"
#define FA_NAMES_128                                                             \
  FA_NAMES_96                                                                    \
  ",%96,%97,%98,%99,%100,%101,%102,%103,%104,%105,%106,%107,%108,%109,%110,%111" \
  ",%112,%113,%114,%115,%116,%117,%118,%119,%120,%121,%122,%123,%124,%125,%126,%127"

// a0 .. a5: the names of the operands that follow upon the sums.
#define FA_WGMMA(type, name, columns, sums, a0, a1, a2, a3, a4, a5)                                                 \
  template <>                                                                                                       \
  struct Wgmma<type, columns> {                                                                                     \
    using Sums = AccumulatorTile<1, columns / 8>;                                                                   \
    template <bool Accumulate>                                                                                      \
    __device__ __forceinline__ static void multiply(Sums &d, uint64_t a, uint64_t b) {                              \
      asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, " a2 ", 0;\nwgmma.mma_async.sync.aligned.m64n" #columns        \
                   "k16.f32." name "." name " {" FA_NAMES_##sums "}, " a0 ", " a1 ", p, 1, 1, 0, 0;\n}"             \
                   : FA_SUMS_##sums(d)                                                                              \
                   : "l"(a), "l"(b), "n"(int(Accumulate)));                                                         \
    }                                                                                                               \
    template <bool Accumulate>                                                                                      \
    __device__ __forceinline__ static void multiply_transposed(Sums &d, uint64_t a, uint64_t b) {                   \
      asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, " a2 ", 0;\nwgmma.mma_async.sync.aligned.m64n" #columns        \
                   "k16.f32." name "." name " {" FA_NAMES_##sums "}, " a0 ", " a1 ", p, 1, 1, 1, 1;\n}"             \
                   : FA_SUMS_##sums(d)                                                                              \
                   : "l"(a), "l"(b), "n"(int(Accumulate)));                                                         \
    }                                                                                                               \
    __device__ __forceinline__ static void multiply_add_transposed(Sums &d, const FragmentA<type> &a, uint64_t b) { \
      asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, " a5 ", 0;\nwgmma.mma_async.sync.aligned.m64n" #columns        \
                   "k16.f32." name "." name " {" FA_NAMES_##sums "}, {" a0 "," a1 "," a2 "," a3 "}, " a4            \
                                                                 ", p, 1, 1, 1;\n}"                                 \
                   : FA_SUMS_##sums(d)                                                                              \
                   : "r"(a.word[0]), "r"(a.word[1]), "r"(a.word[2]), "r"(a.word[3]), "l"(b), "n"(1));               \
    }                                                                                                               \
  };

FA_WGMMA(__half, "f16", 32, 16, "%16", "%17", "%18", "%19", "%20", "%21")
FA_WGMMA(__nv_bfloat16, "bf16", 32, 16, "%16", "%17", "%18", "%19", "%20", "%21")
FA_WGMMA(__half, "f16", 64, 32, "%32", "%33", "%34", "%35", "%36", "%37")
FA_WGMMA(__nv_bfloat16, "bf16", 64, 32, "%32", "%33", "%34", "%35", "%36", "%37")
FA_WGMMA(__half, "f16", 96, 48, "%48", "%49", "%50", "%51", "%52", "%53")
FA_WGMMA(__nv_bfloat16, "bf16", 96, 48, "%48", "%49", "%50", "%51", "%52", "%53")
FA_WGMMA(__half, "f16", 112, 56, "%56", "%57", "%58", "%59", "%60", "%61")
FA_WGMMA(__nv_bfloat16, "bf16", 112, 56, "%56", "%57", "%58", "%59", "%60", "%61")
FA_WGMMA(__half, "f16", 128, 64, "%64", "%65", "%66", "%67", "%68", "%69")
FA_WGMMA(__nv_bfloat16, "bf16", 128, 64, "%64", "%65", "%66", "%67", "%68", "%69")
FA_WGMMA(__half, "f16", 192, 96, "%96", "%97", "%98", "%99", "%100", "%101")
FA_WGMMA(__nv_bfloat16, "bf16", 192, 96, "%96", "%97", "%98", "%99", "%100", "%101")
FA_WGMMA(__half, "f16", 256, 128, "%128", "%129", "%130", "%131", "%132", "%133")
FA_WGMMA(__nv_bfloat16, "bf16", 256, 128, "%128", "%129", "%130", "%131", "%132", "%133")

#undef FA_WGMMA
#undef FA_NAMES_16
#undef FA_NAMES_32
#undef FA_NAMES_56
#undef FA_NAMES_48
#undef FA_NAMES_64
#undef FA_NAMES_96
#undef FA_NAMES_128
#undef FA_SUMS_128
#undef FA_SUMS_96
#undef FA_SUMS_64
#undef FA_SUMS_56
#undef FA_SUMS_48
#undef FA_SUMS_32
#undef FA_SUMS_16
#undef FA_SIXTEEN
#undef FA_EIGHT
#undef FA_FOUR
#undef FA_SUM

}  // namespace fa::kernels
