// Lets the test suite run the case and judge.
#include "case_check.h"

#include "error.h"
#include "reference/case.h"
#include "reference/gpu.h"
#include "reference/instance.h"
#include "reference/run.h"

namespace fa::tool {
namespace {

/// Sizes that tensors can be made of; whether they make a legal call is the library's to say.
void check_sizes(const reference::Case &c) {
  constexpr int64_t most = int64_t{1} << 24;
  for (const int64_t size : {c.b, c.sq, c.sk, c.hq, c.hkv, c.d, c.dv, c.page}) {
    if (size < 0 || size > most) bad_input("not a case: {} is not a size of a tensor", size);
  }
  if (c.hkv == 0 || c.hq % c.hkv != 0) bad_input("not a case: hkv={} does not divide hq={}", c.hkv, c.hq);
}

}  // namespace

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
  if (!op) {
    outcome.failure = fmt::format("fa_create: {}: {}", fa_status_string(op.status()), fa_last_error());
    if (op.status() == FA_ERROR_UNSUPPORTED || op.status() == FA_ERROR_NO_DEVICE) outcome.unserved = fa_last_error();
    return outcome;
  }
  outcome.kernel = fa_op_kernel_name(op.get());
  reference::Errors errors;
  outcome.failure = reference::failure_of(c, outcome.kernel, &errors);
  // A kernel that serves some calls only, and was asked for by name; or a build without gradients.
  const auto again = [&] {
    return c.backward ? reference::backward(op, reference::BackwardInstance(c)) : reference::forward(op, instance);
  };
  if (!outcome.failure.empty() && again() == FA_ERROR_UNSUPPORTED) outcome.unserved = fa_last_error();
  outcome.error = errors.out;
  outcome.naive_error = errors.naive;
  outcome.of_bound = errors.of_bound;
  return outcome;
}

}  // namespace fa::tool
