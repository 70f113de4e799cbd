// tcgen05.ld.red: the reduction over the columns of a lane, against a plain formulation of it.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "reported.h"
#include "tcgen05_program.h"

namespace {

using namespace tcgen05;

constexpr int first_column = 3, split = 40;

std::string load(const std::string &shape, int times, const std::string &reduction) {
  const bool halves = shape == "16x32bx2";
  return "tcgen05.ld.red.sync.aligned." + shape + ".x" + std::to_string(times) + "." + reduction + " " +
         registers("d", times) + ", %d127, [%t10+" + std::to_string(first_column) + "]" +
         (halves ? ", " + std::to_string(split) : "") + ";\n";
}

/// The loaded registers and the reduction's, of each thread.
Outcome run_load(const std::string &instruction, int times, const std::vector<uint32_t> &cells) {
  std::string body = instruction + "tcgen05.wait::ld.sync.aligned;\n";
  for (int i = 0; i < times; i++)
    body += "st.global.u32 [%r4+" + std::to_string(4 * i) + "], %d" + std::to_string(i) + ";\n";
  body += "st.global.u32 [%r4+508], %d127;\n";
  return run(program(body, 2048, true, "1", "sm_103a"), std::vector<uint8_t>(2048), cells);
}

/// The cell that register r of thread t comes from.
size_t cell_of(const std::string &shape, int t, int r) {
  const bool halves = shape == "16x32bx2";
  const int lane = t / 32 * 32 + (halves ? t % 16 : t % 32), far = halves && t % 32 >= 16 ? split : 0;
  return static_cast<size_t>(lane) * columns_kept + first_column + far + r;
}

/// Numbers of every kind, row by row: some rows have NaN, some nothing else, some both zeros.
std::vector<uint32_t> floats() {
  std::vector<uint32_t> cells(threads * columns_kept);
  for (int row = 0; row < threads; row++)
    for (int column = 0; column < columns_kept; column++) {
      const auto random = static_cast<uint32_t>((row * columns_kept + column) * 2654435761u);
      float x = static_cast<float>(static_cast<int32_t>(random)) * 0x1p-20f;
      if (row % 8 == 1 && random % 7 == 0) x = std::numeric_limits<float>::quiet_NaN();
      if (row % 8 == 2) x = -std::numeric_limits<float>::quiet_NaN();
      if (row % 8 == 3) x = random % 3 == 0 ? -0.0f : 0.0f;
      if (row % 8 == 4 && random % 5 == 0) x = random % 2 ? INFINITY : -INFINITY;
      if (row % 8 == 5) x = -std::fabs(x);
      cells[row * columns_kept + column] = std::bit_cast<uint32_t>(x);
    }
  return cells;
}

uint32_t expected_of_floats(const std::vector<float> &numbers, bool largest, bool magnitudes, bool nan_prevails) {
  bool any = false;
  float best = 0;
  for (float x : numbers) {
    if (magnitudes) x = std::fabs(x);
    if (std::isnan(x) && nan_prevails) return 0x7fffffff;
    if (std::isnan(x)) continue;
    const bool equal = any && x == best;
    const bool better = equal ? std::signbit(x) != largest : largest ? x > best : x < best;
    if (!any || better) best = x;
    any = true;
  }
  return any ? std::bit_cast<uint32_t>(best) : 0x7fffffff;
}

TEST(TensorReduction, Floats) {
  const std::vector<uint32_t> cells = floats();
  for (const std::string shape : {"32x32b", "16x32bx2"})
    for (int times : {2, 32, 64})
      for (bool largest : {false, true})
        for (bool magnitudes : {false, true})
          for (bool nan_prevails : {false, true}) {
            const std::string reduction = std::string(largest ? "max" : "min") + (magnitudes ? ".abs" : "") +
                                          (nan_prevails ? ".NaN" : "") + ".f32";
            const std::string what = shape + ".x" + std::to_string(times) + "." + reduction;
            const Outcome outcome = run_load(load(shape, times, reduction), times, cells);
            ASSERT_EQ(outcome.result, CUDA_SUCCESS) << what;
            for (int t = 0; t < threads; t++) {
              std::vector<float> numbers;
              for (int r = 0; r < times; r++) {
                const uint32_t bits = cells[cell_of(shape, t, r)];
                ASSERT_EQ(outcome.extra[t * 128 + r], bits) << what << ", thread " << t << ", register " << r;
                numbers.push_back(std::bit_cast<float>(bits));
              }
              ASSERT_EQ(outcome.extra[t * 128 + 127], expected_of_floats(numbers, largest, magnitudes, nan_prevails))
                  << what << ", thread " << t;
            }
          }
}

TEST(TensorReduction, Integers) {
  std::vector<uint32_t> cells(threads * columns_kept);
  for (size_t i = 0; i < cells.size(); i++) cells[i] = static_cast<uint32_t>(i * 2654435761u);
  for (bool is_signed : {false, true})
    for (bool largest : {false, true}) {
      // The ISA's own example has the type first.
      const std::string reduction = is_signed ? largest ? "max.s32" : "min.s32" : largest ? "u32.max" : "u32.min";
      const Outcome outcome = run_load(load("32x32b", 16, reduction), 16, cells);
      ASSERT_EQ(outcome.result, CUDA_SUCCESS) << reduction;
      for (int t = 0; t < threads; t++) {
        uint32_t best = cells[cell_of("32x32b", t, 0)];
        for (int r = 1; r < 16; r++) {
          const uint32_t x = cells[cell_of("32x32b", t, r)];
          const bool above = is_signed ? static_cast<int32_t>(x) > static_cast<int32_t>(best) : x > best;
          if (x != best && above == largest) best = x;
        }
        ASSERT_EQ(outcome.extra[t * 128 + 127], best) << reduction << ", thread " << t;
      }
    }
}

TEST(TensorReduction, WhatCannotBe) {
  struct Refused {
    std::string instruction, target, message;
  };
  for (const Refused &refused : {Refused{load("32x32b", 1, "max.f32"), "sm_103a", ".red needs .x2 or more"},
                                 {load("16x64b", 4, "max.f32"), "sm_103a", ".red is of .32x32b or .16x32bx2"},
                                 {load("32x32b", 4, "max.abs.u32"), "sm_103a", ".abs and .NaN are of .f32"},
                                 {load("32x32b", 4, "max.b32"), "sm_103a", ".red is of .f32, .u32 or .s32"},
                                 {load("32x32b", 4, "f32"), "sm_103a", ".red needs .min or .max"},
                                 {load("32x32b", 4, "max.f32"), "sm_100f", "needs .target sm_103a, sm_103f"}}) {
    const std::string report = emulated::reported([&] {
      emulated::start();
      emulated::kernel(program(refused.instruction, 2048, true, "1", refused.target), "k");
    });
    EXPECT_NE(report.find(refused.message), std::string::npos) << refused.instruction << report;
  }
}

}  // namespace
