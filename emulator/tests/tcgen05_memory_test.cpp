// Tensor memory: loads, stores and copies against an independent account of which thread has which cell; faults.
#include <gtest/gtest.h>

#include "tcgen05_program.h"

namespace {

using namespace tcgen05;
using tensor::Layout;
using tensor::Matrix;

/// A shape of loads and stores: cells are numbered row by row, and dealt out to threads as the tables of the ISA do.
struct MoveShape {
  const char *name;
  int rows, registers, columns;  // of .x1
};

/// The cell (row, column of .x1) whose value register r of a thread has.
void cell_of(const std::string &name, int thread, int r, int &row, int &column) {
  int group = thread / 4, in_group = thread % 4;
  if (name == "32x32b") {
    row = thread;
    column = 0;
  } else if (name == "16x64b") {
    // Threads 0 and 2 of a group have the two columns of row `group`; 1 and 3 those of eight rows below.
    row = in_group == 0 || in_group == 2 ? group : group + 8;
    column = in_group < 2 ? 0 : 1;
  } else if (name == "16x128b") {
    row = r == 0 ? group : group + 8;
    column = in_group;
  } else {
    row = r < 2 ? group : group + 8;
    column = 2 * in_group + r % 2;
  }
}

TEST(Tcgen05, LoadsAndStores) {
  for (const MoveShape &shape :
       {MoveShape{"32x32b", 32, 1, 1}, {"16x64b", 16, 1, 2}, {"16x128b", 16, 2, 4}, {"16x256b", 16, 4, 8}})
    for (int times : {1, 4, 16})
      for (bool packed : {false, true})
        for (int upper : {0, 16}) {
          if (upper && shape.rows == 32) continue;
          int count = shape.registers * times;
          if (shape.columns * times * (packed ? 2 : 1) > 120) continue;
          std::string end = std::string(shape.name) + ".x" + std::to_string(times);
          std::string at = "[%t10+" + std::to_string((upper << 16) + 3) + "]",
                      to = "[%t10+" + std::to_string((upper << 16) + 130) + "]";
          std::string body = "tcgen05.ld.sync.aligned." + end + (packed ? ".pack::16b" : "") + ".b32 " +
                             registers("d", count) + ", " + at + ";\ntcgen05.wait::ld.sync.aligned;\n";
          for (int i = 0; i < count; i++)
            body += "st.global.u32 [%r4+" + std::to_string(4 * i) + "], %d" + std::to_string(i) + ";\n";
          body += "tcgen05.st.sync.aligned." + end + (packed ? ".unpack::16b" : "") + ".b32 " + to + ", " +
                  registers("d", count) + ";\ntcgen05.wait::st.sync.aligned;\n";
          std::vector<uint32_t> cells(threads * columns_kept);
          for (size_t i = 0; i < cells.size(); i++) cells[i] = static_cast<uint32_t>(i * 2654435761u);
          Outcome outcome = run(program(body, 2048), std::vector<uint8_t>(2048), cells);
          ASSERT_EQ(outcome.result, CUDA_SUCCESS) << end;
          std::vector<uint32_t> expected = cells;
          for (int t = 0; t < threads; t++)
            for (int i = 0; i < count; i++) {
              int row = 0, column = 0;
              cell_of(shape.name, t % 32, i % shape.registers, row, column);
              column += i / shape.registers * shape.columns;
              size_t line = static_cast<size_t>(t / 32 * 32 + upper + row) * columns_kept;
              uint32_t value = packed ? (cells[line + 3 + 2 * column] & 0xffff) | cells[line + 4 + 2 * column] << 16
                                      : cells[line + 3 + column];
              ASSERT_EQ(outcome.extra[t * 128 + i], value) << end << " thread " << t << " register " << i;
              if (packed) {
                expected[line + 130 + 2 * column] = value & 0xffff;
                expected[line + 131 + 2 * column] = value >> 16;
              } else {
                expected[line + 130 + column] = value;
              }
            }
          ASSERT_EQ(outcome.cells, expected) << end << (packed ? " packed" : "");
        }
}

TEST(Tcgen05, TwoHalvesOfColumns) {
  std::string body =
      "tcgen05.ld.sync.aligned.16x32bx2.x2.b32 {%d0, %d1}, [%t10+5], 40;\ntcgen05.wait::ld.sync.aligned;\n"
      "st.global.v2.u32 [%r4], {%d0, %d1};\n";
  std::vector<uint32_t> cells(threads * columns_kept);
  for (size_t i = 0; i < cells.size(); i++) cells[i] = static_cast<uint32_t>(i);
  Outcome outcome = run(program(body, 2048), std::vector<uint8_t>(2048), cells);
  ASSERT_EQ(outcome.result, CUDA_SUCCESS);
  for (int t = 0; t < threads; t++)
    for (int i = 0; i < 2; i++)
      ASSERT_EQ(outcome.extra[t * 128 + i],
                static_cast<uint32_t>((t / 32 * 32 + t % 16) * columns_kept + 5 + i + (t % 32 < 16 ? 0 : 40)));
}

TEST(Tcgen05, Copies) {
  struct Copy {
    const char *name;
    int rows, words;
    std::vector<std::vector<int>> lanes;  // of each 32 rows
  };
  for (const Copy &copy : {Copy{"128x256b", 128, 8, {{0}, {32}, {64}, {96}}},
                           {"128x128b", 128, 4, {{0}, {32}, {64}, {96}}},
                           {"64x128b.warpx2::02_13", 64, 4, {{0, 64}, {32, 96}}},
                           {"64x128b.warpx2::01_23", 64, 4, {{0, 32}, {64, 96}}},
                           {"32x128b.warpx4", 32, 4, {{0, 32, 64, 96}}}}) {
    constexpr int bytes = 32 * 1024;
    Matrix from(tensor::tf32, copy.rows, copy.words, 9);
    Layout layout{16, false, 8192, 128};
    std::vector<uint8_t> image(bytes);
    layout.write(tensor::tf32, from, image.data());
    std::vector<uint32_t> cells(threads * columns_kept, 77), expected = cells;
    for (int row = 0; row < copy.rows; row++)
      for (int first : copy.lanes[row / 32])
        for (int word = 0; word < copy.words; word++)
          expected[(first + row % 32) * columns_kept + 20 + word] = from.bits[row * copy.words + word];
    std::string body =
        std::string("@%p1 tcgen05.cp.cta_group::1.") + copy.name + " [%t7+20], %r6;\n" + commit_and_wait("1");
    Outcome outcome = run(program(body, bytes), image, cells, descriptor(2048, layout));
    ASSERT_EQ(outcome.result, CUDA_SUCCESS) << copy.name;
    ASSERT_EQ(outcome.cells, expected) << copy.name;
  }
}

bool no_seed() {
  const char *seed = std::getenv("FA_EMU_SEED");
  return !seed || std::string(seed) == "0";
}

/// Stores without a wait come in their order with loads; a product may come before them.
TEST(Tcgen05, NoProductSeesAStoreWithoutItsWait) {
  if (!no_seed()) GTEST_SKIP() << "under a seed stores may land early";
  std::vector<uint32_t> cells(threads * columns_kept);
  std::string body =
      "mov.u32 %d0, 0x3f800000;\ntcgen05.st.sync.aligned.32x32b.x1.b32 [%t10], {%d0};\nbar.sync 0;\n"
      "@%p1 tcgen05.mma.cta_group::1.kind::f16 [%t7], %r6, %r7, %t12, %p3;\n" +
      commit_and_wait("1");
  Layout layout{128, false, 16, 1024};
  uint64_t zeros = descriptor(2048, layout);
  Outcome outcome = run(program(body, 32 * 1024), std::vector<uint8_t>(32 * 1024), cells, zeros, zeros,
                        1u << 4 | 8u << 17 | 8u << 24, false);
  ASSERT_EQ(outcome.result, CUDA_SUCCESS);
  EXPECT_EQ(outcome.cells[0], 0x3f800000u);  // the store came behind the product, which is 0
}

/// A load's results are there when they are used, whether a wait comes before, behind or not at all.
TEST(Tcgen05, LoadsLandBeforeTheyAreUsed) {
  std::vector<uint32_t> cells(threads * columns_kept);
  for (size_t i = 0; i < cells.size(); i++) cells[i] = static_cast<uint32_t>(i);
  const std::string load =
                        "mov.u32 %d0, 9;\nmov.u32 %d1, 9;\ntcgen05.ld.sync.aligned.32x32b.x2.b32 {%d0, %d1}, [%t10];\n",
                    wait = "tcgen05.wait::ld.sync.aligned;\n";
  for (const std::string &use :
       {"st.global.v2.u32 [%r4], {%d0, %d1};\n" + wait,
        std::string("add.u32 %d2, %d1, 0;\nst.global.v2.u32 [%r4], {%d0, %d2};\n"),
        "mov.u32 %d2, %d1;\n" + wait + "st.global.v2.u32 [%r4], {%d0, %d2};\n",
        "setp.lt.u32 %p5, %t0, 64;\n@%p5 bra first;\n" + wait + "first:\nst.global.v2.u32 [%r4], {%d0, %d1};\n"}) {
    Outcome outcome = run(program(load + use, 2048), std::vector<uint8_t>(2048), cells);
    ASSERT_EQ(outcome.result, CUDA_SUCCESS) << use;
    for (int t = 0; t < threads; t++)
      for (int i = 0; i < 2; i++) ASSERT_EQ(outcome.extra[t * 128 + i], cells[t * columns_kept + i]) << use << t;
  }
}

TEST(Tcgen05, LoadsAndStoresKeepTheirOrder) {
  std::vector<uint32_t> cells(threads * columns_kept, 5);
  std::string body =
      "tcgen05.ld.sync.aligned.32x32b.x1.b32 {%d0}, [%t10];\ntcgen05.st.sync.aligned.32x32b.x1.b32 [%t10], {%t0};\n"
      "tcgen05.ld.sync.aligned.32x32b.x1.b32 {%d1}, [%t10];\ntcgen05.wait::st.sync.aligned;\n"
      "tcgen05.wait::ld.sync.aligned;\nst.global.v2.u32 [%r4], {%d0, %d1};\n";
  Outcome outcome = run(program(body, 2048), std::vector<uint8_t>(2048), cells);
  ASSERT_EQ(outcome.result, CUDA_SUCCESS);
  for (uint32_t t = 0; t < threads; t++) {
    ASSERT_EQ(outcome.extra[t * 128], 5u);
    ASSERT_EQ(outcome.extra[t * 128 + 1], t);
  }
}

int code_of(const std::string &body, uint32_t idesc = 0, uint64_t da = 0) {
  std::vector<uint8_t> image(32 * 1024);
  Layout layout{128, false, 16, 1024};
  return run(program(body, 32 * 1024), image, std::vector<uint32_t>(threads * columns_kept),
             descriptor(2048, layout) | da, descriptor(2048, layout), idesc)
      .result;
}

void expect_code(CUresult code, const std::string &body, uint32_t idesc = 0, uint64_t da = 0) {
  EXPECT_EXIT(std::_Exit(code_of(body, idesc, da) == code ? 0 : 1), testing::ExitedWithCode(0), "") << body;
}

/// Warp 0 has all columns when warp 1, which reaches the barrier last, asks for some.
TEST(Tcgen05, AnAllocationWaits) {
  const char *text = R"(
.version 8.7
.target sm_100a
.address_size 64
.visible .entry k(.param .u64 out) {
  .reg .pred %p<3>; .reg .b32 %r<6>; .reg .b64 %rd<2>;
  .shared .b32 where;
  mov.u32 %r1, %tid.x;
  setp.ge.u32 %p1, %r1, 32;
  setp.eq.u32 %p2, %r1, 32;
  mov.u32 %r2, where;
  @%p1 bra others;
  tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r2], 512;
others:
  bar.sync 0;
  @%p1 bra asks;
  tcgen05.dealloc.cta_group::1.sync.aligned.b32 0, 512;
  ret;
asks:
  tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r2], 64;
  ld.shared.u32 %r3, [%r2];
  add.u32 %r3, %r3, 7;
  ld.param.u64 %rd1, [out];
  @%p2 st.global.u32 [%rd1], %r3;
  tcgen05.dealloc.cta_group::1.sync.aligned.b32 0, 64;
  ret;
}
)";
  emulated::start();
  emulated::Array<uint32_t> out(std::vector<uint32_t>(1));
  ASSERT_EQ(emulated::launch(emulated::kernel(text, "k"), {1}, {64}, 0, out.address), CUDA_SUCCESS);
  EXPECT_EQ(out.values()[0], 7u);
}

TEST(Tcgen05Faults, WhatCannotBe) {
  std::string mma = "@%p1 tcgen05.mma.cta_group::1.kind::f16 [%t7], %r6, %r7, %t12, %p3;\n" + commit_and_wait("1");
  uint32_t good = 1u << 4 | 8u << 17 | 8u << 24;
  expect_code(CUDA_SUCCESS, mma, good);
  expect_code(CUDA_ERROR_ILLEGAL_INSTRUCTION, mma, good | 7u << 7);            // no such type of A
  expect_code(CUDA_ERROR_ILLEGAL_INSTRUCTION, mma, good | 1u << 17);           // N = 72 with M = 128
  expect_code(CUDA_ERROR_ILLEGAL_INSTRUCTION, mma, good, uint64_t{1} << 47);   // the descriptor's constant
  expect_code(CUDA_ERROR_ILLEGAL_ADDRESS, mma, good, uint64_t{0x2000} << 32);  // beyond the block's memory
  expect_code(CUDA_ERROR_ILLEGAL_INSTRUCTION, mma, good | 1u << 6);            // a reserved bit
  // An address that differs between lanes.
  expect_code(CUDA_ERROR_ILLEGAL_INSTRUCTION,
              "add.u32 %t10, %t10, %t0;\ntcgen05.ld.sync.aligned.32x32b.x1.b32 {%d0}, [%t10];\n");
  // Another warp's lanes; columns that nobody has; a second allocation after the permit is gone; columns not allocated.
  expect_code(CUDA_ERROR_ILLEGAL_ADDRESS,
              "xor.b32 %t10, %t10, 0x200000;\ntcgen05.ld.sync.aligned.32x32b.x1.b32 {%d0}, [%t10];\n");
  expect_code(CUDA_ERROR_ILLEGAL_ADDRESS, "tcgen05.ld.sync.aligned.32x32b.x4.b32 {%d0,%d1,%d2,%d3}, [%t10+510];\n");
  expect_code(CUDA_ERROR_ILLEGAL_INSTRUCTION, "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%t4], 32;\n");
  expect_code(CUDA_ERROR_ILLEGAL_INSTRUCTION, "tcgen05.dealloc.cta_group::1.sync.aligned.b32 %t7, 64;\n");
  expect_code(CUDA_ERROR_ILLEGAL_INSTRUCTION, "tcgen05.relinquish_alloc_permit.cta_group::2.sync.aligned;\n");
}

}  // namespace
