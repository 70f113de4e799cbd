// fuzz.*: random calls against the oracle. FA_FUZZ_ITERATIONS and FA_FUZZ_SEED choose how many and which; a failing one
// prints the line that repeats it.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "engine/features.h"
#include "engine/target.h"
#include "reference/caller.h"
#include "reference/gpu.h"
#include "reference/random.h"
#include "reference/run.h"
#include "reference/sanitizer.h"

namespace test {
using namespace reference;
namespace {

uint64_t number_from(const char *variable, uint64_t fallback) {
  const char *text = std::getenv(variable);
  return text && *text ? std::strtoull(text, nullptr, 10) : fallback;
}

/// Mostly small, sometimes at the edge of a tile or block, sometimes long.
int64_t length(Random *r, int64_t longest) {
  const int64_t kind = r->between(0, 9);
  if (kind == 0) return r->between(0, 2);
  if (kind <= 5) return r->between(1, 40);
  if (kind <= 8) return std::min(longest, 16 * r->between(1, 16) + r->between(-1, 1));
  return r->between(1, longest);
}

std::string dimensions(Random *r) {
  std::string kept;
  for (const char dimension : std::string("bhqk"))
    if (r->chance(60)) kept += dimension;
  return kept.empty() ? "none" : kept;
}

void random_sizes(Random *r, Case *c) {
  c->b = r->between(1, 3);
  c->sq = r->chance(30) ? 1 : length(r, 200);
  c->sk = length(r, slow ? 300 : 700);
  c->hkv = r->between(1, 3);
  c->hq = c->hkv * r->one_of<int64_t>(1, 1, 2, 3, 4, 8);
  c->d = r->chance(50) ? r->one_of<int64_t>(16, 32, 64, 128) : r->between(1, 70);
  if (r->chance(30)) c->dv = r->between(1, 90);
  if (r->chance(3)) c->d = r->between(200, 576);
  if (r->chance(3)) c->dv = r->between(200, 576);
}

void random_description(Random *r, Case *c) {
  if (r->chance(40)) c->mask = r->one_of<fa_mask>(FA_MASK_CAUSAL, FA_MASK_CAUSAL, FA_MASK_CAUSAL_TOP_LEFT);
  const auto side = [&] { return r->chance(90) ? r->between(0, c->sk + 5) : int64_t{1} << r->between(30, 62); };
  if (r->chance(20)) c->window_left = side();
  if (r->chance(20)) c->window_right = side();
  if (r->chance(10)) c->chunk = r->between(1, c->sk + 5);
  if (r->chance(15)) c->scale = 0.05 * double(r->between(-10, 20));
  if (r->chance(15)) c->softcap = 0.5 * double(r->between(1, 60));
  if (r->chance(10)) c->flags |= FA_FLAG_NONDETERMINISTIC;
  if (r->chance(20)) c->flags |= FA_FLAG_BATCH_INVARIANT;
  if (r->chance(10)) c->flags |= FA_FLAG_BIAS_BEFORE_SOFTCAP;
}

void random_call(Random *r, Case *c) {
  const int percent = int(r->one_of(0, 10, 25));  // some calls are plain
  c->cu_q = r->chance(percent);
  c->cu_k = r->chance(percent);
  c->used_q = r->chance(percent);
  c->used_k = r->chance(percent);
  c->leftpad = r->chance(percent);
  c->batch_idx = r->chance(percent);
  c->offset = r->chance(percent);
  if (r->chance(percent)) c->page = r->one_of<int64_t>(1, 3, 16, 64, 128, 200);
  if (r->chance(percent)) c->bias = r->one_of<std::string>("f32:", "f16:", "bf16:") + dimensions(r);
  if (r->chance(percent)) c->boolmask = dimensions(r);
#define FA_WORD(word, field) \
  if (r->chance(percent)) c->word = r->one_of("h", "bh");
  FA_PER_HEAD_WORDS(FA_WORD)
#undef FA_WORD
  c->lse = r->chance(70);
  if (r->chance(20)) c->splits = int32_t(r->between(1, 9));
  c->threads = int32_t(r->one_of(1, 1, 1, 2, 3));
  c->workspace = r->chance(30);
  c->bounds = r->chance(20);
}

void random_memory(Random *r, Case *c) {
  const bool plain = r->chance(50);
  const auto layout = [&](int count) { return plain ? Layout::bshd : Layout(r->between(0, count - 1)); };
  c->q_layout = layout(layout_count);
  c->k_layout = layout(layout_count);
  c->v_layout = layout(layout_count);
  c->out_layout = layout(output_layout_count);
}

/// A call that a family for warpgroups or tensor memory takes, most often.
void widen(Random *r, Case *c) {
  c->d = 8 * (r->chance(80) ? r->between(5, 16) : r->between(17, 32));
  if (c->dv > 0) c->dv = 8 * r->between(1, 32);
  c->sq = std::max(c->sq, r->between(17, 40));
  c->bias.clear(), c->boolmask.clear();
  c->flags &= ~FA_FLAG_BATCH_INVARIANT;
  const auto layout = [&] { return r->one_of(Layout::bshd, Layout::bshd, Layout::bhsd, Layout::slice); };
  c->q_layout = layout(), c->k_layout = layout(), c->v_layout = layout(), c->out_layout = layout();
}

/// The worst numbers within the domain that fa.h states.
void random_numbers(Random *r, Case *c) {
  c->amp = r->one_of(1.0, 1.0, 1.0, 4.0, 20.0);
  if (r->chance(8)) {  // scores of any size
    const double largest = c->q == FA_F16 ? 1e4 : 1e16, largest_k = c->kv_type() == FA_F16 ? 1e4 : 1e16;
    c->amp = std::pow(largest, double(r->between(1, 100)) / 100);
    c->k_amp = std::pow(largest_k, double(r->between(1, 100)) / 100);
  }
  if (r->chance(8)) {  // small weights of large values
    c->amp = double(r->between(2, 8));
    c->v_amp = c->kv_type() == FA_F16 ? 1e4 : 1e6;
    c->out = FA_F32;
  }
  c->special = r->chance(6);
  c->far = c->offset && r->chance(30);
  c->padded = !c->bias.empty() && r->chance(30);
}

/// Operands near 0, and others as large as their types allow.
void subnormal_numbers(Random *r, Case *c) {
  c->subnormal = r->one_of<const char *>("q", "k", "v", "qk", "b", "as", "qkvbasd");
  const double largest = c->q == FA_F16 || c->kv_type() == FA_F16 ? 1e4 : 1e34;
  c->amp = std::pow(largest, double(r->between(0, 100)) / 100);
  c->k_amp = std::pow(largest, double(r->between(0, 100)) / 100);
  if (c->subnormal.find_first_of("qk") == std::string::npos) c->amp = c->k_amp = 1;
}

/// Options of the backward pass next to its inputs.
void random_gradients(Random *r, Case *c) {
  c->backward = true;
  c->page = 0, c->splits = 0;  // which it has not
  c->sk = std::min<int64_t>(c->sk, 250);
  c->grads = r->one_of<const char *>("qkv", "qkv", "qkv", "q", "kv", "v");
  if (!c->bias.empty()) c->dbias = r->one_of<const char *>("bhqk", "hqk", "bqk", "qk", "k", "q", "none");
  if (!c->sinks.empty()) c->dsinks = r->one_of<const char *>("h", "bh");
  c->dlse = r->chance(30);
  c->delta = r->chance(20);
  for (fa_dtype *type : {&c->dq, &c->dk, &c->dv_type, &c->dout})
    if (r->chance(40)) *type = r->one_of<fa_dtype>(FA_F32, FA_F16, FA_BF16);
  if (r->chance(30)) {
    c->dq = c->dk = c->dv_type = c->dbias_type = FA_F32;
    c->accumulate = r->one_of<const char *>("qkvbs", "q", "kv");
  }
  c->amp = r->one_of(1.0, 1.0, 4.0);
  c->special = r->chance(6);
  if (r->chance(50)) {
    c->dout_layout = Layout(r->between(0, layout_count - 1));
    c->grad_layout = Layout(r->between(0, output_layout_count - 1));
  }
}

/// A tree of new tokens, in place of a causal mask.
void random_tree(Random *r, Case *c) {
  if (c->mask == FA_MASK_NONE || c->backward || r->chance(70)) return;
  c->tree = r->one_of<std::string>("bh:", "b:", "h:", "none:") + r->one_of("tree", "tree", "any", "path");
  if (r->chance(50)) c->depths = r->one_of("b", "none");
}

/// Numbers at the ends of their types, and both passes in a row, which the kernels of CPUs are held to.
void ends_of_types(Random *r, Case *c) {
  if (r->chance(10)) subnormal_numbers(r, c);
  if (!c->backward) return;
  if (r->chance(10)) c->dout_ends = true, c->v_amp = 1e-4;
  c->chained = !c->delta && r->chance(25);
}

class Fuzz : public EngineTest {
 protected:
  /// Random calls whose numbers are those of `numbers`, as many as FA_FUZZ_ITERATIONS says.
  void run(uint64_t iterations, uint64_t stream, void (*numbers)(Random *, Case *)) {
    iterations = number_from("FA_FUZZ_ITERATIONS", iterations);
    const uint64_t seed = number_from("FA_FUZZ_SEED", 1);
    const std::vector<std::string> environments = float_environments();
    uint64_t run = 0;
    for (uint64_t n = 0, failures = 0; run < iterations && failures < 5; ++n) {
      Random r(hash(seed, stream, n));
      Case c;
      random_sizes(&r, &c);
      random_description(&r, &c);
      random_call(&r, &c);
      random_memory(&r, &c);
      c = typed(c, r.next());
      if (has_wide_family()) widen(&r, &c);
      numbers(&r, &c);
      c.seed = r.next() % 100000;
      if (!is_gpu(kernel)) ends_of_types(&r, &c);
      random_tree(&r, &c);
      if (r.chance(25)) c.fenv = environments[r.next() % environments.size()];
      if (!refused(c).empty()) continue;
      ++run;
      if (!in_shard(n)) continue;
      const std::string failure = failure_of(c, kernel);
      failures += !failure.empty();
      EXPECT_TRUE(failure.empty()) << failure << "\niteration " << n << " of FA_FUZZ_SEED=" << seed;
    }
  }
};

TEST_P(Fuzz, RandomCalls) {
  run(slow ? 100 : 500, 1, random_numbers);
}

class FuzzGradients : public Fuzz {};

TEST_P(FuzzGradients, RandomCalls) {
  run(is_gpu(kernel) && slow ? 15 : slow ? 30 : 100, 2, random_gradients);
}

TEST_ALL_TARGETS(Fuzz, all_types);
TEST_ALL_TARGETS(FuzzGradients, all_types);

}  // namespace
}  // namespace test
