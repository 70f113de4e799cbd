// Quantised keys and values of `fa run`, and trees: the tool's files are compared with the oracle's attention of the
// same arrays.
#include <gtest/gtest.h>

#include <filesystem>
#include <utility>

#include "arrays.h"
#include "program.h"
#include "reference/codes.h"
#include "run_calls.h"

namespace {

using test::Finished;
using test::int32_array;
using test::random_array;
using test::save;
using namespace test::run;

constexpr int64_t dim = 64;  // whole blocks

/// A call whose keys and values are codes.
struct Quantised : Call {
  Quantised() {
    q = random_array(NpyType::f32, {b, sq, hq, dim}, 1);
    save(folder / "q.npy", q);
    desc.head_dim = dim;
    fa_tensor_init(&args.q, q.bytes.data(), FA_F32, b, sq, hq, dim);
    out.resize(static_cast<size_t>(b * sq * hq * dim));
    fa_tensor_init(&args.out, out.data(), FA_F32, b, sq, hq, dim);
  }

  /// Codes of normal numbers in a file, and the tensor of them.
  void set(const char *file, Array *array, fa_tensor *tensor, fa_dtype dtype, NpyType type, uint64_t seed) {
    const Array numbers = random_array(NpyType::f32, {b, sk, hkv, dim}, seed);
    const int64_t row = reference::row_bytes(dtype, dim), unit = reference::unit_elements(dtype);
    *array = fa::tool::make_array(type, {b, sk, hkv, row});
    for (int64_t r = 0; r < b * sk * hkv; ++r) {
      std::byte *const to = &array->bytes[static_cast<size_t>(r * row)];
      for (int64_t e = 0; e < dim; e += unit) {
        double x[32];
        for (int64_t i = 0; i < unit; ++i) x[i] = numbers.value(r * dim + e + i);
        if (reference::codes_of(dtype)->block) {
          reference::store_block(to + reference::row_bytes(dtype, e), dtype, x);
        } else {
          for (int64_t i = 0; i < unit; ++i)
            reference::store_code(to, dtype, e + i, reference::middle_code(dtype) + x[i] * per_unit(dtype));
        }
      }
    }
    fa_tensor_init(tensor, array->bytes.data(), dtype, b, sk, hkv, dim);
    save(folder / file, *array);
  }
  void set_k(fa_dtype dtype, NpyType type = NpyType::u8) { set("k.npy", &k, &args.k, desc.dtype_kv = dtype, type, 2); }
  void set_v(fa_dtype dtype, NpyType type = NpyType::u8) { set("v.npy", &v, &args.v, desc.dtype_v = dtype, type, 3); }

  /// A factor that varies, in a file of fewer dimensions than the tensor has.
  void factor(const char *option, fa_tensor *tensor, std::vector<int64_t> shape, double low, double high) {
    Array array = fa::tool::make_array(NpyType::f32, shape);
    for (int64_t i = 0; i < array.elements(); ++i)
      array.data<float>()[i] = static_cast<float>(low + (high - low) * static_cast<double>(i % 7) / 6);
    Array *file = add(option, std::move(array));
    shape.insert(shape.begin(), 4 - shape.size(), 1);
    fa_tensor_init(tensor, file->bytes.data(), FA_F32, shape[0], shape[1], shape[2], shape[3]);
  }

  static double per_unit(fa_dtype dtype) { return reference::largest_code(dtype) / 4; }

  /// The dimensions of out follow those of this call.
  void expect_right() {
    const Finished f = test::fa(options);
    ASSERT_EQ(f.code, 0) << f.err;
    const reference::Result expected = reference::attention(desc, args);
    const Array got = read_npy(folder / "out.npy");
    ASSERT_EQ(static_cast<size_t>(got.elements()), expected.out.size());
    for (int64_t i = 0; i < got.elements(); ++i)
      ASSERT_NEAR(got.value(i), expected.out[static_cast<size_t>(i)], 2e-5) << "element " << i;
  }
};

struct Format {
  fa_dtype dtype;
  const char *name;
};
constexpr Format formats[] = {
#define FA_CODES(dtype, number, name, kind, elements, bytes) {FA_##dtype, #name},
#include "src/core/codes.inc"
#undef FA_CODES
};

TEST(RunQuantised, EveryFormatInEachScale) {
  const std::vector<int64_t> shapes[] = {{}, {1}, {hkv, 1}, {hkv, 4}, {sk, hkv, 1}, {b, sk, hkv, 2}, {b, 1, 1, dim}};
  size_t turn = 0;
  for (const Format &format : formats) {
    SCOPED_TRACE(format.name);
    Quantised call;
    const bool numpy_has_it = std::string(format.name) == "i8";
    const NpyType type = numpy_has_it ? NpyType::i8 : NpyType::u8;
    call.set_k(format.dtype, type);
    call.set_v(format.dtype, type);
    if (!numpy_has_it) call.add({"--dtype-kv", format.name});
    if (!reference::codes_of(format.dtype)->block) {
      const double unit = 1 / Quantised::per_unit(format.dtype), zero = reference::middle_code(format.dtype);
      const auto next = [&] { return shapes[turn++ % std::size(shapes)]; };
      call.factor("--k-scale", &call.args.k_scale, next(), unit / 2, 2 * unit);
      call.factor("--v-scale", &call.args.v_scale, next(), unit / 2, 2 * unit);
      call.factor("--k-zero", &call.args.k_zero, next(), zero - 0.5, zero + 0.5);
      call.factor("--v-zero", &call.args.v_zero, next(), zero - 0.5, zero + 0.5);
    }
    call.expect_right();
  }
}

TEST(RunQuantised, ValuesOfAnotherFormat) {
  Quantised call;
  call.set_k(FA_E4M3, NpyType::v8);
  call.set_v(FA_Q8_0);
  call.add({"--dtype-kv", "float8_e4m3fn", "--dtype-v", "q8_0"});
  call.expect_right();
}

TEST(RunQuantised, NumbersAsValues) {
  Quantised call;
  call.set_k(FA_Q4_0);
  call.v = random_array(NpyType::f16, {b, sk, hkv, dim}, 3);
  save(call.folder / "v.npy", call.v);
  fa_tensor_init(&call.args.v, call.v.bytes.data(), FA_F16, b, sk, hkv, dim);
  call.desc.dtype_v = FA_F16;
  call.add({"--dtype-kv", "q4_0", "--dtype-v", "f16"});
  call.expect_right();
}

/// The second part of keys, of a separate type.
TEST(RunQuantised, KeysInTwoParts) {
  constexpr int64_t rope = 16;
  Quantised call;
  call.set_v(FA_Q8_0);
  call.k = random_array(NpyType::f16, {b, sk, hkv, dim - rope}, 2);
  save(call.folder / "k.npy", call.k);
  fa_tensor_init(&call.args.k, call.k.bytes.data(), FA_F16, b, sk, hkv, dim - rope);
  Array *last = call.add("--k-rope", random_array(NpyType::f32, {b, sk, hkv, rope}, 9));
  fa_tensor_init(&call.args.k_rope, last->bytes.data(), FA_F32, b, sk, hkv, rope);
  call.desc.dtype_kv = FA_F16, call.desc.dtype_k_rope = FA_F32, call.desc.head_dim_rope = rope;
  call.add({"--dtype-kv", "f16", "--dtype-v", "q8_0"});
  call.expect_right();

  save(call.folder / "k-rope.npy", random_array(NpyType::f32, {b, sk, hkv, rope - 1}, 9));
  const Finished f = test::fa(call.options);
  EXPECT_EQ(f.code, 2) << f.out;
  for (const char *word : {"k.npy: head dimension 48", "k-rope.npy: 15", "expected 64 together"})
    EXPECT_NE(f.err.find(word), f.err.npos) << f.err;
}

TEST(RunQuantised, ConvertsNumbersToTheTypeOfACache) {
  Call call;
  for (Array *array : {&call.k, &call.v}) *array = converted(std::move(*array), NpyType::f16);
  fa_tensor_init(&call.args.k, call.k.bytes.data(), FA_F16, b, sk, hkv, d);
  fa_tensor_init(&call.args.v, call.v.bytes.data(), FA_F16, b, sk, hkv, d);
  call.desc.dtype_kv = FA_F16;
  call.add({"--dtype-kv", "f16"});
  call.expect_right();
}

TEST(RunQuantised, HeadsBeforeRows) {
  Quantised call;
  call.set_k(FA_I4);
  call.set_v(FA_I4);
  call.factor("--k-scale", &call.args.k_scale, {b, sk, hkv, 2}, 0.2, 2);
  call.factor("--v-scale", &call.args.v_scale, {sk, hkv, 4}, 0.2, 2);
  call.add({"--dtype-kv", "i4"});
  ASSERT_EQ(test::fa(call.options).code, 0);
  const auto transposed = [](const Array &from) {
    const std::vector<int64_t> &s = from.shape;
    const size_t size = fa::tool::npy_type_bytes(from.type);
    const int64_t n = s.size() == 4 ? s[0] : 1, rows = s[s.size() - 3], heads = s[s.size() - 2], row = s.back();
    std::vector<int64_t> shape = s;
    std::swap(shape[s.size() - 3], shape[s.size() - 2]);
    Array to = fa::tool::make_array(from.type, shape);
    for (int64_t i = 0; i < n * rows * heads * row; ++i) {
      const int64_t e = i % row, h = i / row % heads, r = i / row / heads % rows, m = i / row / heads / rows;
      std::copy_n(&from.bytes[static_cast<size_t>(i) * size], size,
                  &to.bytes[static_cast<size_t>(((m * heads + h) * rows + r) * row + e) * size]);
    }
    return to;
  };
  const Array expected = transposed(read_npy(call.folder / "out.npy"));
  for (const char *name : {"q.npy", "k.npy", "v.npy", "k-scale.npy", "v-scale.npy"})
    save(call.folder / name, transposed(read_npy(call.folder / name)));
  call.add({"--layout", "bhsd"});
  ASSERT_EQ(test::fa(call.options).code, 0);
  EXPECT_EQ(read_npy(call.folder / "out.npy").bytes, expected.bytes);
}

TEST(RunQuantised, Trees) {
  Call call;
  call.desc.mask = FA_MASK_CAUSAL;
  call.add({"--causal"});
  Array *mask = call.add("--tree-mask", int32_array({1, 3, 5, 11, 21}, {sq, 1}));
  fa_tensor_init(&call.args.tree_mask, mask->bytes.data(), FA_I32, 1, 1, sq, 1);
  Array *depth = call.add("--tree-depth", int32_array({0, 1, 1, 2, 2, 0, 1, 2, 3, 4}, {b, sq}));
  fa_tensor_init(&call.args.tree_depth, depth->bytes.data(), FA_I32, b, sq, 1, 1);
  Array *slopes = call.add("--alibi", random_array(NpyType::f32, {hq}, 5));
  fa_tensor_init(&call.args.alibi_slopes, slopes->bytes.data(), FA_F32, 1, hq, 1, 1);
  call.expect_right();
}

/// The refusal has all parts in its text, and there is no output.
void expect_refusal(const Call &call, const std::vector<std::string> &parts) {
  const Finished f = test::fa(call.options);
  EXPECT_EQ(f.code, 2) << f.err;
  EXPECT_TRUE(f.err.starts_with("fa run: ")) << f.err;
  for (const std::string &part : parts) EXPECT_NE(f.err.find(part), f.err.npos) << part << "\n" << f.err;
  EXPECT_FALSE(std::filesystem::exists(call.folder / "out.npy"));
}

TEST(RunQuantised, Refusals) {
  const auto with = [](const std::vector<std::string> &more, const std::vector<std::string> &parts) {
    Quantised call;
    call.set_k(FA_I8, NpyType::u8);
    call.set_v(FA_I8, NpyType::i8);
    call.add(more);
    expect_refusal(call, parts);
  };
  with({},
       {"k.npy: holds uint8 (2, 9, 2, 64); if these are codes, say of which format, --dtype-kv e4m3, e5m2, i4, u4"});
  with({"--dtype-kv", "i8"}, {"k.npy: holds uint8", "--dtype-kv i8 expects int8"});
  with({"--dtype-kv", "q8_0"}, {"k.npy: shape (2, 9, 2, 64)", "multiple of 34 bytes, which 32 elements of q8_0"});
  with({"--dtype-kv", "u4"}, {"v.npy: holds int8", "--dtype-kv u4 expects uint8, 2 elements a byte"});
  with({"--dtype-kv", "e4m3", "--dtype-v", "q4_0"},
       {"v.npy: holds int8", "--dtype-v q4_0 expects uint8, 18 bytes for 32 elements"});
  with({"--dtype-kv", "i4", "--dtype-v", "i8"}, {"k.npy: head dimension 128; expected 64, as", "q.npy has"});
  with({"--dtype-kv", "e4m3", "--dtype-v", "i8"}, {"args.v_scale.data is NULL"});

  Quantised call;
  call.set_k(FA_E5M2, NpyType::v8);
  call.set_v(FA_E5M2, NpyType::v8);
  call.add({"--dtype-kv", "i4"});
  expect_refusal(call, {"k.npy: holds void8", "--dtype-kv i4 expects uint8, 2 elements a byte"});
  call.options.pop_back();
  call.add({"e5m2"});
  call.expect_right();
}

TEST(RunQuantised, RefusesScalesThatDoNotFit) {
  const auto with = [](const char *option, const Array &array, const std::vector<std::string> &parts) {
    Quantised call;
    call.set_k(FA_I8, NpyType::i8);
    call.set_v(FA_Q8_0);
    call.add({"--dtype-v", "q8_0"});
    if (option != std::string("--k-scale")) call.factor("--k-scale", &call.args.k_scale, {}, 1, 1);
    call.add(option, array);
    expect_refusal(call, parts);
  };
  with("--k-scale", random_array(NpyType::f32, {b, sq, hkv, 1}, 1), {"args.k_scale.shape[1] is 5; expected 1 or 9"});
  with("--k-scale", random_array(NpyType::f32, {3}, 1), {"args.k_scale.shape[3] is 3; expected a divisor"});
  with("--k-scale", random_array(NpyType::f32, {1, 1, 1, 1, 1}, 1), {"at most 4 are expected, (B, S, H, groups)"});
  with("--k-zero", int32_array({1}), {"k-zero.npy: holds int32 (1,); float32, float16 or bfloat16 is expected"});
  with("--v-scale", random_array(NpyType::f32, {1}, 1), {"args.v_scale is given, but v is of FA_Q8_0"});
}

}  // namespace
