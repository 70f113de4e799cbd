// Names and help texts of the options of `fa run`; they follow the fields of fa_desc and fa_forward_args.
#include "run_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <utility>

#include "error.h"
#include "library.h"

namespace fa::tool {
namespace {

/// The optional tensors of one of these forms.
void define_optional(Options *o, RunOptions *r, std::initializer_list<schema::Form> forms) {
  const auto define = [&](const char *name, schema::Presence presence, schema::ShapeRule rule, const char *text,
                          std::string *path) {
    const bool here = std::ranges::find(forms, schema::form_of(rule)) != forms.end();
    if (presence == schema::Presence::required || !here) return;
    o->value(option_of(name).c_str(), *path, "FILE", help_of(rule, text).c_str());
  };
#define FA_TENSOR(name, access, presence, type, shape, promise, text) \
  define(#name, schema::Presence::presence, schema::ShapeRule::shape, text, &r->name);
  FA_RUN_FIELDS(FA_TENSOR, FA_NOTHING, FA_NOTHING)
#undef FA_TENSOR
}

void define_tensors(Options *o, RunOptions *r) {
  o->group("Tensors");
  for (const auto &[name, path] : {std::pair("--q", &r->q), {"--k", &r->k}, {"--v", &r->v}})
    o->value(name, *path, "FILE", "queries, keys, values, (B, S, H, D) or (total, H, D)");
  o->value("-o,--out", r->out, "FILE", "where the output goes");
  o->value("--lse-out", r->lse_out, "FILE", "where the log-sum-exp goes");
  for (const auto &[name, path] : {std::pair("--dout", &r->dout), {"--dlse", &r->dlse}})
    o->value(name, *path, "FILE", "gradients of out and lse: the backward pass follows");
  // One text: one entry of the help.
  for (const GradientOption &gradient : gradient_options) {
    o->value(fmt::format("--{}", gradient.name).c_str(), r->*gradient.path, "FILE",
             "where the gradient of q, k, v, bias or sinks goes");
  }
  o->flag("--accumulate", r->accumulate, "add gradients to their files, in float32");
  o->choice("--layout", r->layout, {"bshd", "bhsd"}, "ORDER", "of 4-D arrays: bshd (the default) or bhsd");
  o->choice("--dtype", r->dtype, compute_dtypes(), "TYPE", "convert q, k, v, dout first: to f32, f16, bf16");
  o->choice("--dtype-kv", r->dtype_kv, storage_dtypes(), "TYPE", "of k and v; i8,i4,u4,e4m3,e5m2,q8_0,q4_0: codes");
  o->choice("--dtype-v", r->dtype_v, storage_dtypes(), "TYPE", "of v, where it differs from k's");
  define_optional(o, r, {schema::Form::rows, schema::Form::factors});
  // One text: one entry of the help.
  for (const auto &[name, flag] : {std::pair("--hadamard-k", &r->hadamard_k), {"--hadamard-v", &r->hadamard_v}})
    o->flag(name, *flag, "k, v are those of `fa append` with this option");
  o->choice("--out-dtype", r->out_dtype, compute_dtypes(), "TYPE", "of the output; default: q's");
  o->flag("--u2-as-bf16", r->u2_as_bf16, "uint16 files hold the bits of bfloat16");
}

void define_attention(Options *o, RunOptions *r) {
  o->group("Attention");
  define_mask_options(o, r);
  // One text: one entry of the help.
  constexpr const char *of_scores = "of scores: X tanh(x / X); a factor, else 1 / sqrt(dim)";
  o->value("--softcap", r->softcap, "X", of_scores);
  o->value("--scale", r->scale, "X", of_scores);
  o->flag("--bias-before-softcap", r->bias_before_softcap, "add the bias before the softcap");
  define_optional(o, r, {schema::Form::scores, schema::Form::per_head, schema::Form::tree, schema::Form::places});
}

void define_sequences(Options *o, RunOptions *r) {
  o->group("Sequences (int32 or int64 arrays)");
  o->value("--cu-seqlens", r->cu_seqlens, "FILE", "sets both of the next two");
#define FA_ARRAY(name, more, promise, text) o->value(option_of(#name).c_str(), r->name, "FILE", text);
  FA_INPUT_FIELDS(FA_NOTHING, FA_ARRAY, FA_NOTHING)
#undef FA_ARRAY
  define_optional(o, r, {schema::Form::pages});
}

void define_execution(Options *o, RunOptions *r) {
  o->group("Execution");
  o->choice("--device", r->device, {"auto", "cpu", "cuda"}, "NAME", "auto (the default), cpu or cuda");
  o->value("--kernel", r->kernel, "NAME", "use this kernel (see `fa info`) or fail");
  o->value("--threads", r->threads, "N", "CPU threads; default: all");
  o->value("--num-splits", r->num_splits, "N", "parts of each sequence's keys; 0: chosen");
  // One text: one entry of the help.
  for (const auto &[name, flag] : {std::pair("--batch-invariant", &r->batch_invariant),
                                   {"--nondeterministic", &r->nondeterministic},
                                   {"--device-pointers", &r->device_pointers}})
    o->flag(name, *flag, "fa.h's FA_FLAG_* of that name");
  o->value("--repeat", r->repeat, "N", "call N times; print the median time", Range{1, 1e6});
  o->values("--reference", r->references, "FILE", "print the difference from this array (dq=FILE: of dq)");
  o->value("--max-error", r->max_error, "X", "fail when the largest difference is more");
  o->value("--case", r->case_text, "LINE", "replay a case of the test suite instead");
  o->help("print this");
}

}  // namespace

std::string option_of(std::string field) {
  if (field == "alibi_slopes") return "--alibi";
  std::replace(field.begin(), field.end(), '_', '-');
  return "--" + field;
}

std::string help_of(schema::ShapeRule shape, const char *text) {
  constexpr const char *tree = "new tokens: bits (B, Hq, Sq, words), (B, Sq)";
  switch (schema::form_of(shape)) {
    case schema::Form::factors:
      return "scales and zeros of codes, (B, S, H, groups)";
    case schema::Form::scores:
      return "added to scores; true: attend; up to (B, Hq, Sq, Sk)";
    case schema::Form::per_head:
      return "ALiBi slopes; logits of sinks, (H,) or (B, H)";
    case schema::Form::pages:
      return fmt::format("{}, (B, pages)", text);
    case schema::Form::places:
      return shape == schema::ShapeRule::tree_places ? tree : fmt::format("{}, (S,) or (B, S)", text);
    case schema::Form::table:
      return "cosines and sines, (positions, rotary_dim / 2)";
    case schema::Form::tree:
      return tree;
    case schema::Form::rows:
    case schema::Form::row_sums:
      break;
  }
  return text;
}

void take_references(RunOptions *options) {
  for (const std::string &text : options->references) {
    std::string *target = &options->reference;
    std::string path = text, what = "the output";
    for (const GradientOption &gradient : gradient_options) {
      const std::string begin = std::string(gradient.name) + "=";
      if (!text.starts_with(begin)) continue;
      target = &(options->*gradient.reference);
      path = text.substr(begin.size());
      what = gradient.name;
    }
    if (path.empty()) bad_input("--reference is '{}'; FILE or {}=FILE is expected", text, gradient_options[0].name);
    if (!target->empty()) bad_input("--reference is given twice for {}", what);
    *target = path;
  }
}

void define_run_options(Options *o, RunOptions *options) {
  define_tensors(o, options);
  define_attention(o, options);
  define_sequences(o, options);
  define_execution(o, options);
  o->exclude("--causal", "--causal-top-left");
  o->exclude("--cu-seqlens", "--cu-seqlens-q");
  o->exclude("--cu-seqlens", "--cu-seqlens-k");
}

}  // namespace fa::tool
