#include "cache_file.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "error.h"
#include "library.h"
#include "reference/codes.h"

namespace fa::tool {
namespace {

using Codes = reference::CodesLine;

/// The type in which NumPy has these codes, or bytes of them: there are integers of 8 bits, and none of fewer.
NpyType holder_of(const Codes &codes) {
  return !codes.floating && !codes.block && codes.elements == 1 ? NpyType::i8 : NpyType::u8;
}

/// Whether a file of this type can hold such codes. ml_dtypes writes fp8 as bytes of void, and so it does int4, of
/// which each element has a byte.
bool can_hold(NpyType type, const Codes &codes) {
  return type == holder_of(codes) || (type == NpyType::v8 && codes.floating);
}

/// The formats that a file of this type can hold.
std::vector<std::string> formats_in(NpyType type) {
  std::vector<std::string> names = storage_dtypes();
  std::erase_if(names, [type](const std::string &name) {
    const Codes *codes = reference::codes_of(storage_of_name(name));
    return !codes || !can_hold(type, *codes);
  });
  return names;
}

Stored codes_in(Array array, const std::string &path, const StoredAs &as, fa_dtype dtype) {
  const Codes &codes = *reference::codes_of(dtype);
  if (!can_hold(array.type, codes)) {
    bad_input("{}: holds {}; {} {} expects {}{}{}", path, describe(array), as.option, codes.name,
              npy_type_name(holder_of(codes)), codes.floating ? " or ml_dtypes' float8" : "",
              codes.elements == 1 ? ""
              : codes.bytes == 1  ? fmt::format(", {} elements a byte", codes.elements)
                                  : fmt::format(", {} bytes for {} elements", codes.bytes, codes.elements));
  }
  check_rows(path, array);
  if (array.shape.back() % codes.bytes != 0) {
    bad_input("{}: shape {}; the last dimension is expected to be a multiple of {} bytes, which {} elements of {} have",
              path, shape_text(array.shape), codes.bytes, codes.elements, codes.name);
  }
  return {std::move(array), dtype};
}

}  // namespace

Stored read_stored(const std::string &path, const StoredAs &as, const FileForm &form, fa_dtype numbers) {
  fa_dtype dtype = storage_of_name(as.name);
  Array array = read_npy(path);
  if (const std::vector<std::string> formats = formats_in(array.type); dtype == FA_DTYPE_DEFAULT && !formats.empty()) {
    if (formats.size() > 1) {
      bad_input("{}: holds {}; if these are codes, say of which format, {} {}", path, describe(array), as.option,
                fmt::join(formats, ", "));
    }
    dtype = storage_of_name(formats[0]);
  }
  if (reference::codes_of(dtype)) return codes_in(std::move(array), path, as, dtype);
  const NpyType type = array.type;
  array = as_floating(std::move(array), path, form.u2_as_bf16);
  if (numbers != FA_DTYPE_DEFAULT) array = converted(std::move(array), npy_type_of(numbers));
  const fa_dtype own = dtype_of(array.type);
  if (own == FA_DTYPE_DEFAULT) {
    bad_input("{}: holds {}, which attention does not compute in; float32, float16 or bfloat16 is expected", path,
              describe(array));
  }
  if (dtype != FA_DTYPE_DEFAULT && own != dtype) {
    bad_input("{}: holds {}; {} {} says that it holds {}", path, describe(array), as.option, as.name,
              npy_type_name(npy_type_of(dtype)));
  }
  check_rows(path, array);
  if (type == NpyType::u16 && numbers == FA_DTYPE_DEFAULT) array.type = type;  // as it is written back
  return {std::move(array), own};
}

Stored new_stored(const StoredAs &as, fa_dtype dtype, const FileForm &form, int64_t entries, int64_t rows,
                  int64_t heads, int64_t dim) {
  const Codes *codes = reference::codes_of(dtype);
  if (codes && dim % codes->elements != 0) {
    bad_input("{} is {}; new rows have {} elements, and a multiple of {} is expected", as.option, as.name, dim,
              codes->elements);
  }
  const int64_t row = codes ? reference::row_bytes(dtype, dim) : dim;
  const NpyType type = codes ? holder_of(*codes) : npy_type_of(dtype);
  std::vector<int64_t> shape = {entries, rows, heads, row};
  if (form.bhsd) std::swap(shape[1], shape[2]);
  return {make_array(type, std::move(shape)), dtype};
}

std::string describe(const Array &array, fa_dtype dtype) {
  const Codes *codes = reference::codes_of(dtype);
  if (!codes || array.type != NpyType::u8) return describe(array);
  return fmt::format("{} of {}", describe(array), storage_name(dtype));
}

}  // namespace fa::tool
