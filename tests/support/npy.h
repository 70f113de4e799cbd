// Reads the .npy files of examples/data: little-endian, C order, f16, f32 or i32. For trusted files only.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace test {

struct Npy {
  std::string type;  // "<f2", "<f4", "<i4"
  std::vector<int64_t> shape;
  std::vector<char> data;
};

/// Throws std::runtime_error when the file cannot be read.
Npy read_npy(const std::string &path);

}  // namespace test
