// Files of arrays as the tensors of a call. Only properties that the library cannot see are checked here.
#pragma once

#include <fa.h>

#include <string>
#include <vector>

#include "npy.h"
#include "schema/schema.h"

namespace fa::tool {

/// How the arrays of a call lie in their files.
struct FileForm {
  bool bhsd = false;        // arrays of four dimensions have heads before rows
  bool u2_as_bf16 = false;  // uint16 holds the bits of bfloat16
};

/// An array of a file as floating-point numbers; uint16 is taken for bfloat16 where that was said. Throws BadInput.
Array as_floating(Array array, const std::string &path, bool u2_as_bf16);

/// The same of a file.
Array read_floating(const std::string &path, bool u2_as_bf16);

/// Rows of heads in a type that attention computes in, converted to dtype where that is not FA_DTYPE_DEFAULT. Throws
/// BadInput.
Array read_rows(const std::string &path, const FileForm &form, fa_dtype dtype);

/// Throws BadInput where the array is neither (batch, sequence, heads, dim) nor packed, (total, heads, dim).
void check_rows(const std::string &path, const Array &array);

/// An array of rows as (batch, sequence, heads, dim), packed ones with a batch of 1. dtype is that of its elements, or
/// of codes in its bytes; shape and strides count elements.
fa_tensor rows_tensor(Array *array, fa_dtype dtype, bool bhsd);

/// The optional tensor that an array is. path: the file's, or the option that gave it, for errors. Throws BadInput.
fa_tensor tensor_of(Array file, const std::string &path, schema::TypeRule type, schema::ShapeRule shape,
                    const FileForm &form, Array *array);

/// The file of an optional tensor; "" is an absent one. Throws BadInput.
fa_tensor read_tensor(const std::string &path, schema::TypeRule type, schema::ShapeRule shape, const FileForm &form,
                      Array *array);

/// An array's elements as 32-bit integers. Throws BadInput.
std::vector<int32_t> int32_values(const std::string &path, const Array &array);

/// The same of a file.
std::vector<int32_t> read_int32(const std::string &path, std::vector<int64_t> *shape);

/// `count` numbers, one for each sequence; nullptr for "". Throws BadInput, which names the option.
const int32_t *read_lengths(const std::string &path, const std::string &option, int64_t count,
                            std::vector<int32_t> *values);

/// The number of sequences whose beginnings the file has. Throws BadInput.
int64_t count_sequences(const std::string &path);

}  // namespace fa::tool
