// Arrays for the tests of the tool, and files of them.
#pragma once

#include <string>
#include <vector>

#include "file.h"
#include "npy.h"
#include "reference/random.h"

namespace test {
using namespace reference;

/// Nearly normal numbers.
inline fa::tool::Array random_array(fa::tool::NpyType type, std::vector<int64_t> shape, uint64_t seed) {
  fa::tool::Array array = fa::tool::make_array(fa::tool::NpyType::f32, std::move(shape));
  for (int64_t i = 0; i < array.elements(); ++i) {
    array.data<float>()[i] = static_cast<float>(normal(hash(seed, 0, static_cast<uint64_t>(i))));
  }
  return converted(std::move(array), type);
}

inline fa::tool::Array int32_array(const std::vector<int32_t> &values, std::vector<int64_t> shape = {}) {
  if (shape.empty()) shape = {static_cast<int64_t>(values.size())};
  fa::tool::Array array = fa::tool::make_array(fa::tool::NpyType::i32, std::move(shape));
  for (size_t i = 0; i < values.size(); ++i) array.data<int32_t>()[i] = values[i];
  return array;
}

/// Writes bytes to a file; its path.
inline std::string save(const std::string &path, std::span<const std::byte> bytes) {
  fa::tool::OutputFile file(path);
  file.write(bytes);
  file.commit();
  return path;
}

inline std::string save(const std::string &path, const fa::tool::Array &array) {
  return save(path, format_npy(array));
}

inline std::string save(const std::string &path, const std::string &text) {
  return save(path, std::as_bytes(std::span(text)));
}

}  // namespace test
