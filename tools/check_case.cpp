#include "check_case.h"

#include "error.h"
#include "reference/case.h"
#include "reference/gpu.h"
#include "reference/instance.h"
#include "reference/run.h"

namespace fa::tool {

const std::vector<CheckCase> &check_cases() {
  static const std::vector<CheckCase> cases = {
      {"plain", "b=2 sq=65 sk=129 hq=4 hkv=4 d=64"},
      {"tiny", "sq=4 sk=4 hq=1 hkv=1 d=4"},
      {"head dims", "sq=33 sk=70 hq=2 hkv=1 d=96 dv=40"},
      {"wide heads", "sq=5 sk=40 hq=1 hkv=1 d=576 dv=512"},
      {"wide heads, causal", "sq=70 sk=131 hq=2 hkv=1 d=512 mask=causal sinks=h"},
      {"wide heads, paged", "sq=1 sk=300 hq=16 hkv=1 d=512 page=16 splits=3"},
      {"causal", "sq=70 sk=131 hq=4 hkv=2 d=64 mask=causal"},
      {"causal, top left", "sq=70 sk=131 hq=2 hkv=2 d=64 mask=top_left"},
      {"window", "sq=150 sk=150 hq=2 hkv=2 d=32 mask=causal window_left=20"},
      {"chunk", "sq=100 sk=100 hq=2 hkv=2 d=32 mask=causal chunk=32"},
      {"softcap", "sq=40 sk=90 hq=2 hkv=2 d=64 softcap=5"},
      {"bias", "b=2 sq=40 sk=90 hq=2 hkv=2 d=64 bias=f32:hqk"},
      {"mask", "b=2 sq=40 sk=90 hq=2 hkv=2 d=64 boolmask=bqk"},
      {"alibi", "sq=40 sk=90 hq=4 hkv=4 d=64 mask=causal alibi=h"},
      {"sinks", "sq=40 sk=90 hq=4 hkv=4 d=64 sinks=h"},
      {"packed", "b=3 sq=50 sk=60 hq=4 hkv=4 d=32 cu_q=1 cu_k=1 mask=causal"},
      {"used lengths", "b=3 sq=20 sk=60 hq=4 hkv=2 d=64 used_q=1 used_k=1 leftpad=1"},
      {"paged", "b=2 sq=3 sk=80 hq=4 hkv=2 d=64 page=16 used_k=1 mask=causal"},
      {"decode", "b=2 sq=1 sk=300 hq=8 hkv=2 d=128 mask=causal splits=3 threads=2"},
      {"strides", "b=2 sq=33 sk=65 hq=4 hkv=4 d=64 q_layout=bhsd k_layout=slice v_layout=padded out_layout=bhsd"},
      {"batch-invariant", "b=2 sq=17 sk=200 hq=4 hkv=2 d=64 flags=2 mask=causal"},
      {"tree", "b=2 sq=9 sk=80 hq=4 hkv=2 d=64 mask=causal tree=bh:tree depths=b"},
      {"8-bit cache", "sq=3 sk=150 hq=8 hkv=2 d=64 mask=causal", "kv=i8 kscale=f32:bsh:1 vscale=f32:bsh:1"},
      {"8-bit cache, a scale a tensor", "b=2 sq=70 sk=131 hq=2 hkv=1 d=64", "kv=i8 kscale=f32::1 vscale=f32::1"},
      {"fp8 cache", "b=2 sq=1 sk=150 hq=4 hkv=2 d=64 page=16 used_k=1", "kv=e4m3 v=e5m2 kscale=f32:h:1"},
      {"4-bit cache", "sq=1 sk=150 hq=4 hkv=4 d=64", "kv=i4 kscale=f16:bsh:2 vscale=f16:bsh:2"},
      {"4-bit cache with zeros", "sq=2 sk=150 hq=8 hkv=1 d=64",
       "kv=u4 kscale=f16:bsh:1 vscale=f16:bsh:1 kzero=f16:bsh:1 vzero=f16:bsh:1"},
      {"cache of ggml's blocks", "sq=1 sk=150 hq=4 hkv=2 d=64", "kv=q8_0 v=q4_0"},
      {"backward", "b=2 sq=65 sk=129 hq=4 hkv=2 d=64 mask=causal backward=1"},
      {"backward, every feature",
       "b=2 sq=40 sk=90 hq=4 hkv=2 d=64 window_left=50 softcap=5 bias=f32:hqk sinks=h alibi=h boolmask=bqk used_k=1 "
       "backward=1 dbias=hqk dsinks=h dlse=1 dq=f32 dk=f32 dv_type=f32 accumulate=qkv"},
      {"backward, packed", "b=3 sq=50 sk=60 hq=4 hkv=4 d=32 cu_q=1 cu_k=1 mask=causal backward=1"},
      // On GPUs: tiles of keys add to dq one after another, or whenever they are done.
      {"backward, in a fixed order", "sq=300 sk=270 hq=8 hkv=1 d=64 mask=causal backward=1"},
      {"backward, in any order", "sq=150 sk=270 hq=4 hkv=2 d=64 mask=causal flags=1 backward=1"}};
  return cases;
}

const std::vector<CheckType> &check_types() {
  static const std::vector<CheckType> types = {
      {"f32", FA_F32, FA_F32}, {"f16", FA_F16, FA_F16}, {"bf16", FA_BF16, FA_BF16}, {"f32 over bf16", FA_F32, FA_BF16}};
  return types;
}

std::string line_of(const CheckCase &each, const CheckType &type) {
  std::string line = fmt::format("{} q={}", each.line, reference::name_of(type.q));
  if (each.stored) return fmt::format("{} {}", line, each.stored);
  return type.kv == type.q ? line : fmt::format("{} kv={}", line, reference::name_of(type.kv));
}

const std::vector<CheckMerge> &check_merges() {
  using reference::Layout;
  static const std::vector<CheckMerge> merges = {
      {"merge", {.sq = 33, .dv = 72, .parts = std::vector<fa_dtype>(5), .mask = "bhq", .special = true}},
      {"merge, in place",
       {.sq = 40, .hq = 2, .out_layout = Layout::bhsd, .base_2 = true, .in_place = true, .mask = ""}}};
  return merges;
}

namespace {

reference::AppendCase with(void (*change)(reference::AppendCase *)) {
  reference::AppendCase c;
  c.lens = true;
  change(&c);
  return c;
}

}  // namespace

const std::vector<CheckAppend> &check_appends() {
  using reference::AppendCase, reference::CacheAddressing;
  static const std::vector<CheckAppend> appends = {
      {"append", with([](AppendCase *c) { c->sn = 5, c->leftpad = true; })},
      {"append, packed, to pages",
       with([](AppendCase *c) { c->b = 3, c->sn = 9, c->packed = true, c->addressing = CacheAddressing::pages; })},
      {"append, rotated, to slots",
       with([](AppendCase *c) { c->sn = 7, c->addressing = CacheAddressing::slots64, c->skipped = 3, c->pairs = 16, c->hq = 4; })},
      {"append to an 8-bit cache", with([](AppendCase *c) {
         c->cache = FA_I8, c->kscale = c->vscale = "f32:bsh:1", c->computed = true, c->pairs = 32;
       })},
      {"append to an 8-bit cache, scales given", with([](AppendCase *c) {
         c->cache = FA_I8, c->kscale = "f32:h:1", c->vscale = "f32::1", c->addressing = CacheAddressing::pages;
       })},
      {"append to an fp8 cache",
       with([](AppendCase *c) { c->cache = FA_E4M3, c->v_cache = FA_E5M2, c->batch_idx = true; })},
      {"append to a 4-bit cache", with([](AppendCase *c) {
         c->cache = FA_I4, c->kscale = "f16:bsh:2", c->vscale = "f16:bsh:4", c->computed = true;
       })},
      {"append to a 4-bit cache with zeros", with([](AppendCase *c) {
         c->cache = FA_U4, c->kscale = c->vscale = c->kzero = c->vzero = "f16:bsh:1", c->computed = true;
       })},
      {"append to ggml's blocks", with([](AppendCase *c) { c->cache = FA_Q8_0, c->v_cache = FA_Q4_0; })}};
  return appends;
}

namespace {

/// Sizes that tensors can be made of; whether they make a legal call is the library's to say.
void check_sizes(const reference::Case &c) {
  constexpr int64_t most = int64_t{1} << 24;
  for (const int64_t size : {c.b, c.sq, c.sk, c.hq, c.hkv, c.d, c.dv, c.page}) {
    if (size < 0 || size > most) bad_input("not a case: {} is not a size of a tensor", size);
  }
  if (c.hkv == 0 || c.hq % c.hkv != 0) bad_input("not a case: hkv={} does not divide hq={}", c.hkv, c.hq);
}

/// True where there is an op, whose kernel the outcome names; else it says why there is none.
bool is_created(const reference::Op &op, CaseOutcome *outcome) {
  if (op) {
    outcome->kernel = fa_op_kernel_name(op.get());
    return true;
  }
  outcome->failure = fmt::format("fa_create: {}: {}", fa_status_string(op.status()), fa_last_error());
  if (op.status() == FA_ERROR_UNSUPPORTED || op.status() == FA_ERROR_NO_DEVICE) outcome->unsupported = fa_last_error();
  return false;
}

}  // namespace

CaseOutcome check_merge(const CheckMerge &merge, const CheckType &type, const std::string &kernel) {
  reference::explain_crashes();
  reference::MergeCase c = merge.c;
  c.out = type.q;
  for (fa_dtype &each : c.parts) each = type.kv;
  c.parts[0] = type.q;  // which the result may replace
  CaseOutcome outcome;
  outcome.text = reference::to_text(c);
  const reference::MergeInstance instance(c);
  const reference::Op op(instance.desc, kernel);
  if (is_created(op, &outcome)) outcome.failure = reference::failure_of(c, outcome.kernel);
  return outcome;
}

CaseOutcome check_append(const CheckAppend &append, const CheckType &type, const std::string &kernel) {
  reference::explain_crashes();
  reference::AppendCase c = append.c;
  c.q = type.q;
  if (!c.cache) c.cache = type.kv;
  CaseOutcome outcome;
  outcome.text = reference::to_text(c);
  const reference::Op op(reference::AppendInstance(c).desc, kernel);
  if (!is_created(op, &outcome)) return outcome;
  outcome.failure = reference::failure_of(c, outcome.kernel);
  // A build without the image that writes codes on GPUs.
  if (!outcome.failure.empty() && reference::append(op, reference::AppendInstance(c)) == FA_ERROR_UNSUPPORTED)
    outcome.unsupported = fa_last_error();
  return outcome;
}

CaseOutcome check_case(const std::string &line, const std::string &kernel) {
  std::string error;
  const reference::Case c = reference::case_from_text(line, &error);
  if (!error.empty()) bad_input("not a case: {}", error);
  check_sizes(c);
  reference::explain_crashes();  // an access outside of a tensor ends the program: the case is named even so

  CaseOutcome outcome;
  outcome.text = reference::to_text(c);
  const reference::Instance instance(c);
  const reference::Op op(instance.desc, kernel);
  if (!is_created(op, &outcome)) return outcome;
  reference::Errors errors;
  // Of a GPU's kernels none is forced: the best one may leave this call to others.
  outcome.failure = reference::failure_of(c, kernel == "cuda" ? kernel : outcome.kernel, &errors);
  // A kernel that supports some calls only and was forced by name; or a build without gradients.
  const auto again = [&] {
    return c.backward ? reference::backward(op, reference::BackwardInstance(c)) : reference::forward(op, instance);
  };
  if (!outcome.failure.empty() && again() == FA_ERROR_UNSUPPORTED) outcome.unsupported = fa_last_error();
  outcome.measured = true;
  outcome.error = errors.out;
  outcome.naive_error = errors.naive;
  outcome.of_bound = errors.of_bound;
  return outcome;
}

}  // namespace fa::tool
