// The contract between fa_append and its kernels: rows of one token, a head each, on their way from a tensor of the
// call to another.
#pragma once

#include <cstdint>

#include "core/call.h"

namespace fa::cpu {

/// Strides are in bytes.
struct TokenRows {
  const char *from;
  char *to;
  int64_t from_head, to_head;  // from a head to the next
  int64_t from_elem, to_elem;  // from an element to the next
  fa_dtype from_dtype, to_dtype;
  int64_t heads, dim;
};

/// Scales, or zeros, of a token's rows of codes. Strides are in bytes.
struct TokenFactor {
  char *data;  // null: absent
  int64_t head, group;
  fa_dtype dtype;
  int64_t channels;  // of a group: consecutive elements that have one in common
};

/// The codes of a token's rows, which are whole.
struct TokenCodes {
  TokenFactor scale, zero;
  bool computed;  // written, not read
};

/// A row of the rotary tables, for rows of 2 * pairs elements, and the elements of a block of whole rows that is then
/// rotated by a Hadamard matrix; 1: none is.
struct TokenRotation {
  const char *cos, *sin;
  int64_t cos_elem, sin_elem;
  fa_dtype cos_dtype, sin_dtype;
  int64_t pairs;
  bool interleaved;
  int64_t hadamard = 1;
};

}  // namespace fa::cpu
