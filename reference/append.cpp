#include "reference/append.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <utility>

#include "reference/gpu.h"
#include "reference/number.h"
#include "reference/run.h"

namespace reference {
namespace {

/// "" when an element is right, else its fault.
std::string fault_of(const ExpectedAppend::Element &e) {
  char text[160];
  if (e.copied) {
    const uint32_t bits = bits_at(e.at, e.dtype);
    if (bits == e.bits) return "";
    std::snprintf(text, sizeof text, "has the bits %x; expected %x", bits, e.bits);
    return text;
  }
  const double got = load(e.at, e.dtype);
  const double error = std::isinf(e.value) ? 0 : std::ldexp(e.spread, -24) + smallest(FA_F32);
  const double low = round_to(e.dtype, float(e.value - error)), high = round_to(e.dtype, float(e.value + error));
  const bool right = std::isnan(e.value) ? std::isnan(got) : low <= got && got <= high;
  if (right || (std::isnan(got) && e.spread / 2 > largest(FA_F32))) return "";
  std::snprintf(text, sizeof text, "is %.9g; expected %.9g, %.9g .. %.9g", got, e.value, low, high);
  return text;
}

}  // namespace

std::string difference(const AppendInstance &instance, const ExpectedAppend &expected,
                       const std::vector<char> &before) {
  struct Output {
    const char *name;
    const Tensor &tensor;
    size_t bytes, offset;
  };
  std::vector<Output> outputs;
  size_t all = 0;
  for (const auto &[name, tensor] :
       {std::pair{"k_cache", &instance.k_cache}, std::pair{"v_cache", &instance.v_cache},
        std::pair{"k_rope_cache", &instance.k_rope_cache}, std::pair{"q_out", &instance.q_out},
        std::pair{"q", &instance.q}, std::pair{"k_scale", &instance.k_scale}, std::pair{"v_scale", &instance.v_scale},
        std::pair{"k_zero", &instance.k_zero}, std::pair{"v_zero", &instance.v_zero}}) {
    outputs.push_back({name, *tensor, tensor->bytes().size(), all});
    all += outputs.back().bytes;
  }
  std::vector<char> allowed = before;
  const std::vector<char> after = instance.outputs();
  const auto allow = [&](const char *at, int64_t bytes, const auto &fault_of_it) -> std::string {
    for (const Output &output : outputs) {
      const auto offset = size_t(at - output.tensor.memory());  // wraps, and is too large, before the tensor
      if (offset >= output.bytes) continue;
      if (const std::string fault = fault_of_it(); !fault.empty())
        return std::string(output.name) + ", byte " + std::to_string(offset) + ": " + fault;
      std::copy_n(&after[output.offset + offset], bytes, &allowed[output.offset + offset]);
    }
    return "";
  };
  for (const ExpectedAppend::Element &e : expected.elements())
    if (std::string text = allow(e.at, dtype_bytes(e.dtype), [&] { return fault_of(e); }); !text.empty()) return text;
  for (const ExpectedCodes &codes : expected.codes()) {
    if (std::string text = allow(codes.row, 0, [&] { return codes.fault(); }); !text.empty()) return text;
    codes.each_written([&](const char *at, int64_t bytes) { allow(at, bytes, [] { return std::string(); }); });
  }
  for (const Output &output : outputs)
    for (size_t i = output.offset; i < output.offset + output.bytes; ++i)
      if (after[i] != allowed[i])
        return std::string(output.name) + ", byte " + std::to_string(i - output.offset) + " of " +
               std::to_string(output.bytes) + " was written, which is no new token's";
  return "";
}

fa_status append(const Op &op, const AppendInstance &instance) {
  const fa_status status = fa_append(op.get(), &instance.args);
  const std::string error = wait_for_gpu();
  if (error.empty()) return status;
  std::fprintf(stderr, "the GPU says %s\n", error.c_str());
  return status != FA_OK ? status : FA_ERROR_DRIVER;
}

std::string failure_of(const AppendCase &c, const std::string &kernel) {
  share_memory(is_gpu(kernel));
  for (const Guard guard : {Guard::end, Guard::start}) {
    const AppendInstance instance(c, guard);
    const std::vector<char> before = instance.outputs();
    const ExpectedAppend expected(instance.desc, instance.args);
    const Op op(instance.desc, kernel);
    std::string text;
    const fa_status status = op ? append(op, instance) : op.status();
    if (status != FA_OK) {
      text = std::string(fa_status_string(status)) + ": " + fa_last_error();
    } else {
      text = difference(instance, expected, before);
    }
    if (!text.empty()) return text + "\n  fa_append on " + kernel + ": " + to_text(c);
  }
  return "";
}

}  // namespace reference
