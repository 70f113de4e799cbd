// A call of `fa append` as its tests describe it: arrays, the files that hold them, and the library's structures.
#pragma once

#include <fa.h>
#include <gtest/gtest.h>

#include <deque>
#include <filesystem>
#include <utility>

#include "arrays.h"
#include "library.h"
#include "program.h"
#include "temporary.h"

namespace append_call {

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

}  // namespace append_call
