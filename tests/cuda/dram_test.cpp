// The bytes that calls read from a device's memory, by the model of perf/dram: the order of blocks keeps them low.
#include <gtest/gtest.h>

#include <stdexcept>

#include "perf/dram/cache.h"
#include "perf/dram/lines.h"
#include "perf/dram/model.h"

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
  double before;  // TFLOP/s that memory lets through with columns one after another
  double reads;   // now, as a multiple of the least: at most
};

/// 256 heads of 4096 rows, of which the caches hold a few: one after another, each block reads its own keys and values.
TEST(Memory, ReadsKeysAndValuesAboutOnce) {
  const Bound bounds[] = {
      {{t4, 8, 4096, 4096, 32, 32, 128}, 40, 1.1},        {{l4, 8, 4096, 4096, 32, 32, 128}, 37, 1.1},
      {{a100, 8, 4096, 4096, 32, 32, 128}, 193, 2},       {{l4, 8, 4096, 4096, 32, 32, 128, true}, 35, 1.1},
      {{a10, 4, 8192, 8192, 32, 8, 128, true}, 210, 1.2},
  };
  for (const Bound &b : bounds) {
    const Planned planned(b.call);
    const Traffic least = min_traffic_of(planned.plan), now = traffic_of(planned.plan, b.call.gpu);
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

/// Data that fits the cache is read once, whatever the order.
TEST(Memory, SmallCallsAreOneGroup) {
  const Call small = {l4, 4, 512, 512, 8, 8, 64};
  const Planned planned(small);
  EXPECT_EQ(planned.plan.loop[0].schedule.l2_section, 32);
  EXPECT_EQ(traffic_of(planned.plan, l4).read, min_traffic_of(planned.plan).read);
}

/// Pages are read as rows are: each key and value once where they fit the cache, and rows of the table's last page that
/// no key has are not read.
TEST(Memory, PagesAreReadOnce) {
  const Call dense = {l4, 4, 500, 500, 8, 8, 64};
  for (const int32_t page : {16, 48, 256}) {
    Call paged = dense;
    paged.page = page;
    const Planned planned(paged), plain(dense);
    EXPECT_EQ(planned.plan.kernel().entry, kernels::Entry::score_mod);
    // The bound of keys is whole pages: a call knows no other.
    const int64_t more = (500 + page - 1) / page * page - 500;
    EXPECT_EQ(traffic_of(planned.plan, l4).read, traffic_of(plain.plan, l4).read + 4 * 8 * more * 64 * 2 * 2) << page;
  }
}

/// A bias that all sequences and heads share is read as often as the cache drops it: once where it fits.
TEST(Memory, ABiasIsRead) {
  Call call = {l4, 4, 512, 512, 8, 8, 64};
  const int64_t without = traffic_of(Planned(call).plan, l4).read;
  call.bias = true;
  const Planned planned(call);
  EXPECT_EQ(planned.plan.kernel().entry, kernels::Entry::general);
  EXPECT_EQ(traffic_of(planned.plan, l4).read, without + 512 * 512 * 2);
}

/// Where a call asks for them, warpgroups take the calls that they support, with values of another width; few rows are
/// mma's.
TEST(Memory, WarpgroupsComeFirst) {
  Call call = {h200, 1, 512, 512, 8, 8, 192};
  call.splits = 1;
  EXPECT_STREQ(Planned(call).plan.kernel().image->family_name, "mma");
  call.warpgroups = true;
  const Planned wide(call);
  EXPECT_STREQ(wide.plan.kernel().image->family_name, "wgmma");
  call.dim_v = 128;
  const Planned narrow(call);
  EXPECT_EQ(narrow.plan.kernel().entry, kernels::Entry::narrow);
  const Traffic all = traffic_of(wide.plan, h200), less = traffic_of(narrow.plan, h200);
  EXPECT_EQ(all.read - less.read, 8 * 512 * 64 * 2);  // of values
  EXPECT_EQ(all.written - less.written, 8 * 512 * 64 * 2);
  call.rows_q = 1;
  const Planned decode(call);
  EXPECT_STREQ(decode.plan.kernel().image->family_name, "mma");
  EXPECT_EQ(decode.plan.kernel().entry, kernels::Entry::decode);
}

TEST(Lines, AreCalls) {
  const Call call =
      call_of("gpu=RTX_PRO_6000 batch=2 queries=16 keys=4096 heads=32 heads_kv=8 dim=128 causal=1 softcap=50");
  EXPECT_STREQ(call.gpu.name, "RTX PRO 6000");
  EXPECT_EQ(call.text(), "2 x 32/8 heads, 16 of 4096 rows, hd128, causal, softcap");
  const Call packed = call_of("lengths=77,512 gpu=L4 heads=4 heads_kv=4 dim=64 page=16");
  EXPECT_EQ(packed.text(), "4 heads, 2 packed of 77 to 512 rows, hd64, pages of 16");
  const Call narrow =
      call_of("gpu=H200 batch=1 queries=512 keys=512 heads=8 heads_kv=8 dim=192 dim_v=128 warpgroups=1");
  EXPECT_TRUE(narrow.warpgroups);
  EXPECT_EQ(narrow.text(), "1 x 8 heads, 512 rows, hd192/128");
}

TEST(Lines, SayWhatIsWrong) {
  const std::string right = "gpu=L4 batch=1 queries=1 keys=1 heads=8 heads_kv=2 dim=64";
  const char *const wrong[][2] = {
      {"gpu=L5", "got gpu=L5, expected one of T4, "},
      {"rows=5", "got rows=5, expected a word such as"},
      {"keys=many", "got keys=many, expected a number"},
      {"keys=-1", "got keys=-1, expected a number"},
      {"keys=0", "batch, queries and keys of 1 at least"},
      {"dim=300", "expected dim from 1 to 256"},
      {"dim_v=65", "expected dim_v of dim at most"},
      {"warpgroups=1", "expected warpgroups=1 on an H100 or H200"},
      {"heads_kv=3", "of which the former is a multiple"},
      {"lengths=1,x", "got lengths=1,x, expected a number"},
      {"=", "got =, expected a word such as"},
  };
  EXPECT_NO_THROW(call_of(right));
  for (const auto &[word, message] : wrong) {
    try {
      call_of(right + " " + word);
      ADD_FAILURE() << word;
    } catch (const std::invalid_argument &error) {
      EXPECT_NE(std::string(error.what()).find(message), std::string::npos) << error.what();
    }
  }
  EXPECT_THROW(call_of("batch=1 queries=1 keys=1 heads=8 heads_kv=2 dim=64"), std::invalid_argument);
}

}  // namespace
}  // namespace fa::dram
