#include "attention_options.h"

#include <vector>

namespace fa::tool {

void define_mask_options(Options *o, MaskOptions *options) {
  o->flag("--causal", options->causal, "causal; the last query sees every key");
  o->flag("--causal-top-left", options->causal_top_left, "causal; query 0 sees key 0 only");
  o->value("--window", options->window, "L,R", "keys before and after a query's position; -1: open");
  o->value("--chunk", options->chunk, "N", "attend within chunks of N positions");
}

void set_mask(const MaskOptions &options, fa_desc *desc) {
  desc->mask = options.causal ? FA_MASK_CAUSAL : options.causal_top_left ? FA_MASK_CAUSAL_TOP_LEFT : FA_MASK_NONE;
  if (!options.window.empty()) {
    const std::vector<int64_t> window = parse_integers("--window", options.window, 2, 2, "LEFT,RIGHT (-1: open)");
    desc->window_left = window[0];
    desc->window_right = window[1];
  }
  desc->attention_chunk = options.chunk;
}

fa_device device_of(const std::string &name) {
  return name == "auto" ? FA_DEVICE_AUTO : name == "cpu" ? FA_DEVICE_CPU : FA_DEVICE_CUDA;
}

}  // namespace fa::tool
