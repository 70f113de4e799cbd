// `fa append`: every option reaches its field. The files that the tool writes have the bytes of the library's own call
// on the same arrays, described here by hand.
#include <fa.h>
#include <gtest/gtest.h>

#include <deque>
#include <filesystem>
#include <utility>

#include "arrays.h"
#include "library.h"
#include "program.h"
#include "temporary.h"

namespace {

using fa::tool::Array;
using fa::tool::make_array;
using fa::tool::NpyType;
using fa::tool::read_npy;
using test::Finished;
using test::int32_array;
using test::random_array;
using test::save;

constexpr int64_t b = 2, sn = 3, hq = 4, hkv = 2, d = 64, rows = 12;

/// Arrays of one call, in files too, and the call as the options should describe it.
struct Call {
  test::TemporaryFolder folder;
  fa_desc desc;
  fa_append_args args;
  std::vector<std::string> options = {"append"};
  std::deque<Array> kept;  // the memory that args points to
  struct Written {
    std::string path;
    Array *array;
  };
  std::vector<Written> written;

  explicit Call(std::vector<int64_t> new_rows = {b, sn, hkv, d}) {
    fa_desc_init(&desc, sizeof desc);
    desc.dtype_q = FA_F32;
    desc.head_dim = d;
    fa_append_args_init(&args, sizeof args);
    tensor("--k", &args.k, random_array(NpyType::f32, new_rows, 1), FA_F32);
    tensor("--v", &args.v, random_array(NpyType::f32, new_rows, 2), FA_F32);
  }

  /// Keeps an array, and saves it as a file that the option names.
  Array *add(const std::string &option, Array array) {
    kept.push_back(std::move(array));
    options.insert(options.end(), {option, save(path(option), kept.back())});
    return &kept.back();
  }
  std::string path(const std::string &option) const { return folder / (option.substr(2) + ".npy"); }
  void add(const std::vector<std::string> &more) { options.insert(options.end(), more.begin(), more.end()); }

  /// The same of a tensor, whose dimensions are the array's, with 1 for the first ones that it lacks.
  Array *tensor(const std::string &option, fa_tensor *to, Array array, fa_dtype dtype) {
    Array *kept_array = add(option, std::move(array));
    std::vector<int64_t> s = kept_array->shape;
    s.insert(s.begin(), 4 - s.size(), 1);
    fa_tensor_init(to, kept_array->bytes.data(), dtype, s[0], s[1], s[2], s[3]);
    return kept_array;
  }
  /// A number for each row.
  void places(const std::string &option, fa_tensor *to, Array array) {
    Array *kept_array = add(option, std::move(array));
    const std::vector<int64_t> &s = kept_array->shape;
    fa_tensor_init(to, kept_array->bytes.data(), kept_array->type == NpyType::i32 ? FA_I32 : FA_I64,
                   s.size() == 2 ? s[0] : 1, s.back(), 1, 1);
  }
  void table(const std::string &option, fa_tensor *to, Array array) {
    Array *kept_array = add(option, std::move(array));
    fa_tensor_init(to, kept_array->bytes.data(), FA_F32, 1, kept_array->shape[0], 1, kept_array->shape[1]);
  }

  /// A tensor that is written, with contents before that are to stay where no token goes.
  Array *output(const std::string &option, fa_tensor *to, Array array, fa_dtype dtype) {
    Array *kept_array = tensor(option, to, std::move(array), dtype);
    written.push_back({path(option), kept_array});
    return kept_array;
  }
  void caches(std::vector<int64_t> shape = {b, rows, hkv, d}) {
    output("--k-cache", &args.k_cache, random_array(NpyType::f16, shape, 3), FA_F16);
    output("--v-cache", &args.v_cache, random_array(NpyType::f16, shape, 4), FA_F16);
    desc.dtype_q = FA_F32, desc.dtype_kv = FA_F16;
  }
  void quantised_caches(fa_dtype dtype, NpyType type, int64_t row) {
    Array codes = make_array(type, {b, rows, hkv, row});
    for (size_t i = 0; i < codes.bytes.size(); ++i) codes.bytes[i] = std::byte(i % 7);
    const auto cache = [&](const std::string &option, fa_tensor *to) {
      Array *array = add(option, codes);
      fa_tensor_init(to, array->bytes.data(), dtype, b, rows, hkv, d);
      written.push_back({path(option), array});
    };
    cache("--k-cache", &args.k_cache);
    cache("--v-cache", &args.v_cache);
    desc.dtype_kv = dtype;
  }
  void rotary() {
    table("--rotary-cos", &args.rotary_cos, random_array(NpyType::f32, {30, 16}, 6));
    table("--rotary-sin", &args.rotary_sin, random_array(NpyType::f32, {30, 16}, 7));
  }
  void queries(int64_t sq) {
    tensor("--q", &args.q, random_array(NpyType::f32, {b, sq, hq, d}, 8), FA_F32);
    kept.push_back(make_array(NpyType::f32, {b, sq, hq, d}));
    fa_tensor_init(&args.q_out, kept.back().bytes.data(), FA_F32, b, sq, hq, d);
    written.push_back({folder / "q_out.npy", &kept.back()});
    add({"--q-out", folder / "q_out.npy"});
  }

  /// Calls both, and compares files with arrays.
  void expect_right() {
    const Finished f = test::fa(options);
    ASSERT_EQ(f.code, 0) << f.err;
    const fa::tool::Op op = fa::tool::create_op(desc);
    std::vector<std::vector<std::byte>> before;
    for (const Written &each : written) before.push_back(each.array->bytes);
    ASSERT_EQ(fa_append(op.get(), &args), FA_OK) << fa_last_error();
    for (size_t i = 0; i < written.size(); ++i) {
      const Array got = read_npy(written[i].path);
      EXPECT_NE(before[i], written[i].array->bytes) << written[i].path << " is not written";
      EXPECT_EQ(got.type, written[i].array->type) << written[i].path;
      EXPECT_EQ(got.shape, written[i].array->shape) << written[i].path;
      EXPECT_EQ(got.bytes, written[i].array->bytes) << written[i].path;
      EXPECT_NE(f.out.find(" -> " + written[i].path + "\n"), f.out.npos) << f.out;
    }
  }
};

TEST(Append, RowsAfterThoseOfTheCache) {
  Call call;
  call.caches();
  call.args.cache_seqlens = call.add("--cache-seqlens", int32_array({4, 0}))->data<int32_t>();
  call.args.seqused_new = call.add("--seqused-new", int32_array({3, 2}))->data<int32_t>();
  call.args.kv_batch_idx = call.add("--kv-batch-idx", int32_array({1, 0}))->data<int32_t>();
  call.expect_right();
}

TEST(Append, PackedSequencesIntoPages) {
  Call call({7, hkv, d});
  call.caches({6, 4, hkv, d});
  call.args.cu_seqlens_new = call.add("--cu-seqlens-new", int32_array({0, 2, 7}))->data<int32_t>();
  call.args.num_seqs = 2;
  call.args.cache_seqlens = call.add("--cache-seqlens", int32_array({3, 1}))->data<int32_t>();
  Array *table = call.add("--block-table", int32_array({5, 0, 3, 1}, {2, 2}));
  fa_tensor_init(&call.args.block_table, table->bytes.data(), FA_I32, 2, 2, 1, 1);
  call.expect_right();
}

TEST(Append, SlotsOfEitherWidth) {
  for (const NpyType type : {NpyType::i32, NpyType::i64}) {
    Call call({5, hkv, d});
    call.caches({6, 4, hkv, d});
    Array slots = int32_array({23, -1, 0, 9, 10});
    if (type == NpyType::i64) {
      Array wide = make_array(NpyType::i64, {5});
      for (int i = 0; i < 5; ++i) wide.data<int64_t>()[i] = slots.data<int32_t>()[i];
      slots = wide;
    }
    call.places("--slot-mapping", &call.args.slot_mapping, std::move(slots));
    call.expect_right();
  }
}

TEST(Append, RotaryEmbeddingOfKeysAndQueries) {
  const std::pair<std::vector<std::string>, uint32_t> forms[] = {
      {{}, 0}, {{"--rotary-interleaved"}, FA_APPEND_ROTARY_INTERLEAVED}, {{"--rotary-tail"}, FA_APPEND_ROTARY_TAIL}};
  for (const auto &[more, flags] : forms) {
    Call call;
    call.caches();
    call.rotary();
    call.queries(2);
    call.add(more);
    call.args.flags = flags;
    call.args.cache_seqlens = call.add("--cache-seqlens", int32_array({4, 5}))->data<int32_t>();
    call.args.leftpad_k = call.add("--leftpad-k", int32_array({2, 0}))->data<int32_t>();
    call.expect_right();
  }
}

TEST(Append, Positions) {
  Call call;
  call.caches();
  call.rotary();
  call.queries(2);
  call.places("--positions", &call.args.positions, int32_array({9, 8, 7, 20, 21, 22}, {b, sn}));
  call.places("--q-positions", &call.args.q_positions, int32_array({1, 2, 3, 4}, {b, 2}));
  call.expect_right();
}

TEST(Append, ComputedScales) {
  for (const auto &[name, dtype, type, row] : {std::tuple("i8", FA_I8, NpyType::i8, d),
                                               {"e4m3", FA_E4M3, NpyType::v8, d},
                                               {"u4", FA_U4, NpyType::u8, d / 2}}) {
    SCOPED_TRACE(name);
    Call call;
    call.quantised_caches(dtype, type, row);
    call.args.flags = FA_APPEND_COMPUTE_SCALES;
    call.add({"--compute-scales"});
    if (type != NpyType::i8) call.add({"--dtype-kv", name});
    call.output("--k-scale", &call.args.k_scale, random_array(NpyType::f16, {b, rows, hkv, 4}, 5), FA_F16);
    call.output("--v-scale", &call.args.v_scale, random_array(NpyType::f32, {b, rows, hkv, 1}, 6), FA_F32);
    if (dtype == FA_U4) {
      call.output("--k-zero", &call.args.k_zero, random_array(NpyType::f16, {b, rows, hkv, 4}, 5), FA_F16);
      call.output("--v-zero", &call.args.v_zero, random_array(NpyType::f32, {b, rows, hkv, 1}, 6), FA_F32);
    }
    call.args.cache_seqlens = call.add("--cache-seqlens", int32_array({4, 5}))->data<int32_t>();
    call.expect_right();
  }
}

TEST(Append, GivenScales) {
  Call call;
  call.quantised_caches(FA_I4, NpyType::u8, d / 2);
  call.add({"--dtype-kv", "int4"});
  const auto positive = [](std::vector<int64_t> shape) {
    Array array = make_array(NpyType::f32, std::move(shape));
    for (int64_t i = 0; i < array.elements(); ++i) array.data<float>()[i] = 0.1F + 0.05F * static_cast<float>(i % 5);
    return array;
  };
  call.tensor("--k-scale", &call.args.k_scale, positive({hkv, 8}), FA_F32);
  call.tensor("--v-scale", &call.args.v_scale, positive({}), FA_F32);
  call.tensor("--k-zero", &call.args.k_zero, positive({hkv, 1}), FA_F32);
  call.expect_right();
}

TEST(Append, KeysInTwoParts) {
  for (const bool made : {false, true}) {
    Call call;
    call.quantised_caches(FA_I8, NpyType::i8, d);
    call.args.flags = FA_APPEND_COMPUTE_SCALES | FA_APPEND_ROTARY_TAIL;
    call.add({"--compute-scales", "--rotary-tail"});
    call.output("--k-scale", &call.args.k_scale, make_array(NpyType::f32, {b, rows, hkv, 2}), FA_F32);
    call.output("--v-scale", &call.args.v_scale, make_array(NpyType::f32, {b, rows, hkv, 2}), FA_F32);
    call.tensor("--k-rope", &call.args.k_rope, random_array(NpyType::f32, {b, sn, hkv, 32}, 8), FA_F32);
    call.output("--k-rope-cache", &call.args.k_rope_cache, make_array(NpyType::f32, {b, rows, hkv, 32}), FA_F32);
    call.rotary();
    call.desc.head_dim = d + 32, call.desc.head_dim_v = d, call.desc.head_dim_rope = 32;
    if (made) {
      for (Call::Written &each : call.written)
        std::fill(each.array->bytes.begin(), each.array->bytes.end(), std::byte{0});
      call.add({"--new-cache", "2,12", "--dtype-kv", "i8", "--groups", "2"});
    }
    call.expect_right();
  }
}

TEST(Append, Blocks) {
  Call call;
  call.quantised_caches(FA_Q8_0, NpyType::u8, 68);
  call.add({"--dtype-kv", "q8_0"});
  call.expect_right();
}

TEST(Append, KeysAlone) {
  Call call;
  call.options = {"append", "--k", call.path("--k")};
  call.args.v = {};
  call.output("--k-cache", &call.args.k_cache, random_array(NpyType::f32, {b, rows, hkv, d}, 3), FA_F32);
  call.expect_right();
}

TEST(Append, ConvertsAndTakesUint16AsBfloat16) {
  Call call;
  for (const auto &[option, tensor, kept] :
       {std::tuple("--k", &call.args.k, &call.kept[0]), {"--v", &call.args.v, &call.kept[1]}}) {
    save(call.path(option), converted(*kept, NpyType::f64));
    *kept = converted(*kept, NpyType::bf16);
    fa_tensor_init(tensor, kept->bytes.data(), FA_BF16, b, sn, hkv, d);
  }
  for (const auto &[option, tensor] : {std::pair("--k-cache", &call.args.k_cache), {"--v-cache", &call.args.v_cache}}) {
    Array bits = random_array(NpyType::bf16, {b, rows, hkv, d}, 3);
    bits.type = NpyType::u16;
    call.output(option, tensor, std::move(bits), FA_BF16);
  }
  call.desc.dtype_q = FA_BF16;
  call.add({"--dtype", "bf16", "--u2-as-bf16"});
  call.expect_right();
}

TEST(Append, HeadsBeforeRows) {
  for (const bool made : {false, true}) {
    Call call({b, hkv, sn, d});
    call.options.clear();
    call.add({"append", "--k", call.path("--k"), "--v", call.path("--v"), "--layout", "bhsd", "--compute-scales"});
    Array codes = make_array(NpyType::i8, {b, hkv, rows, d});
    call.output("--k-cache", &call.args.k_cache, codes, FA_I8);
    call.output("--v-cache", &call.args.v_cache, codes, FA_I8);
    Array scales = make_array(NpyType::f32, {b, hkv, rows, 2});
    call.output("--k-scale", &call.args.k_scale, scales, FA_F32);
    call.output("--v-scale", &call.args.v_scale, scales, FA_F32);
    call.desc.dtype_kv = FA_I8;
    call.args.flags = FA_APPEND_COMPUTE_SCALES;
    for (fa_tensor *tensor :
         {&call.args.k, &call.args.v, &call.args.k_cache, &call.args.v_cache, &call.args.k_scale, &call.args.v_scale}) {
      std::swap(tensor->shape[1], tensor->shape[2]);
      std::swap(tensor->stride[1], tensor->stride[2]);
    }
    if (made) call.add({"--new-cache", "2,12", "--dtype-kv", "i8", "--groups", "2"});
    call.expect_right();
  }
}

/// Each file is made as an array of 0 would be read, and existing ones are replaced.
TEST(Append, NewCaches) {
  for (const auto &[name, dtype, type, row] : {std::tuple("i8", FA_I8, NpyType::i8, d),
                                               {"u4", FA_U4, NpyType::u8, d / 2},
                                               {"q4_0", FA_Q4_0, NpyType::u8, int64_t{36}},
                                               {"f16", FA_F16, NpyType::f16, d}}) {
    SCOPED_TRACE(name);
    Call call;
    call.add({"--new-cache", "2,12", "--dtype-kv", name});
    const auto made = [&](const char *option, fa_tensor *tensor, NpyType of, fa_dtype element, int64_t bytes,
                          int64_t elements) {
      call.kept.push_back(make_array(of, {b, rows, hkv, bytes}));
      fa_tensor_init(tensor, call.kept.back().bytes.data(), element, b, rows, hkv, elements);
      call.written.push_back({call.path(option), &call.kept.back()});
      call.add({option, save(call.path(option), std::string("no array"))});
    };
    made("--k-cache", &call.args.k_cache, type, dtype, row, d);
    made("--v-cache", &call.args.v_cache, type, dtype, row, d);
    if (dtype == FA_I8 || dtype == FA_U4) {
      call.add({"--compute-scales", "--groups", "4", "--scale-dtype", "f16"});
      call.args.flags = FA_APPEND_COMPUTE_SCALES;
      made("--k-scale", &call.args.k_scale, NpyType::f16, FA_F16, 4, 4);
      made("--v-scale", &call.args.v_scale, NpyType::f16, FA_F16, 4, 4);
    }
    if (dtype == FA_U4) {
      made("--k-zero", &call.args.k_zero, NpyType::f16, FA_F16, 4, 4);
      made("--v-zero", &call.args.v_zero, NpyType::f16, FA_F16, 4, 4);
    }
    call.desc.dtype_kv = dtype;
    call.expect_right();
  }
}

/// Rows of the call, read and written, over the median: 2 x 3 tokens of 2 heads, k and v, f32 and f16.
TEST(Append, PrintsBytesOverTheMedianTime) {
  Call call;
  call.caches();
  call.add({"--repeat", "5", "--threads", "1", "--kernel", "cpu.generic", "--device", "cpu"});
  const Finished f = test::fa(call.options);
  ASSERT_EQ(f.code, 0) << f.err;
  EXPECT_NE(f.out.find("kernel     cpu.generic\n"), f.out.npos) << f.out;
  double median = 0, rate = 0;
  char unit[3] = "";
  const size_t at = f.out.find("median"), end = f.out.find("]: ");
  ASSERT_TRUE(at != f.out.npos && end != f.out.npos) << f.out;
  ASSERT_EQ(std::sscanf(f.out.c_str() + at, "median %lf %2[a-z]", &median, unit), 2) << f.out;
  ASSERT_EQ(std::sscanf(f.out.c_str() + end, "]: %lf GB/s", &rate), 1) << f.out;
  const double seconds = median * (std::string(unit) == "us" ? 1e-6 : std::string(unit) == "ms" ? 1e-3 : 1);
  EXPECT_NEAR(rate, 2 * 3 * 2 * 2 * 64 * (4 + 2) / seconds * 1e-9, 0.06 + rate * 0.01) << f.out;
}

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
