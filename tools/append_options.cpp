// Names and help texts of the options of `fa append`; they follow the fields of fa_append_args.
#include "append_options.h"

#include <algorithm>
#include <initializer_list>
#include <utility>

#include "library.h"
#include "run_options.h"

namespace fa::tool {
namespace {

/// The tensors of one of these forms, but for k, whose text says more.
void define_tensors(Options *o, AppendOptions *a, std::initializer_list<schema::Form> forms) {
  const auto define = [&](const char *name, schema::ShapeRule rule, const char *text, std::string *path) {
    if (path == &a->k || std::ranges::find(forms, schema::form_of(rule)) == forms.end()) return;
    o->value(option_of(name).c_str(), *path, "FILE", help_of(rule, text).c_str());
  };
#define FA_TENSOR(name, access, presence, type, shape, promise, text) \
  define(#name, schema::ShapeRule::shape, text, &a->name);
  FA_APPEND_FIELDS(FA_TENSOR, FA_NOTHING, FA_NOTHING)
#undef FA_TENSOR
}

}  // namespace

void define_append_options(Options *o, AppendOptions *a) {
  using schema::Form;
  o->group("Tensors");
  o->value("--k", a->k, "FILE", "new keys (B, S, H, D), or packed (total, H, D)");
  define_tensors(o, a, {Form::rows});
  o->choice("--layout", a->layout, {"bshd", "bhsd"}, "ORDER", "of 4-D arrays: bshd (the default) or bhsd");
  o->choice("--dtype", a->dtype, compute_dtypes(), "TYPE", "convert k, v and q first: to f32, f16, bf16");
  o->flag("--u2-as-bf16", a->u2_as_bf16, "uint16 files hold the bits of bfloat16");

  o->group("The cache");
  o->value("--new-cache", a->new_cache, "N,ROWS", "make files of zeros first: N entries of ROWS rows");
  o->choice("--dtype-kv", a->dtype_kv, storage_dtypes(), "TYPE", "of the cache; i8,i4,u4,e4m3,e5m2,q8_0,q4_0: codes");
  o->choice("--dtype-v", a->dtype_v, storage_dtypes(), "TYPE", "of its values, where it differs from the keys'");
  define_tensors(o, a, {Form::factors});
  o->flag("--compute-scales", a->compute_scales, "compute scales and zeros of new tokens, and write them");
  o->value("--groups", a->groups, "N", "of new files of scales: groups of channels; default: 1",
           Range{1, FA_MAX_HEAD_DIM});
  o->choice("--scale-dtype", a->scale_dtype, compute_dtypes(), "TYPE", "of new files of scales; default: f32");

  // One text: one entry of the help.
  for (const auto &[name, flag] : {std::pair("--hadamard-k", &a->hadamard_k), {"--hadamard-v", &a->hadamard_v}})
    o->flag(name, *flag, "rotate keys, values, by a Hadamard matrix");

  o->group("Sequences and rows of the cache (int32 or int64 arrays)");
#define FA_ARRAY(name, more, promise, text) o->value(option_of(#name).c_str(), a->name, "FILE", text);
  FA_APPEND_FIELDS(FA_NOTHING, FA_ARRAY, FA_NOTHING)
#undef FA_ARRAY
  define_tensors(o, a, {Form::pages, Form::places});

  o->group("Rotary embedding");
  define_tensors(o, a, {Form::table});
  o->flag("--rotary-interleaved", a->rotary_interleaved, "pairs are neighbours; default: halves apart");
  o->flag("--rotary-tail", a->rotary_tail, "the last elements of a row have the pairs");

  o->group("Execution");
  o->choice("--device", a->device, {"auto", "cpu", "cuda"}, "NAME", "auto (the default), cpu or cuda");
  o->value("--kernel", a->kernel, "NAME", "use this kernel (see `fa info`) or fail");
  o->value("--threads", a->threads, "N", "CPU threads; default: all");
  o->value("--repeat", a->repeat, "N", "call N times; print the median time", Range{1, 1e6});
  o->help("print this");
}

}  // namespace fa::tool
