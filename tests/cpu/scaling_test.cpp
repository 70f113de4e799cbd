// scaling.*: the work of a call follows the rows that it uses and the keys that they attend, and nothing else: counted,
// not timed, at one size and at eight times that.
#include <fa.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <vector>

#include "cpu/count.h"

namespace test {
namespace {

constexpr int64_t dim = 8;

/// A call of the forward or of the backward pass, with its memory. Fields of the structures may be set before
/// `bind`; arrays are given once they have entries.
struct Call {
  fa_desc desc;
  fa_forward_args args;
  fa_backward_args back;
  int64_t rows_q = 0, rows_k = 0;  // of one entry of q and of k
  std::vector<float> q, k, v, out, lse, dout, dq, dk, dv, bias, dbias;
  std::vector<uint8_t> mask;
  std::vector<int32_t> cu_q, cu_k, used_k, row_of, offset, table;

  Call(int64_t batch, int64_t sq, int64_t sk, int64_t hq = 2, int64_t hkv = 1, int64_t batch_k = -1) {
    fa_desc_init(&desc, sizeof desc);
    desc.dtype_q = FA_F32;
    desc.head_dim = dim;
    desc.device = FA_DEVICE_CPU;
    desc.num_threads = 1;
    fa_forward_args_init(&args, sizeof args);
    fa_backward_args_init(&back, sizeof back);
    if (batch_k < 0) batch_k = batch;
    const auto tensor = [](fa_tensor *t, std::vector<float> *memory, int64_t a, int64_t b, int64_t c, int64_t d) {
      memory->assign(static_cast<size_t>(a * b * c * d), 0.125f);
      fa_tensor_init(t, memory->data(), FA_F32, a, b, c, d);
    };
    tensor(&args.q, &q, batch, sq, hq, dim);
    tensor(&args.k, &k, batch_k, sk, hkv, dim);
    tensor(&args.v, &v, batch_k, sk, hkv, dim);
    tensor(&args.out, &out, batch, sq, hq, dim);
    tensor(&args.lse, &lse, batch, hq, sq, 1);
    tensor(&back.dout, &dout, batch, sq, hq, dim);
    tensor(&back.dq, &dq, batch, sq, hq, dim);
    tensor(&back.dk, &dk, batch_k, sk, hkv, dim);
    tensor(&back.dv, &dv, batch_k, sk, hkv, dim);
  }

  /// `tokens` of q and k packed, as sequences of the lengths given.
  static Call packed(const std::vector<int32_t> &lengths) {
    std::vector<int32_t> ends = {0};
    for (const int32_t length : lengths) ends.push_back(ends.back() + length);
    Call call(1, ends.back(), ends.back());
    call.cu_q = call.cu_k = ends;
    call.args.num_seqs = static_cast<int64_t>(lengths.size());
    return call;
  }

  void bind() {
    const auto array = [](const std::vector<int32_t> &from) { return from.empty() ? nullptr : from.data(); };
    args.cu_seqlens_q = array(cu_q);
    args.cu_seqlens_k = array(cu_k);
    args.seqused_k = array(used_k);
    args.kv_batch_idx = array(row_of);
    args.q_offset = array(offset);
    back.q = args.q;
    back.k = args.k;
    back.v = args.v;
    back.out = args.out;
    back.lse = args.lse;
    back.bias = args.bias;
    back.mask = args.mask;
    back.cu_seqlens_q = args.cu_seqlens_q;
    back.cu_seqlens_k = args.cu_seqlens_k;
    back.seqused_k = args.seqused_k;
    back.kv_batch_idx = args.kv_batch_idx;
    back.q_offset = args.q_offset;
    back.num_seqs = args.num_seqs;
    back.max_seqlen_q = args.max_seqlen_q;
    back.max_seqlen_k = args.max_seqlen_k;
  }

  void page(int64_t pages_of_a_sequence, int64_t size) {
    const int64_t batch = args.q.shape[0], pages = args.k.shape[0] * args.k.shape[1] / size;
    for (fa_tensor *t : {&args.k, &args.v}) fa_tensor_init(t, t->data, FA_F32, pages, size, t->shape[2], dim);
    for (int64_t i = 0; i < batch * pages_of_a_sequence; ++i) table.push_back(static_cast<int32_t>(i % pages));
    fa_tensor_init(&args.block_table, table.data(), FA_I32, batch, pages_of_a_sequence, 1, 1);
  }
};

enum class Pass { forward, backward };

int64_t work(Pass pass, Call call) {
  call.bind();
  fa_op *op = nullptr;
  EXPECT_EQ(fa_create(&call.desc, &op), FA_OK) << fa_last_error();
  const int64_t work = work_of([&] {
    EXPECT_EQ(pass == Pass::forward ? fa_forward(op, &call.args) : fa_backward(op, &call.back), FA_OK)
        << fa_last_error();
  });
  fa_destroy(op);
  return work;
}

size_t workspace(Pass pass, Call call) {
  call.bind();
  fa_op *op = nullptr;
  EXPECT_EQ(fa_create(&call.desc, &op), FA_OK) << fa_last_error();
  size_t bytes = 0;
  EXPECT_EQ(pass == Pass::forward ? fa_forward_workspace_size(op, &call.args, &bytes)
                                  : fa_backward_workspace_size(op, &call.back, &bytes),
            FA_OK)
      << fa_last_error();
  fa_destroy(op);
  return bytes;
}

class Scaling : public testing::Test {
 protected:
  void SetUp() override { setenv("FA_FORCE_KERNEL", "cpu.generic", 1); }

  using Make = std::function<Call(int64_t n)>;

  /// Eight times n is at most eight times the work, and the workspace.
  static void expect_linear(Pass pass, int64_t n, const Make &make) {
    const int64_t once = work(pass, make(n)), eight = work(pass, make(8 * n));
    EXPECT_LE(eight, once * 8 * 21 / 20) << "work of " << n << ": " << once;
    const size_t bytes = workspace(pass, make(n)), more = workspace(pass, make(8 * n));
    EXPECT_LE(more, bytes * 8 * 21 / 20) << "bytes of " << n << ": " << bytes;
  }

  /// The work does not depend on n, except for a cost of `each` of them.
  static void expect_constant(int64_t n, const Make &make, int64_t each = 0) {
    const int64_t once = work(Pass::forward, make(n)), eight = work(Pass::forward, make(8 * n));
    EXPECT_LE(eight, once + once / 20 + 7 * n * each) << "work of " << n << ": " << once;
  }
};

// [F199]
TEST_F(Scaling, PackedSequences) {
  const auto packed = [](int64_t n) { return Call::packed(std::vector<int32_t>(static_cast<size_t>(n), 16)); };
  for (const Pass pass : {Pass::forward, Pass::backward}) {
    expect_linear(pass, 256, packed);
    expect_linear(pass, 256, [&](int64_t n) {
      Call call = packed(n);
      call.args.max_seqlen_q = call.args.max_seqlen_k = 16;
      return call;
    });
    expect_linear(pass, 256, [](int64_t n) {  // one in three is empty, one in 64 is long
      std::vector<int32_t> lengths(static_cast<size_t>(n), 3);
      for (size_t i = 0; i < lengths.size(); i += 3) lengths[i] = i % 64 == 0 ? 40 : 0;
      return Call::packed(lengths);
    });
  }
}

// [F199]
TEST_F(Scaling, Batch) {
  for (const Pass pass : {Pass::forward, Pass::backward}) {
    expect_linear(pass, 64, [](int64_t n) { return Call(n, 3, 20); });
    expect_linear(pass, 512, [](int64_t n) { return Call(n, 0, 0); });
    expect_linear(pass, 512, [](int64_t n) { return Call(n, 0, 3); });
    expect_linear(pass, 512, [](int64_t n) { return Call(n, 3, 0); });
  }
}

// [F199]
TEST_F(Scaling, Heads) {
  for (const Pass pass : {Pass::forward, Pass::backward}) {
    expect_linear(pass, 32, [](int64_t n) { return Call(1, 3, 20, n, n); });
    expect_linear(pass, 32, [](int64_t n) { return Call(1, 3, 20, n, 1); });
    expect_linear(pass, 32, [](int64_t n) { return Call(1, 200, 20, n, n / 2); });
  }
}

/// Entries of one row of the cache, and of rows in the opposite order.
// [F199]
TEST_F(Scaling, RowsOfACache) {
  for (const Pass pass : {Pass::forward, Pass::backward}) {
    expect_linear(pass, 32, [](int64_t n) {
      Call call(n, 1, 256, 2, 1, 1);
      call.row_of.assign(static_cast<size_t>(n), 0);
      return call;
    });
    expect_linear(pass, 256, [](int64_t n) {
      Call call(n, 1, 8);
      for (int64_t i = 0; i < n; ++i) call.row_of.push_back(static_cast<int32_t>(n - 1 - i));
      return call;
    });
    expect_linear(pass, 256, [](int64_t n) {  // pairs, far apart
      Call call(n, 1, 8);
      for (int64_t i = 0; i < n; ++i) call.row_of.push_back(static_cast<int32_t>(i % (n / 2)));
      return call;
    });
  }
}

/// A long sequence is worth sharing; the short ones around it are not, whatever their number is.
// [F199]
TEST_F(Scaling, CallsOfThePool) {
  const auto calls = [](int64_t n) {
    std::vector<int32_t> lengths(static_cast<size_t>(n), 16);
    lengths[lengths.size() / 2] = 2000;
    Call call = Call::packed(lengths);
    int64_t count = 0;
    call.desc.num_threads = 2;
    call.desc.parallel_for_user = &count;
    call.desc.parallel_for = [](void *host, fa_task task, void *ctx, int64_t tasks) {
      ++*static_cast<int64_t *>(host);
      for (int64_t i = 0; i < tasks; ++i) task(ctx, i);
    };
    work(Pass::backward, std::move(call));
    return count;
  };
  EXPECT_GT(calls(256), 3);
  EXPECT_EQ(calls(2048), calls(256));
}

/// Ways to attend few keys of a long cache.
const std::vector<std::function<void(Call *)>> narrow = {
    [](Call *call) { call->desc.window_left = 100, call->desc.window_right = 0; },
    [](Call *call) { call->desc.window_left = 100, call->desc.mask = FA_MASK_CAUSAL; },
    [](Call *call) { call->desc.attention_chunk = 128; },
    [](Call *call) { call->desc.mask = FA_MASK_CAUSAL, call->offset = {100}; },
    [](Call *call) { call->desc.window_left = 100, call->desc.window_right = 50, call->offset = {1000}; },
    [](Call *call) { call->desc.window_left = 100, call->offset = {INT32_MAX - 5000}; },  // past all keys
    [](Call *call) {
      call->desc.window_left = 10, call->offset = {static_cast<int32_t>(call->args.k.shape[1] + 7)};
    },  // some rows have keys
    [](Call *call) { call->used_k = {100}; },
};

// [F199]
TEST_F(Scaling, CacheOfWhichFewKeysAreAttended) {
  for (size_t way = 0; way < narrow.size(); ++way) {
    for (const int64_t queries : {1, 5, 300}) {
      for (const uint32_t flags : {0u, uint32_t{FA_FLAG_BATCH_INVARIANT}}) {
        for (const int32_t splits : {0, 8}) {
          if (splits != 0 && flags != 0) continue;
          SCOPED_TRACE(testing::Message() << "way " << way << ", " << queries << " queries, flags " << flags << ", "
                                          << splits << " splits");
          expect_constant(4096, [&](int64_t n) {
            Call call(1, queries, n);
            call.desc.flags = flags;
            call.args.num_splits = splits;
            narrow[way](&call);
            return call;
          });
        }
      }
    }
  }
}

// [F199]
TEST_F(Scaling, PagesOfWhichFewAreAttended) {
  for (size_t way = 0; way < narrow.size(); ++way) {
    SCOPED_TRACE(way);
    for (const int64_t size : {1, 16})
      expect_constant(4096, [&](int64_t n) {
        Call call(1, 1, n);
        narrow[way](&call);
        call.page(n / size, size);
        return call;
      });
  }
}

/// Windows over as many queries as keys: each attends as many, in tiles that mostly do not meet.
// [F199]
TEST_F(Scaling, SelfAttentionUnderAWindow) {
  for (const Pass pass : {Pass::forward, Pass::backward})
    for (const uint32_t flags : {0u, uint32_t{FA_FLAG_BATCH_INVARIANT}})
      expect_linear(pass, 4096, [&](int64_t n) {
        Call call(1, n, n, 1, 1);
        call.desc.window_left = 64;
        call.desc.mask = FA_MASK_CAUSAL;
        call.desc.flags = flags;
        return call;
      });
}

/// A window bounds the splits of decoding, and so the workspace.
// [F200]
TEST_F(Scaling, WorkspaceUnderAWindow) {
  for (size_t way = 0; way < 3; ++way) {
    SCOPED_TRACE(way);
    for (const uint32_t flags : {0u, uint32_t{FA_FLAG_BATCH_INVARIANT}}) {
      const auto bytes = [&](int64_t n) {
        Call call(1, 1, n);
        call.desc.flags = flags;
        narrow[way](&call);
        return workspace(Pass::forward, std::move(call));
      };
      EXPECT_EQ(bytes(1 << 16), bytes(1 << 13));
    }
  }
}

/// Masked, or biased, but for blocks of `attended` keys along the diagonal; of a few queries, but for the first block.
Call diagonal(bool by_mask, int64_t sq, int64_t sk, int64_t attended, bool wants_dbias = false) {
  Call call(1, sq, sk);
  const auto attends = [&](int64_t i, int64_t j) { return j / attended == (sq < 5 ? 0 : i * sk / sq / attended); };
  for (int64_t i = 0; i < sq; ++i)
    for (int64_t j = 0; j < sk; ++j) {
      call.mask.push_back(attends(i, j));
      call.bias.push_back(attends(i, j) ? 0.5f : -HUGE_VALF);
    }
  if (by_mask) {
    fa_tensor_init(&call.args.mask, call.mask.data(), FA_BOOL, 1, 1, sq, sk);
  } else {
    fa_tensor_init(&call.args.bias, call.bias.data(), FA_F32, 1, 1, sq, sk);
  }
  if (wants_dbias) {
    call.dbias.assign(call.bias.size(), 1.0f);
    fa_tensor_init(&call.back.dbias, call.dbias.data(), FA_F32, 1, 1, sq, sk);
  }
  return call;
}

// [F199]
TEST_F(Scaling, BlocksThatAreMasked) {
  for (const bool by_mask : {true, false}) {
    for (const int64_t queries : {1, 4, 512}) {
      for (const uint32_t flags : {0u, uint32_t{FA_FLAG_BATCH_INVARIANT}}) {
        SCOPED_TRACE(testing::Message() << (by_mask ? "mask, " : "bias, ") << queries << " queries, flags " << flags);
        const auto work_at = [&](Pass pass, int64_t attended) {
          Call call = diagonal(by_mask, queries, 1024, attended, !by_mask);
          call.desc.flags = flags;
          return work(pass, std::move(call));
        };
        EXPECT_LE(work_at(Pass::forward, 128) * 4, work_at(Pass::forward, 1024));
        if (queries > 1) {
          EXPECT_LE(work_at(Pass::backward, 128) * 2, work_at(Pass::backward, 1024));
        }
      }
    }
  }
}

}  // namespace
}  // namespace test
