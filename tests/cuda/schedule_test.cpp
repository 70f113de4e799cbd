// Which work each block has, for every kind of schedule: the kernels' own function, compiled for the host.
#include <gtest/gtest.h>

#include <map>
#include <numeric>
#include <tuple>

#include "cuda/derive.h"
#include "cuda/inputs.h"
#include "cuda/launch.h"
#include "cuda/order.h"
#include "perf/dram/blocks.h"
#include "reference/random.h"

namespace fa::cuda {
namespace {

using kernels::Params;
using kernels::TileSchedulerParams;
using kernels::WorkTile;

/// Sequence, head group, first row and split of a tile that has rows.
using Key = std::tuple<int32_t, int32_t, int32_t, int64_t>;
using Counts = std::map<Key, int>;

/// A call of random shape, cut at random: every number that a kernel's schedule may hold.
struct RandomCall {
  std::vector<int32_t> cumulative, used;
  Params params = {};
  kernels::TileConfig tile = {};
  int64_t tiles;  // heads and sequences counted in

  explicit RandomCall(reference::Random *random) {
    Params &p = params;
    TileSchedulerParams &s = p.schedule;
    p.batch = int32_t(random->between(1, random->chance(20) ? 70 : 6));
    p.heads_kv = int32_t(random->between(1, 3));
    const auto group = int32_t(random->one_of(1, 2, 3));
    p.heads_q = p.heads_kv * group;
    p.rows_q = int32_t(random->between(0, 100)), p.rows_k = int32_t(random->between(0, 200));
    s.heads_per_tile = random->chance(40) ? group : 1;
    s.head_groups = p.heads_q / s.heads_per_tile;
    s.num_splits = int32_t(random->one_of(1, 1, 3));
    s.tile_rows = tile.rows = int(random->one_of(16, 32));
    tile.keys = 16;
    const bool packed = random->chance(25);  // whose warps take time on the host
    if (packed) pack(random);
    if (random->chance(30)) use_fewer(random);
    const int64_t longest = packed && random->chance(50) ? longest_sequence() : p.rows_q;
    const Tiles all =
        tiles_of(packed, p.batch, int64_t{p.rows_q} * s.heads_per_tile, longest * s.heads_per_tile, tile.rows);
    s.tiles = int32_t(number(all.count)), s.sequence_tiles = int32_t(all.of_sequence);
    const int64_t columns = int64_t{s.head_groups} * (packed ? 1 : p.batch);
    s.l2_section = random->between(1, columns);
    if (s.l2_section < columns) s.tail_tiles = int32_t(random->between(0, s.tiles));
    tiles = columns * s.tiles;
    p.partial_rows = 1 << 20;
    derive(&p), set_schedule(s, &p);
  }

  /// The work, by the definition of a call.
  Counts expected() const {
    const Params &p = params;
    Counts counts;
    for (int32_t b = 0; b < p.batch; b++)
      for (int32_t head = 0; head < p.schedule.head_groups; head++)
        for (int32_t row = 0; row < kernels::sequence(p, b).queries * p.schedule.heads_per_tile; row += tile.rows)
          for (int64_t split = 0; split < p.schedule.num_splits; split++) counts[{b, head, row, split}] = 1;
    return counts;
  }

  /// Counts a work, which has to be one of this call's.
  void count(const WorkTile &w, Counts *counts) const {
    if (w.rows == 0) return;
    ++(*counts)[{w.sequence.index, w.head_group, w.first_row, w.split}];
    ASSERT_EQ(w.rows, w.sequence.queries * params.schedule.heads_per_tile);
    ASSERT_EQ(w.kv_head, w.head_group * params.schedule.heads_per_tile / (params.heads_q / params.heads_kv));
  }

 private:
  void pack(reference::Random *random) {
    cumulative = {int32_t(random->chance(30) ? random->between(1, 50) : 0)};
    for (int32_t b = 0; b < params.batch; b++)
      cumulative.push_back(cumulative.back() + int32_t(random->chance(30) ? 0 : random->between(0, 100)));
    params.cu_seqlens_q = cumulative.data();
    params.rows_q = cumulative.back() + int32_t(random->chance(30) ? random->between(0, 200) : 0);
  }

  int64_t longest_sequence() const {
    int32_t most = 0;
    for (size_t b = 1; b < cumulative.size(); b++) most = std::max(most, cumulative[b] - cumulative[b - 1]);
    return most;
  }

  void use_fewer(reference::Random *random) {
    for (int32_t b = 0; b < params.batch; b++)
      used.push_back(int32_t(random->between(
          0, params.cu_seqlens_q ? params.cu_seqlens_q[b + 1] - params.cu_seqlens_q[b] : params.rows_q)));
    params.seqused_q = used.data();
  }
};

/// The calls of a test, in launches of a few tiles or in one: body(params, tiles of the launch).
template <class Body>
void for_each_launch(const RandomCall &call, int64_t launch_tiles, Body body) {
  Params p = call.params;
  for (int64_t first = 0; first < call.tiles; first += launch_tiles) {
    p.schedule.first_tile = first;
    const int64_t tiles = std::min(launch_tiles, call.tiles - first);
    p.schedule.blocks = tiles * p.schedule.num_splits;
    body(p, tiles);
  }
}

TEST(Schedule, EachTileIsWorkedOnOnce) {
  reference::Random random(1);
  for (int i = 0; i < 150; i++) {
    const RandomCall call(&random);
    Counts counts;
    const int64_t most = random.chance(30) ? random.between(1, std::max<int64_t>(call.tiles, 1)) : call.tiles;
    for_each_launch(call, most, [&](const Params &p, int64_t tiles) {
      std::map<int64_t, int> partial_rows;
      for (const dram::Block &block : dram::blocks_of(p, call.tile, tiles)) {
        call.count(block.work, &counts);
        ASSERT_LE(block.work.partial_row % p.partial_rows + call.tile.rows, tiles * call.tile.rows);
        ASSERT_EQ(++partial_rows[block.work.partial_row], 1);
      }
    });
    ASSERT_EQ(counts, call.expected()) << i;
  }
}

/// fa_combine has a block a tile, and finds it where its splits left their results.
TEST(Schedule, ACombinationHasTheTileOfItsSplits) {
  reference::Random random(2);
  for (int i = 0; i < 20; i++) {
    const RandomCall call(&random);
    for_each_launch(call, std::max<int64_t>(call.tiles / 2, 1), [&](const Params &p, int64_t tiles) {
      const auto blocks = dram::blocks_of(p, call.tile, tiles);
      for (int64_t place = 0; place < tiles; place++) {
        const WorkTile whole = dram::by_warp([&] { return kernels::get_work_tile(p, call.tile.rows, place, 0); });
        for (int64_t split = 0; split < p.schedule.num_splits; split++) {
          const WorkTile &part = blocks[size_t(place * p.schedule.num_splits + split)].work;
          ASSERT_EQ(part.split, split);
          ASSERT_EQ(part.partial_row, whole.partial_row + split * p.partial_rows);
          ASSERT_EQ(std::tuple(part.rows, part.first_row, part.head_group),
                    std::tuple(whole.rows, whole.first_row, whole.head_group));
        }
      }
    });
  }
}

/// The work tiles of all blocks of a persistent grid; the blocks of a cluster have equally many.
template <int Cluster>
void expect_each_once(reference::Random *random) {
  const RandomCall call(random);
  Counts counts;
  for_each_launch(call, std::max<int64_t>(call.tiles, 1), [&](const Params &p, int64_t) {
    std::vector<int> tile_counts;
    gridDim.x = uint32_t(random->between(1, 12) * Cluster);
    for (blockIdx.x = 0; blockIdx.x < gridDim.x; blockIdx.x++) {
      const auto tiles = dram::by_warp([&] {
        std::vector<WorkTile> all;
        kernels::for_each_work_tile<Cluster>(p, call.tile.rows, [&](const WorkTile &w) { all.push_back(w); });
        return all;
      });
      for (const WorkTile &w : tiles) call.count(w, &counts);
      tile_counts.push_back(int(tiles.size()));
      ASSERT_EQ(tile_counts.back(), tile_counts[blockIdx.x / Cluster * Cluster]);
    }
  });
  ASSERT_EQ(counts, call.expected());
}

TEST(Schedule, PersistentGridsAndClustersWorkOnEachTileOnce) {
  reference::Random random(3);
  for (int i = 0; i < 15; i++) {
    expect_each_once<1>(&random);
    expect_each_once<2>(&random);
    expect_each_once<4>(&random);
  }
}

/// Packed sequences, whose tiles begin where cu_seqlens_q says.
struct Packed {
  std::vector<int32_t> cumulative = {0};
  Params params = {};
  int32_t rows;

  /// length(b): of sequence b; longest: the call's bound.
  template <class F>
  Packed(int32_t batch, int32_t rows_of_tile, F length, int64_t longest = INT32_MAX) : rows(rows_of_tile) {
    for (int32_t b = 0; b < batch; b++) cumulative.push_back(cumulative.back() + length(b));
    Params &p = params;
    p.cu_seqlens_q = cumulative.data(), p.is_varlen = 1;
    p.batch = batch, p.heads_q = p.heads_kv = 1, p.rows_q = cumulative.back();
    TileSchedulerParams &s = p.schedule;
    s.heads_per_tile = s.head_groups = s.num_splits = 1, s.l2_section = 1, s.tile_rows = rows;
    const Tiles all = tiles_of(true, batch, p.rows_q, std::min<int64_t>(longest, p.rows_q), rows);
    s.tiles = int32_t(number(all.count)), s.sequence_tiles = int32_t(all.of_sequence), s.blocks = s.tiles;
    derive(&p), set_schedule(s, &p);
  }

  WorkTile work(int64_t place) const {
    return dram::by_warp([&] { return kernels::get_work_tile(params, rows, place, 0); });
  }

  /// Exchanges of a warp until it has its work.
  size_t exchanges(int64_t place) const {
    work(place);
    return dram::exchanges.known;
  }
};

/// By a search in powers of 32, whatever the number of sequences: one by one they took as many exchanges as there are.
TEST(Schedule, ManySequencesAreSearchedInAFewSteps) {
  for (const auto &[batch, steps] : std::map<int32_t, size_t>{
           {8, 1}, {32, 1}, {33, 2}, {1024, 2}, {1025, 3}, {32768, 3}, {66000, 4}, {100000, 4}, {1 << 20, 4}}) {
    reference::Random random(static_cast<uint64_t>(batch));
    const Packed call(batch, 64, [&](int32_t b) { return b % 1000 == 7 ? 300 : int32_t(random.between(0, 3)); });
    ASSERT_EQ(call.params.schedule.sequence_tiles, 0);
    for (int i = 0; i < 50; i++) {
      const int64_t b = random.between(0, batch - 1), first = call.cumulative[size_t(b)] / 64 + b;
      const int64_t rows = call.cumulative[size_t(b) + 1] - call.cumulative[size_t(b)];
      for (int64_t tile = 0; tile * 64 < rows; tile++) {
        const WorkTile w = call.work(call.params.schedule.tiles - 1 - first - tile);  // the last ones come first
        ASSERT_EQ(std::tuple(w.sequence.index, w.first_row, w.rows), std::tuple(b, tile * 64, rows));
      }
      ASSERT_LE(call.exchanges(random.between(0, call.params.schedule.tiles - 1)), steps);
    }
  }
}

/// Where all have as many tiles as the longest, or one less, none is searched for.
TEST(Schedule, SequencesOfOneLengthAreNotSearched) {
  const Packed call(66000, 64, [](int32_t b) { return b % 3 == 0 ? 16 : 15; }, 16);
  EXPECT_EQ(call.params.schedule.tiles, 66000);
  for (const int64_t place : {0, 1, 40000, 65999}) {
    EXPECT_EQ(call.work(place).sequence.index, 65999 - place);
    EXPECT_EQ(call.exchanges(place), 0u);
  }
}

/// Every second tile of these is without rows, or every third: in a grid of 132 blocks, some would have no others.
TEST(Schedule, TilesWithoutRowsAreSharedOut) {
  const auto one_of_two = [](int32_t b) { return b == 0 ? 65 : 64; };
  for (const Packed &call : {Packed(1320, 64, one_of_two, 65), Packed(1320, 128, [](int32_t) { return 64; })}) {
    Device device = {};
    device.sm_count = 132;
    kernels::TileConfig tile = {};
    tile.persistent = true;
    gridDim.x = uint32_t(grid_of(tile, call.params.schedule.blocks, device, true));
    ASSERT_GE(gridDim.x, 128u);
    size_t most = 0, all = 0;
    for (blockIdx.x = 0; blockIdx.x < gridDim.x; blockIdx.x++) {
      const size_t tiles = dram::by_warp([&] {
        size_t count = 0;
        kernels::for_each_work_tile(call.params, call.rows, [&](const WorkTile &w) { count += w.rows > 0; });
        return count;
      });
      most = std::max(most, tiles), all += tiles;
    }
    EXPECT_GE(all, 1320u);
    EXPECT_LE(double(most), 1.2 * double(all) / 132) << call.rows;
  }
}

/// The parameters of a plan's order.
struct Ordered {
  Attention attention;
  ForwardCall problem;
  Device device = {};
  kernels::TileConfig tile = {};
  TileSchedulerParams schedule = {};
  int64_t columns, slots;

  explicit Ordered(reference::Random *random) {
    attention.kv_dtype = random->one_of(FA_F16, FA_F32);
    attention.head_dim = attention.head_dim_v = random->one_of(64, 100, 256);
    attention.mask = random->chance(50) ? FA_MASK_CAUSAL : FA_MASK_NONE;
    problem.attention = &attention;
    problem.heads_kv = random->between(1, 40), problem.heads_q = problem.heads_kv * random->one_of(1, 4, 6);
    problem.batch = random->between(1, 20);
    problem.rows_k = problem.max_seqlen_k = random->between(1, 40000);
    device.l2_bytes = int(random->between(1, 130)) << 20;
    tile.cluster = int(random->one_of(1, 2, 4));
    schedule.heads_per_tile = random->chance(30) ? int32_t(problem.heads_q / problem.heads_kv) : 1;
    schedule.head_groups = int32_t(problem.heads_q) / schedule.heads_per_tile;
    schedule.tiles = int32_t(random->between(1, 300));
    schedule.num_splits = 1;
    columns = schedule.head_groups * problem.batch, slots = random->between(40, 300);
    set_order(problem, device, tile, slots, &schedule);
  }

  bool causal() const { return attention.mask != FA_MASK_NONE; }

  /// Columns of one key/value head, and the bytes that it has.
  int64_t head() const { return schedule.head_groups / problem.heads_kv; }
  int64_t bytes() const { return problem.rows_k * 2 * attention.head_dim * (attention.kv_dtype == FA_F32 ? 4 : 2); }
};

TEST(Order, AGroupsKeysAndValuesFitTheCache) {
  reference::Random random(4);
  int grouped = 0;
  double fullness = 0;  // of last groups
  for (int i = 0; i < 20000; i++) {
    const Ordered o(&random);
    const int64_t heads = o.schedule.l2_section / o.head();
    ASSERT_GE(o.schedule.l2_section, 1);
    ASSERT_LE(o.schedule.l2_section, o.columns);
    ASSERT_TRUE(o.schedule.tiles > 1 || o.schedule.l2_section == o.columns);
    if (o.schedule.l2_section == o.columns) continue;
    grouped++;
    ASSERT_EQ(o.schedule.l2_section % o.head(), 0) << "the heads of a key/value head are apart";
    const bool at_once = (o.schedule.l2_section - o.head()) * o.schedule.tiles < o.slots && o.causal();
    ASSERT_TRUE(heads == 1 || 2 * heads * o.bytes() <= o.device.l2_bytes || at_once);
    const int64_t whole = std::lcm<int64_t>(o.head(), o.tile.cluster);
    ASSERT_TRUE(o.schedule.l2_section < whole || o.schedule.l2_section % whole == 0) << "a cluster is in two groups";
    fullness += double((o.columns - 1) % o.schedule.l2_section + 1) / double(o.schedule.l2_section);
  }
  EXPECT_GT(grouped, 5000);
  EXPECT_GT(fullness / grouped, 0.85) << "last groups are left with little";
}

/// Where each column has several blocks at work side by side, and the device's places are taken a few times, tiles of
/// all columns come by their length.
TEST(Order, FewCausalTilesAreOneGroup) {
  reference::Random random(6);
  int few = 0;
  for (int i = 0; i < 20000; i++) {
    const Ordered o(&random);
    if (!o.causal() || o.columns * o.schedule.tiles >= 8 * o.slots || 2 * o.columns > o.slots) continue;
    few++;
    ASSERT_EQ(o.schedule.l2_section, o.columns);
  }
  EXPECT_GT(few, 200);
}

TEST(Order, ShortTilesComeLastUnderACausalMask) {
  reference::Random random(5);
  for (int i = 0; i < 20000; i++) {
    const Ordered o(&random);
    ASSERT_LE(8 * o.schedule.tail_tiles, o.schedule.tiles);
    if (!o.causal() || o.schedule.l2_section == o.columns) {
      ASSERT_EQ(o.schedule.tail_tiles, 0);
    } else if (o.schedule.tiles >= 8) {
      ASSERT_GE(o.schedule.tail_tiles, 1);
    }
  }
}

/// Tiles of the columns of a group alternately, the last ones first, and then the next group's; late ones at the end.
TEST(Order, IsByGroupThenByTile) {
  const auto places = [](int64_t group, int32_t late) {
    Params p = {};
    TileSchedulerParams &s = p.schedule;
    s.tiles = 4, s.l2_section = group, s.tail_tiles = late;
    p.batch = 1, s.head_groups = 3;
    std::string text;
    for (int64_t i = 0; i < 12; i++) {
      const kernels::TileCoord at = kernels::tile_coord(p, i);
      text += char('a' + at.column), text += char('0' + at.tile), text += ' ';
    }
    return text;
  };
  EXPECT_EQ(places(3, 0), "a3 b3 c3 a2 b2 c2 a1 b1 c1 a0 b0 c0 ");
  EXPECT_EQ(places(2, 0), "a3 b3 a2 b2 a1 b1 a0 b0 c3 c2 c1 c0 ");
  EXPECT_EQ(places(2, 1), "a3 b3 a2 b2 a1 b1 c3 c2 c1 a0 b0 c0 ");
  EXPECT_EQ(places(1, 4), "a3 b3 c3 a2 b2 c2 a1 b1 c1 a0 b0 c0 ");
}

}  // namespace
}  // namespace fa::cuda
