// The header of a .npy file: a small Python dictionary behind a magic string.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace fa::tool {

struct NpyHeader {
  std::string descr;  // "<f4"
  bool fortran_order = false;
  std::vector<int64_t> shape;
  size_t data_offset = 0;  // where the array begins in the file
};

/// The bytes of a file before its array, or fewer while its beginning does not say. Throws BadInput where it is no .npy
/// file.
size_t npy_header_bytes(std::span<const std::byte> beginning, std::string_view name);

/// Parses the beginning of a file. Throws BadInput, naming the file and its error.
NpyHeader parse_npy_header(std::span<const std::byte> file, std::string_view name);

/// The header's bytes, padded so that the array begins at a multiple of 64.
std::string format_npy_header(std::string_view descr, std::span<const int64_t> shape);

}  // namespace fa::tool
