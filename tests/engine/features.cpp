#include "engine/features.h"

#include "reference/sanitizer.h"

namespace test {
using namespace reference;
namespace {

void set_layouts(Case *c, Layout layout) {
  c->q_layout = c->k_layout = c->v_layout = c->out_layout = layout;
}

/// A tree takes the place of a causal mask.
void add_tree(Case *c, const char *tree, const char *depths = "") {
  c->tree = tree, c->depths = depths;
  if (c->mask == FA_MASK_NONE) c->mask = FA_MASK_CAUSAL;
}

#define PER_HEAD(word, field)                              \
  {#word "_heads", #word, [](Case *c) { c->word = "h"; }}, \
      {#word "_batch_heads", #word, [](Case *c) { c->word = "bh"; }},
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
    FA_PER_HEAD_WORDS(PER_HEAD)                                   // [F6] [F8]
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
    {"cu_seqlens_q", "cu", [](Case *c) { c->cu_q = true; }},
    {"cu_seqlens_k", "cu", [](Case *c) { c->cu_k = true; }},
    {"cu_seqlens", "cu", [](Case *c) { c->cu_q = c->cu_k = true; }},                // [F37]
    {"seqused_q", "used_q", [](Case *c) { c->used_q = true; }},                     // [F38] [F39]
    {"seqused_k", "used_k", [](Case *c) { c->used_k = true; }},                     // [F38]
    {"leftpad_k", "leftpad", [](Case *c) { c->leftpad = true; }},                   // [F40]
    {"kv_batch_idx", "batch_idx", [](Case *c) { c->batch_idx = true; }},            // [F41]
    {"q_offset", "offset", [](Case *c) { c->offset = true; }},                      // [F17]
    {"tree", "tree", [](Case *c) { add_tree(c, "bh:tree"); }},                      // [F270]
    {"tree_of_all_heads", "tree", [](Case *c) { add_tree(c, "b:tree"); }},          // [F281]
    {"tree_of_all", "tree", [](Case *c) { add_tree(c, "none:tree"); }},             // [F281]
    {"tree_of_any_bits", "tree", [](Case *c) { add_tree(c, "bh:any"); }},           // [F272] [F273]
    {"tree_of_depths", "tree", [](Case *c) { add_tree(c, "b:tree", "b"); }},        // [F274]
    {"tree_of_any_depths", "tree", [](Case *c) { add_tree(c, "h:any", "none"); }},  // [F274]
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

void set_gradient_types(Case *c, fa_dtype type) {
  c->dq = c->dk = c->dv_type = c->dbias_type = type;
}

const std::vector<Feature> of_backward = {
    {"dlse", "dlse", [](Case *c) { c->dlse = true; }},     // [F162]
    {"delta", "delta", [](Case *c) { c->delta = true; }},  // [F161]
    {"no_dlse_no_delta", "delta", [](Case *c) { c->dlse = c->delta = false; }},
    {"dq_alone", "grads", [](Case *c) { c->grads = "q"; }},  // [F175]
    {"dk_alone", "grads", [](Case *c) { c->grads = "k"; }},  // [F175]
    {"dv_alone", "grads", [](Case *c) { c->grads = "v"; }},  // [F175]
    {"dk_and_dv", "grads", [](Case *c) { c->grads = "kv"; }},
    {"no_gradient_of_a_row", "grads", [](Case *c) { c->grads = "none"; }},       // [F175]
    {"gradients_f32", "types", [](Case *c) { set_gradient_types(c, FA_F32); }},  // [F176]
    {"gradients_mixed", "types", [](Case *c) { c->dq = FA_BF16, c->dk = FA_F32, c->dv_type = FA_F16; }},
    {"accumulated", "types", [](Case *c) { set_gradient_types(c, FA_F32), c->accumulate = "qkvbs"; }},  // [F178]
    {"dq_accumulated", "types", [](Case *c) { c->dq = FA_F32, c->accumulate = "q"; }},
    {"dout_f32", "dout", [](Case *c) { c->dout = FA_F32; }},
    {"dout_bf16", "dout", [](Case *c) { c->dout = FA_BF16; }},
    {"dout_falls", "dout", [](Case *c) { c->dout_amp = 256, c->dout_fall = 12; }},
    {"dout_one_row", "dout", [](Case *c) { c->dout_layout = Layout::one_row; }},  // [F27]
    {"dout_transposed", "dout", [](Case *c) { c->dout_layout = Layout::transposed; }},
    {"gradients_bhsd", "grad_layout", [](Case *c) { c->grad_layout = Layout::bhsd; }},
    {"gradients_padded", "grad_layout", [](Case *c) { c->grad_layout = Layout::padded; }},
    {"gradients_mirrored", "grad_layout", [](Case *c) { c->grad_layout = Layout::mirrored; }},
    {"gradients_transposed", "grad_layout", [](Case *c) { c->grad_layout = Layout::transposed; }},
    {"dbias_whole", "dbias", [](Case *c) { c->bias = "f32:bhqk", c->dbias = "bhqk"; }},
    {"dbias_summed", "dbias", [](Case *c) { c->bias = "bf16:hqk", c->dbias = "none"; }},  // [F166]
    {"dbias_of_keys", "dbias", [](Case *c) { c->bias = "f16:hk", c->dbias = "hk", c->dbias_type = FA_F32; }},
    {"dbias_of_queries", "dbias", [](Case *c) { c->bias = "f32:q", c->dbias = "bq"; }},
    {"dsinks", "sinks", [](Case *c) { c->sinks = c->dsinks = "bh"; }},                        // [F167]
    {"dsinks_summed", "sinks", [](Case *c) { c->sinks = c->dsinks = "h", c->dlse = true; }},  // [F167]
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

const std::vector<Feature> &backward_features() {
  static const std::vector<Feature> list = [] {
    std::vector<Feature> result;
    for (const Feature &feature : all) {
      const std::string group = feature.group;
      if (group != "splits" && group != "lse" && group != "tree") result.push_back(feature);
    }
    result.insert(result.end(), of_backward.begin(), of_backward.end());
    return result;
  }();
  return list;
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

std::vector<Case> empty_cases() {
  std::vector<Case> list(4);
  list[0].b = 0;
  list[1].b = 0, list[1].cu_q = list[1].cu_k = true;
  list[2].hq = list[2].hkv = 0;
  list[3].sk = 0, list[3].sinks = "h", list[3].sq = 3;
  return list;
}

std::vector<std::string> refused(const Case &c) {
  if (c.flags & FA_FLAG_BATCH_INVARIANT && c.flags & FA_FLAG_NONDETERMINISTIC)
    return {"FA_FLAG_BATCH_INVARIANT", "FA_FLAG_NONDETERMINISTIC"};
  if (c.flags & FA_FLAG_BIAS_BEFORE_SOFTCAP && c.softcap == 0) return {"FA_FLAG_BIAS_BEFORE_SOFTCAP", "softcap"};
  if (!c.tree.empty() && c.mask == FA_MASK_NONE) return {"tree_mask", "FA_MASK_NONE"};
  if (!c.depths.empty() && c.tree.empty()) return {"tree_depth", "tree_mask"};
  if (c.page && c.cu_k) return {"block_table", "cu_seqlens_k"};
  if (c.page && c.batch_idx) return {"block_table", "kv_batch_idx"};
  if (c.batch_idx && c.cu_k) return {"kv_batch_idx", "cu_seqlens_k"};
  if (c.splits && c.flags & FA_FLAG_BATCH_INVARIANT) return {"num_splits", "FA_FLAG_BATCH_INVARIANT"};
  return {};
}

}  // namespace test
