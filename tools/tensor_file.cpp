#include "tensor_file.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "error.h"
#include "library.h"
#include "reference/codes.h"

namespace fa::tool {

std::vector<int32_t> int32_values(const std::string &path, const Array &array) {
  if (array.type != NpyType::i32 && array.type != NpyType::i64) {
    bad_input("{}: holds {}; an array of int32 (or int64) is expected", path, describe(array));
  }
  std::vector<int32_t> values;
  for (int64_t i = 0; i < array.elements(); ++i) {
    const int64_t value = array.type == NpyType::i32 ? array.data<int32_t>()[i] : array.data<int64_t>()[i];
    if (value < std::numeric_limits<int32_t>::min() || value > std::numeric_limits<int32_t>::max()) {
      bad_input("{}: element {} is {}, which does not fit into 32 bits", path, i, value);
    }
    values.push_back(static_cast<int32_t>(value));
  }
  return values;
}

namespace {

bool is_floating(NpyType type) {
  return type == NpyType::f64 || dtype_of(type) != FA_DTYPE_DEFAULT;
}

/// Integers in 32 bits, whatever the file has.
Array as_int32(const std::string &path, const Array &file) {
  const std::vector<int32_t> values = int32_values(path, file);
  Array array = make_array(NpyType::i32, file.shape);
  std::ranges::copy(values, array.data<int32_t>());
  return array;
}

/// A tensor whose dimensions are the array's last ones; those that the array lacks are 1.
fa_tensor broadcast(Array *array, fa_dtype dtype, const std::string &path, const char *dimensions) {
  if (array->shape.size() > 4) {
    bad_input("{}: shape {} has {} dimensions; at most 4 are expected, {}", path, shape_text(array->shape),
              array->shape.size(), dimensions);
  }
  int64_t shape[4] = {1, 1, 1, 1};
  std::copy(array->shape.begin(), array->shape.end(), shape + 4 - array->shape.size());
  fa_tensor tensor = {};
  fa_tensor_init(&tensor, array->bytes.data(), dtype, shape[0], shape[1], shape[2], shape[3]);
  return tensor;
}

Array up_to_f32(Array file, const std::string &path, const FileForm &form) {
  Array array = as_floating(std::move(file), path, form.u2_as_bf16);
  return array.type == NpyType::f64 ? converted(std::move(array), NpyType::f32) : array;
}

/// A mask, or a bias in the type of its file.
fa_tensor scores_tensor(Array file, const std::string &path, schema::TypeRule type, const FileForm &form,
                        Array *array) {
  constexpr const char *dimensions = "(B, Hq, Sq, Sk)";
  if (type == schema::TypeRule::boolean) {
    *array = std::move(file);
    if (array->type != NpyType::boolean && array->type != NpyType::u8) {
      bad_input("{}: holds {}; bool is expected, true where a query attends a key (for an addend to scores: --bias)",
                path, describe(*array));
    }
    return broadcast(array, FA_BOOL, path, dimensions);
  }
  *array = up_to_f32(std::move(file), path, form);
  return broadcast(array, dtype_of(array->type), path, dimensions);
}

/// Slopes or sinks: (heads) or (batch, heads), in float32 whatever the file has.
fa_tensor per_head_tensor(Array file, const std::string &path, Array *array) {
  *array = converted(as_floating(std::move(file), path, false), NpyType::f32);
  const std::vector<int64_t> &s = array->shape;
  if (s.size() != 1 && s.size() != 2) {
    bad_input("{}: shape {}; (heads,) or (batch, heads) is expected, a number for each head", path, shape_text(s));
  }
  fa_tensor tensor = {};
  fa_tensor_init(&tensor, array->bytes.data(), FA_F32, s.size() == 2 ? s[0] : 1, s.back(), 1, 1);
  return tensor;
}

fa_tensor pages_tensor(const Array &file, const std::string &path, Array *array) {
  *array = as_int32(path, file);
  const std::vector<int64_t> &s = array->shape;
  if (s.size() != 2) {
    bad_input("{}: shape {}; --block-table takes an array of shape (sequences, pages)", path, shape_text(s));
  }
  fa_tensor tensor = {};
  fa_tensor_init(&tensor, array->bytes.data(), FA_I32, s[0], s[1], 1, 1);
  return tensor;
}

/// A number for each row: (rows,) or (sequences, rows).
fa_tensor places_tensor(Array file, const std::string &path, schema::TypeRule type, Array *array) {
  *array = std::move(file);
  if (array->type != NpyType::i64 || type == schema::TypeRule::i32) *array = as_int32(path, *array);
  const std::vector<int64_t> &s = array->shape;
  if (s.size() != 1 && s.size() != 2) {
    bad_input("{}: shape {}; (rows,) or (sequences, rows) is expected, a number for each row", path, shape_text(s));
  }
  fa_tensor tensor = {};
  fa_tensor_init(&tensor, array->bytes.data(), array->type == NpyType::i64 ? FA_I64 : FA_I32, s.size() == 2 ? s[0] : 1,
                 s.back(), 1, 1);
  return tensor;
}

fa_tensor table_tensor(Array file, const std::string &path, const FileForm &form, Array *array) {
  *array = up_to_f32(std::move(file), path, form);
  const std::vector<int64_t> &s = array->shape;
  if (s.size() != 2) {
    bad_input("{}: shape {}; (positions, rotary_dim / 2) is expected, a number for each position and pair of elements",
              path, shape_text(s));
  }
  fa_tensor tensor = {};
  fa_tensor_init(&tensor, array->bytes.data(), dtype_of(array->type), 1, s[0], 1, s[1]);
  return tensor;
}

fa_tensor factors_tensor(Array file, const std::string &path, const FileForm &form, Array *array) {
  *array = up_to_f32(std::move(file), path, form);
  fa_tensor tensor =
      broadcast(array, dtype_of(array->type), path, form.bhsd ? "(B, H, S, groups)" : "(B, S, H, groups)");
  if (form.bhsd) {
    std::swap(tensor.shape[1], tensor.shape[2]);
    std::swap(tensor.stride[1], tensor.stride[2]);
  }
  return tensor;
}

fa_tensor tree_tensor(const Array &file, const std::string &path, Array *array) {
  *array = as_int32(path, file);
  return broadcast(array, FA_I32, path, "(B, Hq, Sq, words)");
}

}  // namespace

Array as_floating(Array array, const std::string &path, bool u2_as_bf16) {
  if (array.type == NpyType::u16 && u2_as_bf16) array.type = NpyType::bf16;
  if (array.type == NpyType::u16) {
    bad_input("{}: holds {}; if these are the bits of bfloat16, say --u2-as-bf16", path, describe(array));
  }
  if (!is_floating(array.type)) {
    bad_input("{}: holds {}; float32, float16 or bfloat16 is expected", path, describe(array));
  }
  return array;
}

Array read_floating(const std::string &path, bool u2_as_bf16) {
  return as_floating(read_npy(path), path, u2_as_bf16);
}

Array read_rows(const std::string &path, const FileForm &form, fa_dtype dtype) {
  Array array = read_floating(path, form.u2_as_bf16);
  if (dtype != FA_DTYPE_DEFAULT) array = converted(std::move(array), npy_type_of(dtype));
  if (dtype_of(array.type) == FA_DTYPE_DEFAULT) {
    bad_input("{}: holds {}, which attention does not compute in; --dtype f32 (or f16, bf16) converts it", path,
              describe(array));
  }
  check_rows(path, array);
  return array;
}

void check_rows(const std::string &path, const Array &array) {
  const size_t dimensions = array.shape.size();
  if (dimensions == 3 || dimensions == 4) return;
  bad_input(
      "{}: shape {} has {} dimensions; 4 are expected, (batch, sequence, heads, dim), or 3 for packed sequences, "
      "(total, heads, dim)",
      path, shape_text(array.shape), dimensions);
}

fa_tensor rows_tensor(Array *array, fa_dtype dtype, bool bhsd) {
  std::vector<int64_t> s = array->shape;
  if (const reference::CodesLine *codes = reference::codes_of(dtype))
    s.back() = s.back() / codes->bytes * codes->elements;
  fa_tensor tensor = {};
  if (s.size() == 3) {
    fa_tensor_init(&tensor, array->bytes.data(), dtype, 1, s[0], s[1], s[2]);
  } else {
    fa_tensor_init(&tensor, array->bytes.data(), dtype, s[0], s[1], s[2], s[3]);
    if (bhsd) {
      std::swap(tensor.shape[1], tensor.shape[2]);
      std::swap(tensor.stride[1], tensor.stride[2]);
    }
  }
  return tensor;
}

fa_tensor tensor_of(Array file, const std::string &path, schema::TypeRule type, schema::ShapeRule shape,
                    const FileForm &form, Array *array) {
  switch (schema::form_of(shape)) {
    case schema::Form::factors:
      return factors_tensor(std::move(file), path, form, array);
    case schema::Form::scores:
      return scores_tensor(std::move(file), path, type, form, array);
    case schema::Form::per_head:
      return per_head_tensor(std::move(file), path, array);
    case schema::Form::pages:
      return pages_tensor(file, path, array);
    case schema::Form::places:
      return places_tensor(std::move(file), path, type, array);
    case schema::Form::table:
      return table_tensor(std::move(file), path, form, array);
    case schema::Form::tree:
      return tree_tensor(file, path, array);
    case schema::Form::rows:
    case schema::Form::row_sums:
      break;  // read_rows() and outputs
  }
  return {};
}

fa_tensor read_tensor(const std::string &path, schema::TypeRule type, schema::ShapeRule shape, const FileForm &form,
                      Array *array) {
  return path.empty() ? fa_tensor{} : tensor_of(read_npy(path), path, type, shape, form, array);
}

std::vector<int32_t> read_int32(const std::string &path, std::vector<int64_t> *shape) {
  const Array array = read_npy(path);
  *shape = array.shape;
  return int32_values(path, array);
}

const int32_t *read_lengths(const std::string &path, const std::string &option, int64_t count,
                            std::vector<int32_t> *values) {
  if (path.empty()) return nullptr;
  std::vector<int64_t> shape;
  *values = read_int32(path, &shape);
  if (shape.size() != 1 || shape[0] != count) {
    bad_input("{}: shape {}; {} takes an array of shape ({},), one entry for each sequence", path, shape_text(shape),
              option, count);
  }
  return values->data();
}

int64_t count_sequences(const std::string &path) {
  const Array array = read_npy(path);
  if (array.shape.size() != 1 || array.elements() < 1) {
    bad_input("{}: shape {}; the places where sequences begin, and the end of the last, are expected: (sequences + 1,)",
              path, shape_text(array.shape));
  }
  return array.elements() - 1;
}

}  // namespace fa::tool
