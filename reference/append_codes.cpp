#include "reference/append_codes.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "reference/codes.h"

namespace reference {
namespace {

using Number = ExpectedCodes::Number;

/// A number without a margin.
bool is_exact(const Number &x) {
  return !x.any && (x.low == x.high || std::isnan(x.low));
}

bool is_special(const Number &x) {
  return !std::isfinite(x.low) || !std::isfinite(x.high);
}

float min_magnitude(const Number &x) {
  return x.low <= 0 && x.high >= 0 ? 0 : std::fmin(std::fabs(x.low), std::fabs(x.high));
}
float max_magnitude(const Number &x) {
  return std::fmax(std::fabs(x.low), std::fabs(x.high));
}

float stored(fa_dtype dtype, float x) {
  return round_to(dtype, x);
}

/// The code of a number that has been divided by its scale.
uint8_t code_of(float x, fa_dtype dtype) {
  switch (dtype) {
    case FA_I8:
      return uint8_t(nearest_integer(x, -128, 127));
    case FA_I4:
      return uint8_t(nearest_integer(x, -8, 7) & 15);
    case FA_U4:
      return uint8_t(nearest_integer(x, 0, 15));
    case FA_E4M3:
      return nearest_float(x, 0x7e, e4m3);
    default:
      return nearest_float(x, 0x7b, e5m2);
  }
}

/// The largest code, by which max |x| is divided.
float divisor_of(fa_dtype dtype) {
  switch (dtype) {
    case FA_I8:
      return 127;
    case FA_I4:
      return 7;
    case FA_U4:
      return 15;
    case FA_E4M3:
      return 448;
    default:
      return 57344;
  }
}

std::string text_of(const char *part, size_t at, double got, double low, double high) {
  char text[200];
  std::snprintf(text, sizeof text, "%s %zu is %.9g; expected %.9g .. %.9g", part, at, got, low, high);
  return text;
}

/// Whether a block has a byte a code, as q8_0; else two codes a byte, as q4_0.
bool has_bytes(fa_dtype dtype) {
  return row_bytes(dtype, 32) > 32;
}

/// The scale and the codes of a block, in the steps of ggml's quantize_row_*_ref.
struct Block {
  float scale, inverse;

  explicit Block(float of) : scale(of), inverse(of == 0 ? 0 : 1 / of) {}

  int code(float x, fa_dtype dtype) const {
    volatile float scaled = x * inverse;  // not contracted with the addition
    const float number = std::isnan(scaled) ? 0 : scaled;
    if (has_bytes(dtype)) return int(std::clamp(std::round(number), -127.0F, 127.0F));
    return int(std::clamp(std::trunc(number + 8.5F), 0.0F, 15.0F));
  }
};

}  // namespace

void ExpectedCodes::each_written(const std::function<void(const char *, int64_t)> &f) const {
  const auto dim = int64_t(numbers.size());
  if (unit_elements(dtype) > 1) {
    f(row, row_bytes(dtype, dim));
  } else {
    for (int64_t d = 0; d < dim; ++d) f(row + d * step, 1);
  }
  if (!computed) return;
  for (const char *at : scale.at) f(at, dtype_bytes(scale.dtype));
  for (const char *at : zero.at) f(at, dtype_bytes(zero.dtype));
}

std::string ExpectedCodes::fault() const {
  if (codes_of(dtype)->block) {
    for (size_t d = 0; d < numbers.size(); d += 32)
      if (const std::string text = fault_of_block(d); !text.empty()) return text;
    return "";
  }
  std::vector<float> scales = scale.given, zeros = zero.given;
  for (size_t group = 0; computed && group < scale.at.size(); ++group)
    if (const std::string text = fault_of_group(group, &scales, &zeros); !text.empty()) return text;
  for (size_t d = 0; d < numbers.size(); ++d)
    if (const std::string text = fault_of_code(d, scales[d], zeros[d]); !text.empty()) return text;
  return "";
}

/// Checks a computed scale, and its zero, and appends both for each element.
std::string ExpectedCodes::fault_of_group(size_t group, std::vector<float> *scales, std::vector<float> *zeros) const {
  const size_t channels = numbers.size() / scale.at.size(), first = group * channels;
  const bool has_zero = !zero.at.empty();
  const auto got = float(load(scale.at[group], scale.dtype));
  const float offset = has_zero ? float(load(zero.at[group], zero.dtype)) : -0.0F;
  scales->insert(scales->end(), channels, got);
  zeros->insert(zeros->end(), channels, offset);
  Number most = {0, 0}, low = numbers[first], high = numbers[first];
  bool special = false;
  for (size_t d = first; d < first + channels; ++d) {
    const Number &x = numbers[d];
    if (x.any) return "";
    special |= is_special(x);
    most = {std::fmax(most.low, min_magnitude(x)), std::fmax(most.high, max_magnitude(x))};
    low = {std::fmin(low.low, x.low), std::fmin(low.high, x.high)};
    high = {std::fmax(high.low, x.low), std::fmax(high.high, x.high)};
  }
  if (special) {
    if (!std::isnan(got)) return text_of("the scale of group", group, got, NAN, NAN);
    return !has_zero || offset == 0 ? "" : text_of("the zero of group", group, offset, 0, 0);
  }
  const float divisor = divisor_of(dtype);
  float expected[] = {most.low / divisor, most.high / divisor};
  if (has_zero) {
    expected[0] = std::fmax(high.low / 15 - low.high / 15, most.low / 256);
    expected[1] = std::fmax(high.high / 15 - low.low / 15, most.high / 256);
  }
  for (float &x : expected) x = stored(scale.dtype, x);
  if (!(expected[0] <= got && got <= expected[1]))
    return text_of("the scale of group", group, got, expected[0], expected[1]);
  if (!has_zero) return "";
  const bool usable = got > 0 && std::isfinite(got);
  const float zero_low = stored(zero.dtype, usable ? -low.high / got : 0);
  const float zero_high = stored(zero.dtype, usable ? -low.low / got : 0);
  return zero_low <= offset && offset <= zero_high ? ""
                                                   : text_of("the zero of group", group, offset, zero_low, zero_high);
}

std::string ExpectedCodes::fault_of_code(size_t d, float factor, float offset) const {
  uint8_t got = 0;
  if (unit_elements(dtype) > 1) {
    const auto byte = uint8_t(row[d / 2]);
    got = d % 2 ? byte >> 4 : byte & 15;
  } else {
    got = uint8_t(row[int64_t(d) * step]);
  }
  const Number &x = numbers[d];
  if (x.any) return "";
  if (!std::isfinite(factor) || factor == 0) return got == 0 ? "" : text_of("code", d, got, 0, 0);
  uint8_t codes[] = {code_of(x.low / factor + offset, dtype), code_of(x.high / factor + offset, dtype)};
  if (is_exact(x)) return got == codes[0] ? "" : text_of("code", d, got, codes[0], codes[0]);
  double value = load_code(&got, dtype, 0), low = load_code(&codes[0], dtype, 0), high = load_code(&codes[1], dtype, 0);
  if (low > high) std::swap(low, high);
  return low <= value && value <= high ? "" : text_of("the number of code", d, value, low, high);
}

std::string ExpectedCodes::fault_of_block(size_t first) const {
  const auto *const block = reinterpret_cast<const uint8_t *>(row) + row_bytes(dtype, int64_t(first));
  const bool wide = has_bytes(dtype);
  const auto got_scale = float(load(block, FA_F16));
  const auto got = [&](size_t i) {
    return wide ? int(int8_t(block[2 + i])) : int(i < 16 ? block[2 + i] & 15 : block[2 + i - 16] >> 4);
  };
  float largest_low = 0;
  bool special = false, exact = true;
  for (size_t i = 0; i < 32; ++i) {
    const Number &x = numbers[first + i];
    if (x.any) return "";
    special |= is_special(x);
    exact &= is_exact(x);
    largest_low = std::fmax(largest_low, min_magnitude(x));
  }
  if (special) {
    for (size_t i = 0; i < 32; ++i)
      if (got(i) != (wide ? 0 : 8)) return text_of("code", first + i, got(i), wide ? 0 : 8, wide ? 0 : 8);
    return std::isnan(got_scale) ? "" : text_of("the scale of the block at", first, got_scale, NAN, NAN);
  }
  // Any number that may be the largest may decide the scale; among exact numbers the first of the largest does.
  std::string text;
  for (size_t largest = 0; largest < 32; ++largest) {
    const Number &of = numbers[first + largest];
    if (max_magnitude(of) < largest_low) continue;
    const auto scale_of = [&](float x) { return wide ? std::fabs(x) / 127 : x / -8; };
    Block ends[] = {Block(scale_of(of.low)), Block(scale_of(of.high))};
    const float low = stored(FA_F16, std::fmin(ends[0].scale, ends[1].scale));
    const float high = stored(FA_F16, std::fmax(ends[0].scale, ends[1].scale));
    text =
        low <= got_scale && got_scale <= high ? "" : text_of("the scale of the block at", first, got_scale, low, high);
    for (size_t i = 0; i < 32 && text.empty(); ++i) {
      const Number &x = numbers[first + i];
      const int codes[] = {ends[0].code(x.low, dtype), ends[0].code(x.high, dtype), ends[1].code(x.low, dtype),
                           ends[1].code(x.high, dtype)};
      const auto [from, to] = std::minmax_element(std::begin(codes), std::end(codes));
      if (got(i) < *from || got(i) > *to) text = text_of("code", first + i, got(i), *from, *to);
    }
    if (text.empty() || exact) return text;
  }
  return text;
}

}  // namespace reference
