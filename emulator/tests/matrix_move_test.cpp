// ldmatrix, stmatrix and movmatrix: every byte against the fragments' formulas of the PTX ISA (9.7.14.5.15 to 17).
#include <gtest/gtest.h>

#include <functional>
#include <random>

#include "fragments.h"

namespace {

using emulated::WarpKernel;

/// Which byte of shared memory byte b of a lane's register r is.
using Source = std::function<int(int lane, int r, int b)>;

std::vector<uint8_t> random_bytes() {
  std::mt19937 random(5);
  std::vector<uint8_t> bytes(512);
  for (uint8_t &byte : bytes) byte = static_cast<uint8_t>(random());
  return bytes;
}

void check_load(const std::string &opcode, int registers, const Source &source) {
  WarpKernel kernel;
  kernel.results = registers;
  kernel.text = "ldmatrix.sync.aligned." + opcode + " " + WarpKernel::registers('d', 0, registers) + ", [%address];";
  std::vector<uint8_t> shared = random_bytes(), before = shared;
  std::vector<uint64_t> result = kernel.run({}, &shared);
  ASSERT_EQ(result.size(), static_cast<size_t>(registers) * 32) << opcode;
  for (int r = 0; r < registers; r++)
    for (int lane = 0; lane < 32; lane++)
      for (int b = 0; b < 4; b++)
        ASSERT_EQ(result[static_cast<size_t>(r * 32 + lane)] >> 8 * b & 255,
                  before[static_cast<size_t>(source(lane, r, b))])
            << opcode << " register " << r << " lane " << lane << " byte " << b;
}

void check_store(const std::string &opcode, int registers, const Source &target) {
  WarpKernel kernel;
  kernel.sources = registers;
  kernel.text = "stmatrix.sync.aligned." + opcode + " [%address], " + WarpKernel::registers('s', 0, registers) + ";";
  std::mt19937 random(6);
  std::vector<uint64_t> words(static_cast<size_t>(registers) * 32);
  for (uint64_t &word : words) word = static_cast<uint32_t>(random());
  std::vector<uint8_t> shared = random_bytes(), expected = shared;
  kernel.run(words, &shared);
  for (int r = 0; r < registers; r++)
    for (int lane = 0; lane < 32; lane++)
      for (int b = 0; b < 4; b++)
        expected[static_cast<size_t>(target(lane, r, b))] =
            static_cast<uint8_t>(words[static_cast<size_t>(r * 32 + lane)] >> 8 * b);
  ASSERT_EQ(shared, expected) << opcode;
}

// Matrix m is at rows 8 m to 8 m + 7 of 16 bytes; elements of 16 bits.
int plain16(int lane, int m, int b) {
  int row = lane / 4, column = lane % 4 * 2 + b / 2;
  return (8 * m + row) * 16 + column * 2 + b % 2;
}
int transposed16(int lane, int m, int b) {
  int column = lane / 4, row = lane % 4 * 2 + b / 2;
  return (8 * m + row) * 16 + column * 2 + b % 2;
}

TEST(MatrixMove, SixteenBits) {
  emulated::start();
  for (int count : {1, 2, 4}) {
    std::string number = ".x" + std::to_string(count);
    check_load("m8n8" + number + ".shared.b16", count, plain16);
    check_load("m8n8" + number + ".trans.shared::cta.b16", count, transposed16);
    if (emulated::capability() < 90) continue;
    check_store("m8n8" + number + ".shared.b16", count, plain16);
    check_store("m8n8" + number + ".trans.shared.b16", count, transposed16);
  }
}

TEST(MatrixMove, EightBits) {
  emulated::start();
  if (emulated::capability() < 100) GTEST_SKIP() << "needs SM 10.0";
  // The number of the row has bit 0 from the byte's bit 0, bit 1 from the register's, bits 2 and 3 from the lane's
  // lowest two; the byte's bit 1 is the left or right half of the row.
  for (int count : {1, 2})
    check_load("m16n16.x" + std::to_string(count) + ".trans.shared.b8", 2 * count, [](int lane, int r, int b) {
      int row = (b & 1) | (r & 1) << 1 | (lane & 3) << 2 | (r & 2) << 3;
      return row * 16 + (lane >> 2) + (b & 2) * 4;
    });
  for (int count : {1, 2, 4})
    check_store("m16n8.x" + std::to_string(count) + ".trans.shared.b8", count, [](int lane, int r, int b) {
      // Bytes 0 and 1 are elements of row lane / 4 of an accumulator's tile, 2 and 3 of the row 8 below.
      int row = lane / 4 + 8 * (b / 2), column = lane % 4 * 2 + b % 2;
      return (8 * r + column) * 16 + row;
    });
}

TEST(MatrixMove, FourAndSixBits) {
  emulated::start();
  if (emulated::capability() < 100) GTEST_SKIP() << "needs SM 10.0";
  for (int bits : {4, 6}) {
    WarpKernel kernel;
    kernel.results = 4;
    kernel.text = std::string("ldmatrix.sync.aligned.m8n16.x4.shared.b8x16.") +
                  (bits == 4 ? "b4x16_p64" : "b6x16_p32") + " {%d0, %d1, %d2, %d3}, [%address];";
    std::vector<uint8_t> shared = random_bytes(), before = shared;
    std::vector<uint64_t> result = kernel.run({}, &shared);
    ASSERT_EQ(result.size(), 128u);
    for (int r = 0; r < 4; r++)
      for (int lane = 0; lane < 32; lane++)
        for (int b = 0; b < 4; b++) {
          unsigned value = 0;
          for (int bit = 0; bit < bits; bit++) {
            int at = (lane % 4 * 4 + b) * bits + bit, byte = (8 * r + lane / 4) * 16 + at / 8;
            value |= (before[static_cast<size_t>(byte)] >> at % 8 & 1u) << bit;
          }
          ASSERT_EQ(result[static_cast<size_t>(r * 32 + lane)] >> 8 * b & 255, value) << bits << " " << lane;
        }
  }
}

TEST(MatrixMove, Transposition) {
  emulated::start();
  WarpKernel kernel;
  kernel.sources = kernel.results = 1;
  kernel.text = "movmatrix.sync.aligned.m8n8.trans.b16 %d0, %s0;";
  std::vector<uint64_t> words(32);
  for (size_t lane = 0; lane < 32; lane++) words[lane] = 2 * lane | (2 * lane + 1) << 16;  // element 8 row + column
  std::vector<uint64_t> result = kernel.run(words);
  ASSERT_EQ(result.size(), 32u);
  for (size_t row = 0; row < 8; row++)
    for (size_t column = 0; column < 8; column++)
      ASSERT_EQ(result[row * 4 + column / 2] >> column % 2 * 16 & 0xffff, 8 * column + row);
}

}  // namespace
