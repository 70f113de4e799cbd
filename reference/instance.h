// The tensors, arrays and structures of a case, ready for fa_create and fa_forward. Whatever the call does not need to
// read holds NaN or an impossible index, so that using it shows.
#pragma once

#include <fa.h>

#include <string>
#include <vector>

#include "reference/case.h"
#include "reference/memory.h"
#include "reference/tensor.h"
#include "schema/fields.def"

namespace reference {

class Instance {
 public:
  explicit Instance(const Case &c, Guard guard = Guard::end);
  Instance(const Instance &) = delete;
  Instance &operator=(const Instance &) = delete;

  Case c;
  fa_desc desc;
  fa_forward_args args;
#define FA_TENSOR(name, ...) Tensor name;
#define FA_ARRAY(name, ...) GuardedInts name;
  FA_FORWARD_FIELDS(FA_TENSOR, FA_ARRAY, FA_NOTHING)
#undef FA_TENSOR
#undef FA_ARRAY

  /// Points args at the tensors and arrays; to be called again after one was replaced.
  void bind();

  /// Fills out and lse with the pattern again.
  void clear_outputs() const;

  /// "" when rows of out and lse that are no outputs, and gaps, still hold the pattern, and inputs are as they were
  /// built.
  std::string untouched() const;

  /// The rows of out, (shape[0], shape[1]), that a call writes.
  std::vector<char> written_rows() const;

  /// out and lse as bytes of their elements in index order, to compare two calls bit by bit.
  std::vector<char> output_bits() const;

 protected:
  /// The elements of the tensors that are read, as bytes.
  std::vector<char> input_bytes() const;

 private:
  void make_arrays(Guard guard);
  void make_tensors(Guard guard);
  void make_table(Guard guard);
  void make_keys_and_values(int64_t batch, int64_t rows, Guard guard);
  void make_values_uneven() const;
  void make_tree(Guard guard);
  void poison_unused() const;
  void poison_rows(const std::vector<char> &live_k) const;

  std::vector<char> inputs_as_built_;
};

/// An optional tensor takes another tensor's layout unless that repeats elements, which its contents could not survive.
Layout gapped(Layout layout);

/// The factor of an operand's numbers, which reach 3.47; the operand is named by its letter in Case::subnormal.
double amplitude(const Case &c, char letter, fa_dtype dtype, double usual);

/// The dimensions of an optional tensor: those in kept ("bhqk" or a part of it) from full, 1 for the others.
Tensor::Shape kept_shape(const std::string &kept, Tensor::Shape full);

}  // namespace reference
