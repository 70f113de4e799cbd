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
  static const std::vector<CheckType> types = {{"f32", "q=f32", FA_F32, FA_F32},
                                               {"f16", "q=f16", FA_F16, FA_F16},
                                               {"bf16", "q=bf16", FA_BF16, FA_BF16},
                                               {"f32 over bf16", "q=f32 kv=bf16", FA_F32, FA_BF16}};
  return types;
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
  c.out = type.merged;
  for (fa_dtype &each : c.parts) each = type.parts;
  c.parts[0] = type.merged;  // which the result may replace
  CaseOutcome outcome;
  outcome.text = reference::to_text(c);
  const reference::MergeInstance instance(c);
  const reference::Op op(instance.desc, kernel);
  if (is_created(op, &outcome)) outcome.failure = reference::failure_of(c, outcome.kernel);
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
  outcome.failure = reference::failure_of(c, outcome.kernel, &errors);
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
