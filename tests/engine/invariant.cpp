// property.*, continued: under FA_FLAG_BATCH_INVARIANT a query's bits follow from its own row, keys and mask, whatever
// the call around it looks like.
#include <gtest/gtest.h>

#include <cstring>

#include "engine/target.h"
#include "reference/call.h"
#include "reference/number.h"
#include "reference/run.h"

namespace test {
using namespace reference;
namespace {

constexpr int32_t rows = 100, columns = 300;  // queries and keys of the sequence: several tiles, several blocks

class Invariant : public EngineTest {
 protected:
  void run(const Instance &instance) {
    const Op op(instance.desc, kernel);
    ASSERT_EQ(forward(op, instance), FA_OK) << fa_last_error() << "\n" << repeat_line(instance.c, kernel);
  }

  /// One sequence by itself, causal.
  Case alone(uint64_t index) const {
    Case c;
    c.sq = rows, c.sk = columns, c.hq = 4, c.hkv = 2, c.d = 32, c.mask = FA_MASK_CAUSAL,
    c.flags = FA_FLAG_BATCH_INVARIANT;
    return typed(c, index);
  }
};

/// Copies queries [first, ...) and the keys of `from`, a batch of one, over those of sequence b of `to`.
void copy_sequence(const Instance &from, const Instance &to, int64_t b, int64_t first = 0) {
  const reference::Call call(to.desc, to.args);
  const reference::Sequence &s = call.sequences[size_t(b)];
  const auto copy_row = [](const Tensor &source, int64_t row, const Tensor &target, int64_t batch, int64_t at) {
    for (int64_t h = 0; h < target.shape()[2]; ++h) {
      const int64_t source_head = h * source.shape()[2] / target.shape()[2];
      for (int64_t d = 0; d < target.shape()[3]; ++d) target.set(batch, at, h, d, source.get(0, row, source_head, d));
    }
  };
  for (int64_t i = 0; i < s.queries; ++i) copy_row(from.q, first + i, to.q, s.q_batch, s.q_row + i);
  for (int64_t j = 0; j < s.keys; ++j) {
    int64_t batch = s.k_batch, row = s.k_row + j;
    if (to.c.page) {
      batch = int64_t(to.block_table.get(b, row / to.c.page, 0, 0));
      row %= to.c.page;
    }
    copy_row(from.k, j, to.k, batch, row);
    copy_row(from.v, j, to.v, batch, row);
  }
}

/// Expects sequence b of `to` to hold the bits of queries [first, ...) of `from`.
void expect_same_bits(const Instance &from, const Instance &to, int64_t b, const std::string &kernel,
                      int64_t first = 0) {
  const reference::Sequence s = reference::Call(to.desc, to.args).sequences[size_t(b)];
  for (int64_t i = 0; i < s.queries; ++i) {
    for (int64_t h = 0; h < to.c.hq; ++h) {
      for (int64_t d = 0; d < to.c.dim_v(); ++d)
        ASSERT_EQ(from.out.get(0, first + i, h, d), to.out.get(s.q_batch, s.q_row + i, h, d))
            << "query " << first + i << ", head " << h << ", column " << d << "\n"
            << repeat_line(from.c, kernel) << "\n"
            << repeat_line(to.c, kernel);
      ASSERT_EQ(from.lse.get(0, h, first + i, 0), to.lse.get(s.q_batch, h, s.q_row + i, 0))
          << repeat_line(to.c, kernel);
    }
  }
}

// [F77]
TEST_P(Invariant, WhateverTheCallAround) {
  const auto setups = {
      +[](Case *c) { c->b = 1; },
      +[](Case *c) { c->b = 3; },
      +[](Case *c) { c->threads = 3; },
      +[](Case *c) { c->workspace = true; },
      +[](Case *c) { c->lse = true, c->bounds = true; },
      +[](Case *c) { c->b = 3, c->cu_q = c->cu_k = true; },
      +[](Case *c) { c->b = 3, c->sq = 160, c->used_q = true; },
      +[](Case *c) { c->b = 2, c->sk = 470, c->used_k = true; },
      +[](Case *c) { c->b = 2, c->sk = 470, c->used_k = c->leftpad = true; },
      +[](Case *c) { c->b = 2, c->sk = 2300, c->used_k = true; },
      +[](Case *c) { c->b = 2, c->batch_idx = true; },
      +[](Case *c) { c->b = 2, c->page = 1; },
      +[](Case *c) { c->b = 2, c->page = 16, c->used_k = true; },
      +[](Case *c) { c->b = 2, c->page = 75, c->sk = 900, c->used_k = c->leftpad = true; },
      +[](Case *c) { c->hkv = 4; },
      +[](Case *c) { c->q_layout = c->k_layout = c->v_layout = c->out_layout = Layout::bhsd; },
      +[](Case *c) { c->q_layout = c->k_layout = c->v_layout = c->out_layout = Layout::odd; },
      +[](Case *c) { c->q_layout = c->k_layout = c->v_layout = c->out_layout = Layout::stepped; },
      +[](Case *c) { c->q_layout = c->k_layout = c->v_layout = c->out_layout = Layout::mirrored; },
      +[](Case *c) { c->window_left = 1000; },
      +[](Case *c) { c->mask = FA_MASK_CAUSAL_TOP_LEFT, c->offset = true; },
  };
  uint64_t index = 0;
  for (const auto change : setups) {
    const Instance single(alone(index));
    run(single);
    Case c = alone(index++);
    c.seed = 100 + index;
    change(&c);
    Instance around(c);
    const size_t b = size_t(c.b - 1);  // the sequence that is compared
    if (c.used_q) around.seqused_q[b] = rows;
    if (c.leftpad) around.leftpad_k[b] = 77;
    if (c.used_k) around.seqused_k[b] = columns + (c.leftpad ? 77 : 0);
    if (c.offset) around.q_offset[b] = columns - rows;
    if (c.cu_q) {
      around.cu_seqlens_q = GuardedInts({0, 5, 5, 5 + rows}, Guard::end);
      around.cu_seqlens_k = GuardedInts({0, 3, 9, 9 + columns}, Guard::end);
      around.q = Tensor({1, 5 + rows, c.hq, c.d}, c.q, Layout::bshd, Guard::end);
      around.k = Tensor({1, 9 + columns, c.hkv, c.d}, c.kv_type(), Layout::bshd, Guard::end);
      around.v = Tensor({1, 9 + columns, c.hkv, c.d}, c.kv_type(), Layout::bshd, Guard::end);
      around.out = Tensor({1, 5 + rows, c.hq, c.d}, c.out_type(), Layout::bshd, Guard::end);
      around.lse = Tensor({1, c.hq, 5 + rows, 1}, FA_F32, Layout::bshd, Guard::end);
    }
    if (c.page)  // all entries valid again: the used lengths have changed
      around.block_table.each(
          [&](int64_t i, int64_t j, int64_t, int64_t, int64_t n) { around.block_table.set(i, j, 0, 0, double(n)); });
    around.bind();
    copy_sequence(single, around, int64_t(b));
    run(around);
    expect_same_bits(single, around, int64_t(b), kernel);
  }
}

// [F78]
TEST_P(Invariant, PrefillAndDecodeAgree) {
  for (uint64_t index = 0; index < (is_mixed() ? 3 : 1); ++index) {
    const Instance whole(alone(index));
    run(whole);
    for (const int64_t queries : {1, 2, 5, 20}) {
      for (const int64_t first : {0, 7, 61, 80}) {
        Case c = alone(index);
        c.seed = 7;
        c.sq = queries, c.sk = columns - rows + first + queries;
        const Instance part(c);
        copy_sequence(whole, part, 0, first);
        run(part);
        expect_same_bits(whole, part, 0, kernel, first);
      }
    }
  }
}

/// The same without a causal mask, over many keys, which an engine would otherwise split by the number of queries.
TEST_P(Invariant, LongDecode) {
  Case c = alone(0);
  c.mask = FA_MASK_NONE, c.sq = 9, c.sk = 1100, c.softcap = 5, c.alibi = "h", c.sinks = "h";
  const Instance whole(c);
  run(whole);
  for (const int64_t queries : {1, 4}) {
    Case few = c;
    few.sq = queries, few.offset = true, few.threads = 2;
    const Instance part(few);
    part.q_offset[0] = 1100 - 9 + 2;
    copy_sequence(whole, part, 0, 2);
    run(part);
    expect_same_bits(whole, part, 0, kernel, 2);
  }
}

/// Three splits are combined in one order: where a worker computes all splits of a tile, as of many rows, and where
/// each split is a separate work item, as of few.
TEST_P(Invariant, SplitsOfManyRowsAndOfFew) {
  Case c = alone(0);
  c.sk = 2300;
  const Instance whole(c);
  run(whole);
  for (const int64_t queries : {1, 9, 20}) {
    for (const int64_t first : {0, 80}) {
      Case few = c;
      few.sq = queries, few.sk = 2300 - rows + first + queries, few.threads = 2;
      const Instance part(few);
      copy_sequence(whole, part, 0, first);
      run(part);
      expect_same_bits(whole, part, 0, kernel, first);
    }
  }
}

TEST_ALL_TARGETS(Invariant, all_types);

}  // namespace
}  // namespace test
