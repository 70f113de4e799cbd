// How evenly work tiles are handed out, where multiprocessors are alike, slow or taken: by the model of perf/dram.
#include "perf/dram/hand_out.h"

#include <gtest/gtest.h>

#include "perf/dram/calls.h"

namespace fa::dram {
namespace {

/// Of 16 equal work tiles on four multiprocessors.
double unevenness_of_16(const HandOut &hand_out, int64_t taken, int64_t slow) {
  return end_of(std::vector<double>(16, 3), hand_out, {4, taken, slow}).unevenness();
}

/// As emulator/tests/multiprocessor_test.cpp counts them in a launch.
TEST(HandOut, SixteenOnFour) {
  constexpr HandOut stride = {HandOut::stride, 4}, tickets = {HandOut::tickets, 4}, grid = {HandOut::grid, 4};
  for (const HandOut &each : {stride, tickets, grid}) EXPECT_EQ(unevenness_of_16(each, 0, 0), 1);
  EXPECT_DOUBLE_EQ(unevenness_of_16(stride, 1, 0), 8 / (16 / 3.0));   // the last block begins when others end
  EXPECT_DOUBLE_EQ(unevenness_of_16(tickets, 1, 0), 6 / (16 / 3.0));  // it has one work tile, its first
  EXPECT_DOUBLE_EQ(unevenness_of_16(grid, 1, 0), 6 / (16 / 3.0));
  EXPECT_DOUBLE_EQ(unevenness_of_16(stride, 0, 1), 8 / (16 / 3.5));
  EXPECT_DOUBLE_EQ(unevenness_of_16(tickets, 0, 1), 6 / (16 / 3.5));
}

/// A block that takes the next work tile when one begins has two, of which others could begin one.
TEST(HandOut, ASlowBlockIsLateWithWhatItTakesAhead) {
  const std::vector<double> seven(7, 3);
  EXPECT_EQ(end_of(seven, {HandOut::grid, 4, 0}, {4, 0, 1}).last, 2 * 3);
  EXPECT_EQ(end_of(seven, {HandOut::grid, 4, 3}, {4, 0, 1}).last, 4 * 3);
}

TEST(HandOut, BoundsAreThoseOfSharesAndOfWholeTiles) {
  const HandOut grid = {HandOut::grid, 8};
  const End equal = end_of(std::vector<double>(17, 2), grid, {4, 0, 1});  // two slots a multiprocessor
  EXPECT_DOUBLE_EQ(equal.even, 17 * 2 / 7.0);
  EXPECT_DOUBLE_EQ(equal.best, 3 * 2);
  const End longest = end_of({10, 1, 1}, grid, {4});
  EXPECT_EQ(longest.even, 10);
  EXPECT_EQ(longest.best, 10);
}

/// Shapes of perf/predictions.md.
struct Shape {
  int64_t batch, heads_q, heads_kv, rows_q, rows_k, dim;
  bool causal;
  int64_t dim_v = 0;
  std::vector<int32_t> lengths = {};

  Call on(const Gpu &gpu, bool warpgroups) const {
    Call call = {gpu, batch, rows_q, rows_k, heads_q, heads_kv, dim, causal};
    call.dim_v = dim_v, call.lengths = lengths, call.warpgroups = warpgroups;
    return call;
  }
};

const Shape shapes[] = {
    {4, 16, 16, 4096, 4096, 128, false},
    {4, 16, 16, 4096, 4096, 128, true},
    {4, 32, 32, 4096, 4096, 64, false},
    {8, 16, 16, 2048, 2048, 128, true},
    {2, 64, 8, 2048, 2048, 128, true},
    {2, 64, 8, 4096, 4096, 128, true},
    {2, 64, 8, 8192, 8192, 128, false},
    {2, 64, 8, 8192, 8192, 128, true},
    {1, 32, 8, 8192, 8192, 128, true},
    {1, 16, 16, 16384, 16384, 128, true},
    {1, 64, 8, 32768, 32768, 128, false},
    {1, 64, 8, 32768, 32768, 128, true},
    {2, 64, 8, 8192, 8192, 96, false},
    {2, 64, 8, 8192, 8192, 192, false},
    {1, 128, 128, 8192, 8192, 192, true, 128},
    {2, 64, 8, 8192, 8192, 256, false},
    {0, 32, 8, 0, 0, 128, true, 0, {77, 8192, 1000, 5000, 512, 3800, 1900, 4096, 6000, 2500, 300, 8000}},
};

struct Board {
  Gpu gpu;
  bool warpgroups;
};
const Board boards[] = {{h200, true}, {b200, true}, {h200, false}, {a100, false}};

/// An eighth of the multiprocessors is taken: 16 of 132.
constexpr int64_t parts_taken = 8;

template <class Body>
void for_each_call(Body body) {
  for (const Board &board : boards)
    for (const Shape &shape : shapes) {
      const Call call = shape.on(board.gpu, board.warpgroups);
      const Planned planned(call);
      SCOPED_TRACE(std::string(board.gpu.name) + " " + planned.plan.kernel().image->family_name + ": " + call.text());
      body(planned.plan, board.gpu.sms);
    }
}

TEST(HandOut, AllEndTogether) {
  for_each_call([](const cuda::ForwardPlan &plan, int64_t sms) {
    const End end = end_of(lengths_of(plan), HandOut::of(plan), {sms});
    EXPECT_LE(end.last, std::max(1.03 * end.even, end.best));
  });
}

/// By a stride an even call took 1.7 times as long where some are taken, and twice as long where one is slow.
TEST(HandOut, NobodyWaitsForThoseThatAreTakenOrSlow) {
  for_each_call([](const cuda::ForwardPlan &plan, int64_t sms) {
    const std::vector<double> lengths = lengths_of(plan);
    const HandOut hand_out = HandOut::of(plan);
    const bool few = static_cast<double>(lengths.size()) < 8.0 * static_cast<double>(sms);
    EXPECT_LE(end_of(lengths, hand_out, {sms, sms / parts_taken}).unevenness(), 1.1);
    // Of few equal tiles the last one of a slow multiprocessor is a seventh of the time.
    const End slow = end_of(lengths, hand_out, {sms, 0, 1});
    EXPECT_LE(slow.unevenness(), few && slow.best > slow.even ? 1.16 : 1.1);
  });
}

}  // namespace
}  // namespace fa::dram
