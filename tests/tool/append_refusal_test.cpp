// `fa append`: calls that it refuses, and that the caches then stay as they were.
#include "append_call.h"

namespace {

using namespace append_call;

class AppendRefusal : public testing::Test {
 protected:
  /// The refusal has all parts in its text, and the cache is as it was.
  static void expect_refusal(Call &call, const std::vector<std::string> &parts, int code = 2) {
    std::vector<std::vector<std::byte>> before;
    for (const Call::Written &each : call.written) before.push_back(read_npy(each.path).bytes);
    const Finished f = test::fa(call.options);
    EXPECT_EQ(f.code, code) << f.err;
    EXPECT_TRUE(f.err.starts_with("fa append: ")) << f.err;
    for (const std::string &part : parts) EXPECT_NE(f.err.find(part), f.err.npos) << part << "\n" << f.err;
    for (size_t i = 0; i < before.size(); ++i) EXPECT_EQ(read_npy(call.written[i].path).bytes, before[i]);
    for (const std::string &name : call.folder.names()) EXPECT_TRUE(name.ends_with(".npy")) << name;
  }
  static void with(const std::vector<std::string> &more, const std::vector<std::string> &parts, int code = 2) {
    Call call;
    call.caches();
    call.add(more);
    expect_refusal(call, parts, code);
  }
};

TEST_F(AppendRefusal, Usage) {
  with({"--q", "q.npy"}, {"--q is given without --q-out; expected both or neither"});
  with({"--q-out", "q.npy"}, {"--q-out is given without --q;"});
  with({"--groups", "4"}, {"--groups needs --new-cache and --compute-scales"});
  with({"--scale-dtype", "f16", "--new-cache", "2,12"}, {"--scale-dtype needs --new-cache and --compute-scales"});
  with({"--new-cache", "12"}, {"--new-cache is '12'; N,ROWS"});
  with({"--new-cache", "0,12"}, {"--new-cache is '0,12'; both numbers are at least 1"});
  with({"--new-cache", "9999999999,9999999999"}, {"does not fit in any memory"});
  with({"--kernel", "cpu.abacus"}, {"no kernel is named 'cpu.abacus'"});
  with({"--device", "cuda"}, {"CUDA"}, 1);
  with({"--rotary-tail"}, {"FA_APPEND_ROTARY_* without args.rotary_cos"});
  const Finished none = test::fa({"append"});
  EXPECT_EQ(none.code, 2);
  EXPECT_NE(none.err.find("--k is missing; the shortest call is: fa append"), none.err.npos) << none.err;
  const Finished half = test::fa({"append", "--k", "k.npy", "--k-cache", "c.npy", "--v", "v.npy"});
  EXPECT_NE(half.err.find("--v is given without --v-cache; expected both or neither"), half.err.npos) << half.err;
}

TEST_F(AppendRefusal, Files) {
  {
    Call call;
    const std::string cache = save(call.folder / "c.npy", random_array(NpyType::f32, {b, rows, hkv, d}, 1));
    call.add({"--k-cache", cache, "--v-cache", (call.folder / "") + "./c.npy"});
    expect_refusal(call, {"--k-cache and --v-cache are the same file"});
  }
  {
    Call call;
    call.add({"--k-cache", call.path("--k"), "--v-cache", call.path("--v")});
    expect_refusal(call, {"k.npy: is an input, which the output would replace"});
  }
  {
    Call call;
    call.add({"--k-cache", call.folder / "missing.npy", "--v-cache", call.folder / "other.npy"});
    expect_refusal(call, {"missing.npy: is not there; --new-cache N,ROWS makes the files"});
  }
  {
    Call call;
    call.add({"--new-cache", "2,12", "--k-cache", call.folder / "no/c.npy", "--v-cache", call.folder / "v.npy"});
    call.options.back() = call.folder / "vc.npy";
    expect_refusal(call, {"no/c.npy: cannot be written"});
  }
}

TEST_F(AppendRefusal, TypesAndShapes) {
  with({"--dtype-kv", "i8"}, {"k-cache.npy: holds float16 (2, 12, 2, 64); --dtype-kv i8 expects int8"});
  with({"--dtype-kv", "f32"}, {"k-cache.npy: holds float16", "--dtype-kv f32 says that it holds float32"});
  with({"--compute-scales"}, {"FA_APPEND_COMPUTE_SCALES", "FA_F16"});
  {
    Call call({b, sn, hkv, 40});
    call.add({"--new-cache", "2,12", "--dtype-kv", "q8_0", "--k-cache", call.folder / "kc.npy", "--v-cache",
              call.folder / "vc.npy"});
    expect_refusal(call, {"--dtype-kv is q8_0; new rows have 40 elements, and a multiple of 32 is expected"});
  }
  {
    Call call;
    call.caches({rows, hkv, d});
    expect_refusal(call, {"k-cache.npy: shape (12, 2, 64); a cache has 4 dimensions"});
  }
  {
    Call call;
    call.quantised_caches(FA_I8, NpyType::i8, d);
    call.add(
        {"--compute-scales", "--k-scale", save(call.folder / "s.npy", make_array(NpyType::f64, {b, rows, hkv, 1}))});
    expect_refusal(call, {"s.npy: holds float64 (2, 12, 2, 1); scales and zeros are written in float32"});
  }
  {
    Call call;
    call.quantised_caches(FA_I8, NpyType::i8, d);
    call.add({"--compute-scales", "--k-scale", save(call.folder / "s.npy", make_array(NpyType::f32, {hkv, 1}))});
    expect_refusal(call, {"args.k_scale.shape[0] is 1; expected 2", "FA_APPEND_COMPUTE_SCALES"});
  }
}

/// The library finds it once the files are there to be written: they stay as they were.
TEST_F(AppendRefusal, Contents) {
  Call call;
  call.caches();
  call.add("--cache-seqlens", int32_array({4, 10}));
  expect_refusal(call, {"cache_seqlens", "10"});
  Call slots({3, hkv, d});
  slots.caches({6, 4, hkv, d});
  slots.add("--slot-mapping", int32_array({0, 24, 1}));
  expect_refusal(slots, {"slot_mapping", "24"});
  Call places({3, hkv, d});
  places.caches({6, 4, hkv, d});
  places.add("--slot-mapping", random_array(NpyType::f32, {3}, 1));
  expect_refusal(places, {"slot-mapping.npy: holds float32 (3,); an array of int32 (or int64) is expected"});
  Call table;
  table.caches();
  table.add("--rotary-cos", random_array(NpyType::f32, {16}, 1));
  expect_refusal(table, {"rotary-cos.npy: shape (16,); (positions, rotary_dim / 2) is expected"});
}

}  // namespace
