// fa_append by its definition in fa.h: the tensors of a case, the expected elements of the cache and of q_out, and the
// comparison of a call with them.
#pragma once

#include <fa.h>

#include <string>
#include <vector>

#include "reference/append_case.h"
#include "reference/append_codes.h"
#include "reference/memory.h"
#include "schema/fields.def"

namespace reference {

/// The tensors, arrays and structures of a case. Rows of inputs that no token has hold NaN and impossible indices.
class AppendInstance {
 public:
  explicit AppendInstance(const AppendCase &c, Guard guard = Guard::end);
  AppendInstance(const AppendInstance &) = delete;
  AppendInstance &operator=(const AppendInstance &) = delete;

  AppendCase c;
  fa_desc desc;
  fa_append_args args;
#define FA_TENSOR(name, ...) Tensor name;
#define FA_ARRAY(name, ...) GuardedInts name;
  FA_APPEND_FIELDS(FA_TENSOR, FA_ARRAY, FA_NOTHING)
#undef FA_TENSOR
#undef FA_ARRAY

  /// Points args at the tensors and arrays; to be called again after one was replaced.
  void bind();

  /// The bytes that a call may write.
  std::vector<char> outputs() const;

 private:
  void make_arrays(Guard guard);
  void make_inputs(Guard guard);
  void make_cache(Guard guard);
  void make_scales(Guard guard);
  void make_rotary(Guard guard);
  void make_slots(Guard guard);
  int64_t new_rows() const;  // of k

  int64_t entries_ = 0, longest_ = 0;
};

/// The elements that a call has to write, from its structures alone, by fa.h's definition.
class ExpectedAppend {
 public:
  /// An element that a call writes.
  struct Element {
    const char *at;
    fa_dtype dtype;
    bool copied;  // it has `bits`; else it is `value` rounded once, after an error of `spread` * 2^-24 in f32
    uint32_t bits;
    double value, spread;
  };

  /// Reads the inputs, so that a call may overwrite q.
  ExpectedAppend(const fa_desc &desc, const fa_append_args &args);

  const std::vector<Element> &elements() const { return elements_; }
  const std::vector<ExpectedCodes> &codes() const { return codes_; }

 private:
  std::vector<Element> elements_;
  std::vector<ExpectedCodes> codes_;  // of quantised rows
};

/// "" when the outputs of a call hold the expected elements, and all other bytes are as in `before`; else the first
/// difference.
std::string difference(const AppendInstance &instance, const ExpectedAppend &expected, const std::vector<char> &before);

/// Calls fa_append, and waits for the GPU.
class Op;
fa_status append(const Op &op, const AppendInstance &instance);

/// Runs a case with its tensors flush against either guard page: "" when all is right, else the failure and the case.
std::string failure_of(const AppendCase &c, const std::string &kernel);

}  // namespace reference
