// NumPy's .npy files: one array in memory, read from and written to format versions 1.0, 2.0 and 3.0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace fa::tool {

/// Element types that the tool reads: the library's, and NumPy's that become one of them or hold codes. bf16 is a
/// two-byte void in files ('V2', what ml_dtypes writes), as 'bfloat16', or as raw uint16; v8 is a one-byte void, as
/// which ml_dtypes writes fp8.
enum class NpyType {
#define FA_ELEMENT(dtype, number, name, use, bits) name,
#include "src/core/all_elements.inc"
#undef FA_ELEMENT
  f64,
  i8,
  u8,
  v8,
  u16
};

/// "float32", as NumPy says it.
const char *npy_type_name(NpyType type);
size_t npy_type_bytes(NpyType type);

/// One array: C order, this machine's byte order, whatever the file had.
struct Array {
  NpyType type = NpyType::f32;
  std::vector<int64_t> shape;
  std::vector<std::byte> bytes;

  int64_t elements() const;
  template <class T>
  T *data() {
    return reinterpret_cast<T *>(bytes.data());
  }
  template <class T>
  const T *data() const {
    return reinterpret_cast<const T *>(bytes.data());
  }
  /// Element i, in C order, as a double.
  double value(int64_t i) const;
};

/// An array of zeros.
Array make_array(NpyType type, std::vector<int64_t> shape);

/// "(2, 128, 4, 64)"
std::string shape_text(std::span<const int64_t> shape);

/// "float32 (2, 128, 4, 64)"
std::string describe(const Array &array);

/// The array with every element converted; only floating types, or any type to itself.
Array converted(Array array, NpyType type);

/// The array in the bytes of a file; name appears in error texts. Bytes after the array are ignored, as NumPy
/// does. Throws BadInput, which names the error.
Array parse_npy(std::span<const std::byte> file, std::string_view name);

/// Reads the file of a path. Throws BadInput.
Array read_npy(const std::string &path);

/// The file's bytes for an array (format 1.0).
std::vector<std::byte> format_npy(const Array &array);

}  // namespace fa::tool
