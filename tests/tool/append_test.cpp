// `fa append`: every option reaches its field. The files that the tool writes have the bytes of the library's own call
// on the same arrays, described here by hand.
#include "append_call.h"

namespace {

using namespace append_call;

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

TEST(Append, RotatedKeysAndValues) {
  for (const auto &[option, flag] :
       {std::pair("--hadamard-k", FA_FLAG_HADAMARD_K), {"--hadamard-v", FA_FLAG_HADAMARD_V}}) {
    Call call;
    call.caches();
    call.rotary();
    call.desc.flags = flag;
    call.add({option});
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

}  // namespace
