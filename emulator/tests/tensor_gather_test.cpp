// .tile::gather4 and .tile::scatter4: four rows of a tensor, in any order, to and from shared memory.
#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>

#include "box_case.h"
#include "reported.h"

namespace {

using emulated::Array;
using emulated::BoxCase;
using emulated::launch;
using emulated::Map;

using Bytes = std::vector<uint8_t>;

/// The column of a row's first element, and the rows.
struct Rows {
  int column;
  std::array<int, 4> row;
};

constexpr const char *gather = "cp.async.bulk.tensor.2d.shared::cta.global.tile::gather4.mbarrier::complete_tx::bytes";
constexpr const char *scatter = "cp.async.bulk.tensor.2d.global.shared::cta.tile::scatter4.bulk_group";
constexpr const char *rows = "[%d1, {%r1, %r2, %r3, %r4, %r5}]";

/// A cluster of this many blocks takes `bytes` of image to shared memory (at %r6), block 0's thread 0 executes the
/// instruction, which signals the mbarrier at %r7 of `counted` bytes or belongs to a bulk group, and the image goes
/// back to `image` after that was waited for. early: the first words of the tensor and of the image, before.
std::string program(const std::string &instruction, unsigned blocks) {
  return ".version 8.6\n.target sm_100a\n.address_size 64\n"
         ".visible .entry k(.param .align 64 .b8 map[128], .param .u64 tensor, .param .align 4 .b8 at[20],\n"
         " .param .u64 image, .param .u32 bytes, .param .u32 counted, .param .u64 early) .reqnctapercluster " +
         std::to_string(blocks) +
         " {\n.reg .b16 %h<2>; .reg .b32 %r<20>; .reg .b64 %d<20>; .reg .pred %p<6>;\n"
         ".shared .align 1024 .b8 tile[8192]; .shared .align 8 .b64 bar;\n"
         "mov.u64 %d1, map; cvta.param.u64 %d1, %d1; ld.param.u64 %d2, [tensor]; ld.param.u64 %d3, [image];\n"
         "ld.param.u64 %d4, [early]; ld.param.u32 %r10, [bytes]; ld.param.u32 %r11, [counted];\n"
         "ld.param.u32 %r1, [at]; ld.param.u32 %r2, [at+4]; ld.param.u32 %r3, [at+8]; ld.param.u32 %r4, [at+12];\n"
         "ld.param.u32 %r5, [at+16]; mov.u32 %r6, tile; mov.u32 %r7, bar; mov.u32 %r12, %tid.x;\n"
         "mov.u32 %r8, %cluster_ctarank; mul.lo.u32 %r9, %r8, %r10; cvt.u64.u32 %d5, %r9; add.u64 %d3, %d3, %d5;\n"
         "mov.u16 %h1, 3; setp.eq.u32 %p1, %r12, 0; mov.u32 %r13, %r12;\n"
         "fill: cvt.u64.u32 %d6, %r13; add.u64 %d6, %d6, %d3; ld.global.u8 %r14, [%d6]; add.u32 %r15, %r6, %r13;\n"
         "st.shared.u8 [%r15], %r14; add.u32 %r13, %r13, 32; setp.lt.u32 %p2, %r13, %r10;\n@%p2 bra fill;\n"
         "fence.proxy.async;\n@!%p1 bra ready;\n"
         "mbarrier.init.shared.b64 [%r7], 1; fence.mbarrier_init.release.cluster;\n"
         "mbarrier.arrive.expect_tx.shared.b64 _, [%r7], %r11;\nready: bar.sync 0;\n"
         "barrier.cluster.arrive; barrier.cluster.wait;\n"
         "setp.ne.u32 %p3, %r8, 0;\n@%p3 bra wait;\n@!%p1 bra wait;\n" +
         instruction +
         "\ncp.async.bulk.commit_group;\n"
         "ld.volatile.global.u32 %r14, [%d2]; ld.volatile.shared.u32 %r15, [%r6];\n"
         "st.global.v2.u32 [%d4], {%r14, %r15};\ncp.async.bulk.wait_group 0;\n"
         "wait: mbarrier.try_wait.parity.shared.b64 %p2, [%r7], 0;\n@!%p2 bra wait;\nmov.u32 %r13, %r12;\n"
         "back: add.u32 %r15, %r6, %r13; ld.shared.u8 %r14, [%r15]; cvt.u64.u32 %d6, %r13; add.u64 %d6, %d6, %d3;\n"
         "st.global.u8 [%d6], %r14; add.u32 %r13, %r13, 32; setp.lt.u32 %p2, %r13, %r10;\n@%p2 bra back;\n"
         "barrier.cluster.arrive; barrier.cluster.wait;\nret;\n}\n";
}

struct Outcome {
  CUresult code;
  Bytes tensor, image;
};

/// image: of every block. In order (no seed) neither it nor the tensor may change before somebody waits.
Outcome run(const std::string &instruction, const Map &map, Array<uint8_t> &tensor, const Rows &at, const Bytes &image,
            unsigned counted, unsigned blocks = 1) {
  Bytes before = tensor.values(), all;
  for (unsigned block = 0; block < blocks; block++) all.insert(all.end(), image.begin(), image.end());
  Array<uint8_t> images(all), early(Bytes(8));
  CUresult code = launch(emulated::kernel(program(instruction, blocks), "k"), {blocks}, {32}, 0, map, tensor.address,
                         at, images.address, static_cast<unsigned>(image.size()), counted, early.address);
  if (code != CUDA_SUCCESS) return {code, {}, {}};
  const char *seed = std::getenv("FA_EMU_SEED");
  if (!seed || std::atoi(seed) == 0) {
    EXPECT_EQ(std::memcmp(&early.values()[0], &before[0], 4), 0) << "rows are scattered before anyone waits";
    EXPECT_EQ(std::memcmp(&early.values()[4], &image[0], 4), 0) << "rows are gathered before anyone waits";
  }
  return {code, tensor.values(), images.values()};
}

Bytes random_bytes(size_t count, std::mt19937 &random) {
  Bytes bytes(count);
  for (uint8_t &byte : bytes) byte = static_cast<uint8_t>(random());
  return bytes;
}

/// A box of one row; its tensor has 20 rows, wider than the box.
BoxCase box_of(unsigned type, unsigned element, unsigned swizzle) {
  BoxCase one;
  one.type = type;
  one.element = element;
  one.rank = 2;
  one.swizzle = swizzle;
  one.box[0] = (swizzle ? one.span() : 96) / element;
  one.extent[0] = 2 * one.box[0] + 3;
  one.extent[1] = 20;
  one.stride[1] = (one.extent[0] * element + 15) / 16 * 16 + 16;
  return one;
}

/// Rows twice, backwards, and outside of the tensor on either side.
constexpr Rows places[] = {
    {0, {0, 1, 2, 3}}, {5, {19, 7, 7, 0}}, {-3, {-1, 4, 20, 12}}, {30, {3, 2, 1, -100}}, {1000, {1, 2, 3, 4}}};

void check_gather(BoxCase one, std::mt19937 &random) {
  Bytes tensor = random_bytes(one.tensor_bytes(), random);
  Array<uint8_t> memory(tensor);
  for (const Rows &at : places) {
    Bytes image(4 * one.pitch(), 0xee), expected = image;
    for (unsigned y = 0; y < 4; y++)
      for (unsigned x = 0; x < one.width(); x++)
        expected[one.place(y, x)] = one.value(tensor, {at.column, at.row[y]}, x);
    Outcome outcome = run(std::string(gather) + " [%r6], " + rows + ", [%r7];", one.encode(memory.address), memory, at,
                          image, 4 * one.width());
    ASSERT_EQ(outcome.code, CUDA_SUCCESS);
    EXPECT_EQ(outcome.image, expected) << "type " << one.type << " swizzle " << one.swizzle << " from " << at.column;
    EXPECT_EQ(outcome.tensor, tensor);
  }
}

TEST(Gather, EverySwizzleAndSize) {
  emulated::start();
  std::mt19937 random(21);
  for (unsigned swizzle = 0; swizzle <= 6; swizzle++) check_gather(box_of(6, 2, swizzle), random);
  check_gather(box_of(0, 1, 3), random);
  check_gather(box_of(7, 4, 2), random);
  check_gather(box_of(5, 8, 1), random);
}

TEST(Gather, FillsWithNaN) {
  emulated::start();
  std::mt19937 random(22);
  BoxCase one = box_of(9, 2, 3);
  one.fill = 1;
  check_gather(one, random);
}

TEST(Gather, IntoBothBlocksOfAPair) {
  emulated::start();
  std::mt19937 random(23);
  BoxCase one = box_of(2, 4, 0);
  Bytes tensor = random_bytes(one.tensor_bytes(), random), image(4 * one.pitch(), 0xee), expected;
  Array<uint8_t> memory(tensor);
  const Rows at = places[1];
  for (unsigned y = 0; y < 8; y++)
    for (unsigned x = 0; x < one.width(); x++) expected.push_back(one.value(tensor, {at.column, at.row[y % 4]}, x));
  Outcome outcome = run(std::string("cp.async.bulk.tensor.2d.shared::cluster.global.tile::gather4.mbarrier::complete_tx"
                                    "::bytes.multicast::cluster [%r6], ") +
                            rows + ", [%r7], %h1;",
                        one.encode(memory.address), memory, at, image, 4 * one.width(), 2);
  ASSERT_EQ(outcome.code, CUDA_SUCCESS);
  EXPECT_EQ(outcome.image, expected);
}

TEST(Scatter, EverySwizzle) {
  emulated::start();
  std::mt19937 random(24);
  for (unsigned swizzle = 0; swizzle <= 6; swizzle++) {
    BoxCase one = box_of(6, 2, swizzle);
    for (const Rows &at : {Rows{0, {3, 2, 0, 9}}, Rows{-3, {-1, 4, 20, 12}}, Rows{70, {19, 18, 17, 0}}}) {
      Bytes tensor = random_bytes(one.tensor_bytes(), random), image = random_bytes(4 * one.pitch(), random);
      Array<uint8_t> memory(tensor);
      Bytes expected = tensor;
      for (unsigned y = 0; y < 4; y++)
        for (unsigned x = 0; x < one.width(); x++) {
          int64_t to = one.offset({at.column, at.row[y]}, x);
          if (to >= 0) expected[static_cast<size_t>(to)] = image[one.place(y, x)];
        }
      Outcome outcome =
          run(std::string(scatter) + " " + rows + ", [%r6];", one.encode(memory.address), memory, at, image, 0);
      ASSERT_EQ(outcome.code, CUDA_SUCCESS);
      EXPECT_EQ(outcome.tensor, expected) << "swizzle " << swizzle << " to " << at.column;
    }
  }
}

TEST(Scatter, AddsToRowsThatAreThereTwice) {
  emulated::start();
  std::mt19937 random(25);
  BoxCase one = box_of(2, 4, 0);
  Bytes tensor = random_bytes(one.tensor_bytes(), random), image = random_bytes(4 * one.pitch(), random);
  Array<uint8_t> memory(tensor);
  const Rows at{1, {6, 6, 2, 6}};
  Bytes expected = tensor;
  for (unsigned y = 0; y < 4; y++)
    for (unsigned x = 0; x < one.width(); x += 4) {
      uint32_t sum, added;
      uint8_t *to = &expected[static_cast<size_t>(one.offset({at.column, at.row[y]}, x))];
      std::memcpy(&sum, to, 4);
      std::memcpy(&added, &image[one.place(y, x)], 4);
      sum += added;
      std::memcpy(to, &sum, 4);
    }
  Outcome outcome =
      run(std::string("cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.tile::scatter4.bulk_group ") + rows +
              ", [%r6];",
          one.encode(memory.address), memory, at, image, 0);
  ASSERT_EQ(outcome.code, CUDA_SUCCESS);
  EXPECT_EQ(outcome.tensor, expected);
}

/// Text that ptxas refuses is an error that names the line; a map that does not fit ends the launch.
TEST(Gather, Errors) {
  auto reported = [](const std::string &instruction, unsigned rank = 2, unsigned height = 1) {
    return emulated::reported([&] {
      emulated::start();
      BoxCase one = box_of(2, 4, 0);
      one.rank = rank;
      one.box[1] = height;
      one.stride[2] = one.stride[1] * one.extent[1];
      Bytes bytes(one.stride[2]);
      Array<uint8_t> memory(bytes);
      std::fprintf(stderr, "ends with %d\n",
                   run(instruction, one.encode(memory.address), memory, places[0], Bytes(4 * one.pitch()), 0).code);
    });
  };
  auto gives = [](const std::string &text, const char *error) {
    EXPECT_NE(text.find(error), std::string::npos) << text;
  };
  std::string prefetch = "cp.async.bulk.prefetch.tensor.2d.L2.global.tile::gather4 ", loads = gather, stores = scatter;
  gives(reported(prefetch + rows + ";"), "ends with 0");
  gives(reported(prefetch + rows + ";", 3), "ends with 715");
  gives(reported(prefetch + rows + ";", 2, 2), "ends with 715");
  gives(reported(prefetch + "[%d1, {%r1, %r2, %r3, %r4}];"), "gives 218");
  gives(reported(loads + " [%r6], [%d1, {%r1, %r2}], [%r7];"), "gives 218");
  gives(reported(stores + " [%d1, {%r1, %r2}], [%r6];"), "gives 218");
  auto changed = [](std::string text, const std::string &from, const std::string &to) {
    return text.replace(text.find(from), from.size(), to);
  };
  gives(reported(changed(loads, "gather4", "scatter4") + " [%r6], " + rows + ", [%r7];"), "gives 218");
  gives(reported(changed(stores, "scatter4", "gather4") + " " + rows + ", [%r6];"), "gives 218");
  gives(reported(changed(loads, "2d", "3d") + " [%r6], " + rows + ", [%r7];"), "gives 218");
  gives(reported(changed(loads, "2d", "5d") + " [%r6], " + rows + ", [%r7];"), "gives 218");
}

}  // namespace
