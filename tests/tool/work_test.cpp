// The counted work of a call: the pairs that its mask, window and chunk leave, and the bytes that it reads and writes.
#include "work.h"

#include <gtest/gtest.h>

namespace {

constexpr int64_t batch = 2, queries = 7, keys = 11, heads = 4, heads_kv = 2, dim = 8, dim_v = 6;

/// Whether a query attends a key, by fa.h's words.
bool attends(const fa_desc &desc, int64_t query, int64_t key) {
  const int64_t position = query + (desc.mask == FA_MASK_CAUSAL_TOP_LEFT ? 0 : keys - queries);
  const auto chunk_of = [&](int64_t at) { return at / desc.attention_chunk; };
  return (desc.mask == FA_MASK_NONE || key <= position) &&
         (desc.window_left < 0 || key >= position - desc.window_left) &&
         (desc.window_right < 0 || key <= position + desc.window_right) &&
         (desc.attention_chunk == 0 || chunk_of(key) == chunk_of(position));
}

TEST(Work, IsWhatIsAttended) {
  fa_forward_args args;
  fa_forward_args_init(&args, sizeof args);
  fa_tensor_init(&args.q, nullptr, FA_F16, batch, queries, heads, dim);
  fa_tensor_init(&args.k, nullptr, FA_F16, batch, keys, heads_kv, dim);
  fa_tensor_init(&args.v, nullptr, FA_F16, batch, keys, heads_kv, dim_v);
  fa_tensor_init(&args.out, nullptr, FA_F32, batch, queries, heads, dim_v);
  fa_desc desc;
  fa_desc_init(&desc, sizeof desc);
  desc.dtype_q = FA_F16, desc.dtype_out = FA_F32, desc.head_dim = dim, desc.head_dim_v = dim_v;
  for (const fa_mask mask : {FA_MASK_NONE, FA_MASK_CAUSAL, FA_MASK_CAUSAL_TOP_LEFT}) {
    for (const int64_t left : {-1, 0, 3}) {
      for (const int64_t right : {-1, 0, 2}) {
        for (const int64_t chunk : {0, 4}) {
          desc.mask = mask, desc.window_left = left, desc.window_right = right, desc.attention_chunk = chunk;
          int64_t pairs = 0;
          for (int64_t i = 0; i < queries; ++i)
            for (int64_t j = 0; j < keys; ++j) pairs += attends(desc, i, j);
          const fa::tool::Work work = fa::tool::work_of(desc, args);
          EXPECT_EQ(work.pairs, pairs * heads * batch) << mask << " " << left << " " << right << " " << chunk;
          EXPECT_EQ(work.flops, double(2 * work.pairs * (dim + dim_v)));
          EXPECT_EQ(work.bytes,
                    double(batch * (queries * heads * (2 * dim + 4 * dim_v) + keys * heads_kv * 2 * (dim + dim_v))));
        }
      }
    }
  }
}

}  // namespace
