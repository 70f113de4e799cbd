// The parameters of the kernels that read quantised keys and values, and the description of their families. Compiled by
// the host's compiler and by nvcc alike, and hashed as params.h is.
#pragma once

#include "common/images.h"

namespace fa::kernels {

/// Quantised formats, numbered as fa_dtype is: Attention::kv_dtype is one of these or a Dtype.
enum CodeDtype : int32_t {
#define FA_CODES(dtype, number, name, kind, elements, bytes) name = number,
#include "core/codes.inc"
#undef FA_CODES
};

/// The column of codes.inc.
enum class CodeKind { none, integer, floating, block };

/// The kind of a type, bytes of a row of n elements.
constexpr CodeKind code_kind(int32_t dtype) {
#define FA_CODES(codes, number, name, kind, elements, bytes) \
  if (dtype == number) return CodeKind::kind;
#include "core/codes.inc"
#undef FA_CODES
  return CodeKind::none;
}

/// By which a computed scale divides the largest magnitude; a code of an integer type is no larger. Not of blocks.
constexpr float largest_code(int32_t dtype) {
  switch (dtype) {
    case i8:
      return 127;
    case i4:
      return 7;
    case u4:
      return 15;
    case e4m3:
      return 448;
    default:  // e5m2
      return 57344;
  }
}

constexpr bool is_quantised(int32_t dtype) {
  return code_kind(dtype) != CodeKind::none;
}

/// Scales or zeros of codes: (batch, row, head, group), in rows as the tensor is that has the codes. data is null where
/// they are absent.
struct Factors : View {
  int32_t dtype;     // Dtype
  int32_t channels;  // consecutive elements of a row that have one in common
};

enum FactorKind : int32_t { k_scale, v_scale, k_zero, v_zero };

/// A call with keys and values that are (code - zero) * scale, or numbers; or with keys in two parts.
/// Attention::kv_dtype is the type of k.
struct QuantisedParams : Params {
  Factors factors[4];           // by FactorKind
  int32_t v_dtype;              // Dtype or CodeDtype
  View k_rope;                  // the elements of keys from k_dim on; null: k has all
  int32_t k_dim, k_rope_dtype;  // the latter a Dtype
};

static_assert(sizeof(QuantisedParams) <= 4096, "the limit of drivers before CUDA 12.1");

/// A family whose kernels take QuantisedParams, with its reasons in addition to those of every family. Other families
/// read no codes, and no values of another type than keys.
struct QuantisedFamily : Family {
  /// Why it does not support the types of k and v; nullptr when it does.
  const char *(*unsupported_types_reason)(const Attention &attention, int32_t v_dtype);

  /// Why it does not support a call's scales and zeros; nullptr when it does.
  const char *(*unsupported_factors_reason)(const QuantisedParams &call);

  /// Whether it reads keys in two parts.
  bool reads_two_parts = false;
};

}  // namespace fa::kernels
