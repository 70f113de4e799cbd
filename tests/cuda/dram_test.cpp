// What calls read from a device's memory, by the model of bench/dram: the order of blocks is what keeps it low.
#include <gtest/gtest.h>

#include "bench/dram/cache.h"
#include "bench/dram/model.h"

namespace fa::dram {
namespace {

TEST(Cache, KeepsWhatWasUsedLast) {
  const char place[4] = {};
  Cache cache(10);
  cache.read(place, 4);
  cache.read(place + 1, 4);
  cache.read(place, 4);
  EXPECT_EQ(cache.bytes_read(), 8);
  cache.write(place + 2, 4);  // in place of the second
  cache.read(place, 4);
  EXPECT_EQ(cache.bytes_read(), 8);
  cache.read(place + 1, 4);
  EXPECT_EQ(cache.bytes_read(), 12);
  cache.read(place + 3, 11);  // more than there is room for
  cache.read(place, 4);
  EXPECT_EQ(cache.bytes_read(), 27);
  EXPECT_EQ(cache.bytes_written(), 4);
}

struct Bound {
  Call call;
  double before;  // TFLOP/s that memory lets through with all columns in turn
  double reads;   // now, as a multiple of what has to be read: at most
};

/// 256 heads of 4096 rows, of which the caches hold a few: in turn, each block reads its own keys and values.
TEST(Memory, ReadsKeysAndValuesAboutOnce) {
  const Bound bounds[] = {
      {{t4, 8, 4096, 4096, 32, 32, 128}, 40, 1.1},        {{l4, 8, 4096, 4096, 32, 32, 128}, 37, 1.1},
      {{a100, 8, 4096, 4096, 32, 32, 128}, 193, 2},       {{l4, 8, 4096, 4096, 32, 32, 128, true}, 35, 1.1},
      {{a10, 4, 8192, 8192, 32, 8, 128, true}, 210, 1.2},
  };
  for (const Bound &b : bounds) {
    const Planned planned(b.call);
    const Traffic least = least_traffic_of(planned.plan), now = traffic_of(planned.plan, b.call.gpu);
    const Traffic before = traffic_of(one_group(planned.plan), b.call.gpu);
    const std::string name = std::string(b.call.gpu.name) + ": " + b.call.text();
    EXPECT_LE(double(now.read), b.reads * double(least.read)) << name;
    EXPECT_GE(now.read, least.read) << name;
    EXPECT_NEAR(before.bound(b.call.gpu), b.before, 1) << name;
    EXPECT_GE(now.bound(b.call.gpu), b.call.gpu.peak) << name;
    EXPECT_EQ(now.operations, before.operations) << name;
    EXPECT_EQ(now.written, before.written) << name;
  }
}

/// Under a causal mask multiprocessors end together nearly as well as where all tiles come by their length.
TEST(Memory, MultiprocessorsStayBusy) {
  const Call calls[] = {
      {a100, 1, 8192, 8192, 32, 32, 128, true},   {a100, 1, 8192, 8192, 12, 12, 128, true},
      {a10, 1, 4096, 4096, 40, 40, 128, true},    {a10, 1, 4096, 4096, 12, 12, 128, true},
      {h100, 1, 16384, 16384, 16, 16, 128, true}, {rtx4090, 1, 2048, 2048, 128, 128, 128, true},
  };
  for (const Call &call : calls) {
    const Planned planned(call);
    const Traffic before = traffic_of(one_group(planned.plan), call.gpu), now = traffic_of(planned.plan, call.gpu);
    EXPECT_GE(now.busy(), before.busy() - 0.0125) << call.gpu.name << ": " << call.text();
    EXPECT_LE(now.read, before.read) << call.gpu.name << ": " << call.text();
  }
}

/// What fits the cache is read once, whatever the order.
TEST(Memory, SmallCallsAreOneGroup) {
  const Call small = {l4, 4, 512, 512, 8, 8, 64};
  const Planned planned(small);
  EXPECT_EQ(planned.plan.params.schedule.group, 32);
  EXPECT_EQ(traffic_of(planned.plan, l4).read, least_traffic_of(planned.plan).read);
}

}  // namespace
}  // namespace fa::dram
