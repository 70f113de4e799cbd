// Calls the library on a case's tensors and lets the test suite's comparison judge.
#include "case_check.h"

#include "error.h"
#include "library.h"
#include "support/case.h"
#include "support/compare.h"
#include "support/instance.h"

namespace fa::tool {
namespace {

std::string library_text(const char *function, fa_status status) {
  return fmt::format("{}: {}: {}", function, fa_status_string(status), fa_last_error());
}

/// Sizes that tensors can be made of; whether they make a legal call is the library's to say.
void check_sizes(const test::Case &c) {
  constexpr int64_t most = int64_t{1} << 24;
  for (const int64_t size : {c.b, c.sq, c.sk, c.hq, c.hkv, c.d, c.dv, c.page}) {
    if (size < 0 || size > most) bad_input("not a case: {} is no size of a tensor", size);
  }
  if (c.hkv == 0 || c.hq % c.hkv != 0) bad_input("not a case: hkv={} does not divide hq={}", c.hkv, c.hq);
}

}  // namespace

CaseOutcome check_case(const std::string &line) {
  std::string error;
  const test::Case c = test::case_from_text(line, &error);
  if (!error.empty()) bad_input("not a case: {}", error);
  check_sizes(c);
  const test::Instance instance(c);
  CaseOutcome outcome;
  outcome.text = test::to_text(c);
  fa_op *raw = nullptr;
  const fa_status created = fa_create(&instance.desc, &raw);
  const Op op(raw);
  if (created == FA_ERROR_UNSUPPORTED || created == FA_ERROR_NO_DEVICE) {
    outcome.unserved = fa_last_error();
    outcome.failure = library_text("fa_create", created);
    return outcome;
  }
  if (created != FA_OK) {
    outcome.failure = library_text("fa_create", created);
    return outcome;
  }
  outcome.kernel = fa_op_kernel(op.get());
  if (const fa_status status = fa_forward(op.get(), &instance.args); status != FA_OK) {
    outcome.failure = library_text("fa_forward", status);
    return outcome;
  }
  test::Errors errors;
  outcome.failure = test::compare(instance, test::Expected(instance), &errors);
  if (outcome.failure.empty()) outcome.failure = instance.untouched();
  outcome.error = errors.out;
  outcome.naive_error = errors.naive;
  outcome.of_bound = errors.of_bound;
  return outcome;
}

}  // namespace fa::tool
