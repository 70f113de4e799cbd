// A call of `fa run` on files, and the same call as the oracle computes it.
#pragma once

#include <fa.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "arrays.h"
#include "program.h"
#include "reference/number.h"
#include "reference/oracle.h"
#include "temporary.h"

namespace test::run {

using fa::tool::Array;
using fa::tool::NpyType;
using fa::tool::read_npy;

constexpr int64_t b = 2, sq = 5, sk = 9, hq = 4, hkv = 2, d = 16;

/// Arrays of one call, in files too, and the call as the options should describe it.
struct Call {
  TemporaryFolder folder;
  Array q, k, v;
  fa_desc desc;
  fa_forward_args args;
  std::vector<float> out, lse;
  std::vector<std::string> options;
  std::vector<Array> kept;  // the memory that args points to

  explicit Call(NpyType type = NpyType::f32, bool packed = false) {
    kept.reserve(16);
    const auto shape = [&](int64_t rows, int64_t heads) {
      return packed ? std::vector<int64_t>{b * rows, heads, d} : std::vector<int64_t>{b, rows, heads, d};
    };
    q = random_array(type, shape(sq, hq), 1);
    k = random_array(type, shape(sk, hkv), 2);
    v = random_array(type, shape(sk, hkv), 3);
    const fa_dtype dtype = type == NpyType::f32 ? FA_F32 : type == NpyType::f16 ? FA_F16 : FA_BF16;
    fa_desc_init(&desc, sizeof desc);
    desc.dtype_q = dtype;
    desc.dtype_out = FA_F32;
    desc.head_dim = d;
    fa_forward_args_init(&args, sizeof args);
    const int64_t batch = packed ? 1 : b, rows_q = packed ? b * sq : sq, rows_k = packed ? b * sk : sk;
    fa_tensor_init(&args.q, q.bytes.data(), dtype, batch, rows_q, hq, d);
    fa_tensor_init(&args.k, k.bytes.data(), dtype, batch, rows_k, hkv, d);
    fa_tensor_init(&args.v, v.bytes.data(), dtype, batch, rows_k, hkv, d);
    out.resize(static_cast<size_t>(b * sq * hq * d));
    fa_tensor_init(&args.out, out.data(), FA_F32, batch, rows_q, hq, d);
    options = {"run",
               "--q",
               save(folder / "q.npy", q),
               "--k",
               save(folder / "k.npy", k),
               "--v",
               save(folder / "v.npy", v),
               "-o",
               folder / "out.npy",
               "--lse-out",
               folder / "lse.npy",
               "--out-dtype",
               "f32"};
  }

  /// Keeps an array, saves it, and gives the option its path.
  Array *add(const char *option, Array array) {
    kept.push_back(std::move(array));
    options.insert(options.end(), {option, save(folder / (std::string(option + 2) + ".npy"), kept.back())});
    return &kept.back();
  }
  void add(const std::vector<std::string> &more) { options.insert(options.end(), more.begin(), more.end()); }

  /// Runs the tool and compares its files with the oracle.
  void expect_right() {
    const Finished f = test::fa(options);
    ASSERT_EQ(f.code, 0) << f.err;
    const reference::Result expected = reference::attention(desc, args);
    const Array got = read_npy(folder / "out.npy"), got_lse = read_npy(folder / "lse.npy");
    ASSERT_EQ(got.type, NpyType::f32);
    ASSERT_EQ(got.shape, q.shape);
    for (int64_t i = 0; i < expected.batch; ++i) {
      for (int64_t row = 0; row < expected.rows; ++row) {
        for (int64_t head = 0; head < hq; ++head) {
          const int64_t at = expected.head(i, row, head);
          const bool written = expected.written[static_cast<size_t>(expected.row(i, row))];
          for (int64_t e = 0; e < d; ++e) {
            const double want = written ? expected.out[static_cast<size_t>(at * d + e)] : 0;
            // An ISA may round weights to q's type: docs/precision.md.
            const double rounding =
                3 * reference::unit_roundoff(desc.dtype_q) * expected.mean_v[static_cast<size_t>(at * d + e)];
            ASSERT_NEAR(got.value(at * d + e), want, 1e-4 + rounding) << i << " " << row << " " << head << " " << e;
          }
          const double lse_want = expected.lse[static_cast<size_t>(at)];
          const double lse_got = got_lse.value((i * hq + head) * expected.rows + row);
          if (written && std::isfinite(lse_want)) {
            ASSERT_NEAR(lse_got, lse_want, 1e-3);
          } else if (written) {
            ASSERT_EQ(lse_got, lse_want);
          }
        }
      }
    }
  }
};

}  // namespace test::run
