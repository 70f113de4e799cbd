// Refusals of an argument: the field, its value, the expected values, and advice.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/call.h"
#include "core/dtype.h"

namespace fa::api {

/// Describes an invalid argument, printf-like, and returns false.
[[gnu::format(printf, 1, 2)]] bool refuse(const char *format, ...);

/// The type of %lld.
using ll = long long;

/// Lengths and head counts are below 2^31.
inline constexpr int64_t max_length = INT32_MAX;

/// True when low <= value <= high; else refuses the field, with a note on the meaning of the values.
inline bool in_range(const char *field, int64_t value, int64_t low, int64_t high, const char *note = "") {
  if (value >= low && value <= high) [[likely]]
    return true;
  return refuse("%s is %lld; expected %lld .. %lld%s%s", field, ll{value}, ll{low}, ll{high}, *note ? ": " : "", note);
}

/// The name of Attention::head_dim_k.
inline const char *name_of_dim_k(const Attention &a) {
  return a.head_dim_rope != 0 ? "desc.head_dim less desc.head_dim_rope" : "desc.head_dim";
}

/// A set of dtypes, one bit each.
using DtypeSet = uint32_t;

constexpr DtypeSet only(fa_dtype dtype) {
  return 1u << dtype;
}

constexpr DtypeSet types_up_to(ElementUse last) {
  DtypeSet types = 0;
#define FA_ELEMENT(dtype, number, name, use, bits) \
  if (ElementUse::use <= last) types |= only(FA_##dtype);
#include "core/all_elements.inc"
#define FA_CODES(dtype, number, name, kind, elements, bytes) FA_ELEMENT(dtype, number, name, cache, 0)
#include "core/codes.inc"
#undef FA_CODES
#undef FA_ELEMENT
  return types;
}

/// The types of q, out, the bias and gradients; and the types of k and v.
inline constexpr DtypeSet float_types = types_up_to(ElementUse::compute), cache_types = types_up_to(ElementUse::cache);

/// Refuses a dtype: owner and member name the field ("args.q", "dtype"); why says where the expectation stems from.
bool refuse_dtype(const char *owner, const char *member, fa_dtype given, DtypeSet legal, const char *why);

/// Stores the dtype that a field means in *dtype: its own or, for FA_DTYPE_DEFAULT, the usual one. Refuses it unless
/// legal.
inline bool resolve_dtype(const char *owner, const char *member, fa_dtype given, fa_dtype usual, DtypeSet legal,
                          const char *why, fa_dtype *dtype) {
  *dtype = given == FA_DTYPE_DEFAULT ? usual : given;
  if (*dtype >= 0 && *dtype < 32 && (legal & only(*dtype))) [[likely]]
    return true;
  return refuse_dtype(owner, member, given, legal, why);
}

}  // namespace fa::api
