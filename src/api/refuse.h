// How a rule says no: by name of the field, with what was got, what was expected and what would work.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/problem.h"

namespace fa::api {

/// Describes an invalid argument, printf-like, and returns false.
[[gnu::format(printf, 1, 2)]] bool refuse(const char *format, ...);

/// Lengths and head counts are below 2^31.
inline constexpr int64_t max_length = INT32_MAX;

/// True when low <= value <= high; else refuses the field, with a note on what the values mean.
inline bool in_range(const char *field, int64_t value, int64_t low, int64_t high, const char *note = "") {
  if (value >= low && value <= high) [[likely]]
    return true;
  return refuse("%s is %lld; expected %lld .. %lld%s%s", field, static_cast<long long>(value),
                static_cast<long long>(low), static_cast<long long>(high), *note ? ": " : "", note);
}

/// A set of dtypes, one bit each.
using DtypeSet = uint32_t;

constexpr DtypeSet only(fa_dtype dtype) {
  return 1u << dtype;
}

inline constexpr DtypeSet float_types = only(FA_F32) | only(FA_F16) | only(FA_BF16);

/// The dtype that a field means, *dtype: the field's own or, for FA_DTYPE_DEFAULT, the fallback. Refuses what is not in
/// the set; owner and member name the field for the text ("args.q", "dtype"); why says where the expectation stems
/// from.
bool resolve_dtype(const char *owner, const char *member, fa_dtype given, fa_dtype fallback, DtypeSet allowed,
                   const char *why, fa_dtype *dtype);

}  // namespace fa::api
