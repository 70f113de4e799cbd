// Files of keys and values as a cache stores them: numbers, or codes of a quantised format.
#pragma once

#include <fa.h>

#include <string>

#include "tensor_file.h"

namespace fa::tool {

/// The option that says how keys or values are stored, and its value, "" where it is not given.
struct StoredAs {
  const char *option;  // "--dtype-kv"
  std::string name;    // "i8"
};

/// An array and the type of its elements; of a quantised format its last dimension is the bytes of a row.
struct Stored {
  Array array;
  fa_dtype dtype = FA_DTYPE_DEFAULT;
};

/// Reads a file of codes or of numbers; int8 is i8 where nothing else was said. Numbers are converted to `numbers`,
/// unless that is FA_DTYPE_DEFAULT. Throws BadInput.
Stored read_stored(const std::string &path, const StoredAs &as, const FileForm &form, fa_dtype numbers);

/// A cache of zeros: `entries` times rows and heads, in the order of the form. Throws BadInput where dim is no
/// multiple of the format's unit.
Stored new_stored(const StoredAs &as, fa_dtype dtype, const FileForm &form, int64_t entries, int64_t rows,
                  int64_t heads, int64_t dim);

/// "uint8 (2, 128, 4, 32) of i4"
std::string describe(const Array &array, fa_dtype dtype);

}  // namespace fa::tool
