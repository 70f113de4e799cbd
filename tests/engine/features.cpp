#include "engine/features.h"

#include "judge/sanitizer.h"

namespace test {
namespace {

void set_layouts(Case *c, Layout layout) {
  c->q_layout = c->k_layout = c->v_layout = c->out_layout = layout;
}

const std::vector<Feature> all = {
    {"causal", "mask", [](Case *c) { c->mask = FA_MASK_CAUSAL; }},                    // [F10]
    {"causal_top_left", "mask", [](Case *c) { c->mask = FA_MASK_CAUSAL_TOP_LEFT; }},  // [F16]
    {"window_left", "window", [](Case *c) { c->window_left = 5; }},
    {"window_right", "window", [](Case *c) { c->window_right = 3; }},
    {"window", "window", [](Case *c) { c->window_left = 20, c->window_right = 0; }},  // [F11]
    {"chunk", "chunk", [](Case *c) { c->chunk = 13; }},                               // [F12]
    {"softcap", "softcap", [](Case *c) { c->softcap = 1.5; }},                        // [F4]
    {"scale", "scale", [](Case *c) { c->scale = 0.7; }},                              // [F3]
    {"negative_scale", "scale", [](Case *c) { c->scale = -0.3; }},
    {"peaked", "amp", [](Case *c) { c->amp = 8; }},
    {"alibi_heads", "alibi", [](Case *c) { c->alibi = "h"; }},  // [F6]
    {"alibi_batch_heads", "alibi", [](Case *c) { c->alibi = "bh"; }},
    {"bias_f32", "bias", [](Case *c) { c->bias = "f32:bhqk"; }},  // [F5]
    {"bias_f16_keys", "bias", [](Case *c) { c->bias = "f16:hk"; }},
    {"bias_bf16_heads_repeated", "bias", [](Case *c) { c->bias = "bf16:bqk"; }},
    {"bias_one_per_row", "bias", [](Case *c) { c->bias = "f32:q"; }},  // [F98]
    {"bias_before_softcap", "bias",
     [](Case *c) { c->bias = "f32:qk", c->softcap = 2, c->flags |= FA_FLAG_BIAS_BEFORE_SOFTCAP; }},  // [F79]
    {"the_flag_without_a_bias", "bias", [](Case *c) { c->softcap = 2, c->flags |= FA_FLAG_BIAS_BEFORE_SOFTCAP; }},
    {"boolmask", "boolmask", [](Case *c) { c->boolmask = "bhqk"; }},  // [F7] [F75]
    {"boolmask_heads_repeated", "boolmask", [](Case *c) { c->boolmask = "bqk"; }},
    {"boolmask_keys", "boolmask", [](Case *c) { c->boolmask = "k"; }},  // [F13]
    {"sinks", "sinks", [](Case *c) { c->sinks = "h"; }},                // [F8]
    {"sinks_batch_heads", "sinks", [](Case *c) { c->sinks = "bh"; }},
    {"cu_seqlens_q", "cu", [](Case *c) { c->cu_q = true; }},
    {"cu_seqlens_k", "cu", [](Case *c) { c->cu_k = true; }},
    {"cu_seqlens", "cu", [](Case *c) { c->cu_q = c->cu_k = true; }},      // [F37]
    {"seqused_q", "used_q", [](Case *c) { c->used_q = true; }},           // [F38] [F39]
    {"seqused_k", "used_k", [](Case *c) { c->used_k = true; }},           // [F38]
    {"leftpad_k", "leftpad", [](Case *c) { c->leftpad = true; }},         // [F40]
    {"kv_batch_idx", "batch_idx", [](Case *c) { c->batch_idx = true; }},  // [F41]
    {"q_offset", "offset", [](Case *c) { c->offset = true; }},            // [F17]
    {"pages_of_1", "page", [](Case *c) { c->page = 1; }},
    {"pages_of_7", "page", [](Case *c) { c->page = 7; }},  // [F42]
    {"pages_of_16", "page", [](Case *c) { c->page = 16; }},
    {"max_seqlen", "bounds", [](Case *c) { c->bounds = true; }},
    {"num_splits_1", "splits", [](Case *c) { c->splits = 1; }},
    {"num_splits_3", "splits", [](Case *c) { c->splits = 3; }},
    {"num_splits_1000", "splits", [](Case *c) { c->splits = 1000; }},
    {"batch_invariant", "binv", [](Case *c) { c->flags |= FA_FLAG_BATCH_INVARIANT; }},
    {"nondeterministic", "nondet", [](Case *c) { c->flags |= FA_FLAG_NONDETERMINISTIC; }},
    {"grouped_heads", "heads", [](Case *c) { c->hq = 6, c->hkv = 2; }},
    {"one_kv_head", "heads", [](Case *c) { c->hq = 5, c->hkv = 1; }},
    {"wider_v", "dv", [](Case *c) { c->dv = c->d + 17; }},  // [F89]
    {"narrower_v", "dv", [](Case *c) { c->dv = 3; }},
    {"no_lse", "lse", [](Case *c) { c->lse = false; }},
    {"workspace", "workspace", [](Case *c) { c->workspace = true; }},
    {"threads", "threads", [](Case *c) { c->threads = 3; }},
    {"bhsd", "layout", [](Case *c) { set_layouts(c, Layout::bhsd); }},  // [F26]
    {"slice", "layout", [](Case *c) { set_layouts(c, Layout::slice); }},
    {"padded", "layout", [](Case *c) { set_layouts(c, Layout::padded); }},
    {"odd_address", "layout", [](Case *c) { set_layouts(c, Layout::odd); }},
    {"reversed", "layout", [](Case *c) { set_layouts(c, Layout::reversed); }},  // [F26]
    {"mirrored", "layout", [](Case *c) { set_layouts(c, Layout::mirrored); }},
    {"stepped", "layout", [](Case *c) { set_layouts(c, Layout::stepped); }},  // [F28]
    {"transposed", "layout", [](Case *c) { set_layouts(c, Layout::transposed); }},
    {"one_batch", "layout", [](Case *c) { c->q_layout = c->k_layout = c->v_layout = Layout::one_batch; }},  // [F27]
    {"one_row", "layout", [](Case *c) { c->q_layout = c->v_layout = Layout::one_row; }},
    {"one_head", "layout", [](Case *c) { c->k_layout = c->v_layout = Layout::one_head; }},
};

Case base(int64_t b, int64_t sq, int64_t sk, int64_t hq, int64_t hkv, int64_t d) {
  Case c;
  c.b = b, c.sq = sq, c.sk = sk, c.hq = hq, c.hkv = hkv, c.d = d;
  return c;
}

}  // namespace

const std::vector<Feature> &features() {
  return all;
}

const std::vector<Case> &bases() {
  static const std::vector<Case> list = {base(2, 19, 37, 2, 2, 24), base(3, 1, 150, 4, 2, 16),
                                         base(1, 70, 140, 2, 1, 24), base(2, 3, 300, 4, 1, 40)};
  return list;
}

const std::vector<Case> &pair_bases() {
  static const std::vector<Case> list = {base(2, 9, 21, 2, 2, 12), base(2, 1, 70, 4, 2, 8)};
  return slow ? list : bases();
}

std::vector<std::string> refused(const Case &c) {
  if (c.flags & FA_FLAG_BATCH_INVARIANT && c.flags & FA_FLAG_NONDETERMINISTIC)
    return {"FA_FLAG_BATCH_INVARIANT", "FA_FLAG_NONDETERMINISTIC"};
  if (c.flags & FA_FLAG_BIAS_BEFORE_SOFTCAP && c.softcap == 0) return {"FA_FLAG_BIAS_BEFORE_SOFTCAP", "softcap"};
  if (c.page && c.cu_k) return {"block_table", "cu_seqlens_k"};
  if (c.page && c.batch_idx) return {"block_table", "kv_batch_idx"};
  if (c.batch_idx && c.cu_k) return {"kv_batch_idx", "cu_seqlens_k"};
  if (c.splits && c.flags & FA_FLAG_BATCH_INVARIANT) return {"num_splits", "FA_FLAG_BATCH_INVARIANT"};
  return {};
}

}  // namespace test
