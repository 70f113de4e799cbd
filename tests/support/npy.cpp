#include "support/npy.h"

#include <fstream>
#include <iterator>
#include <stdexcept>

namespace test {

std::vector<char> npy_elements(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  std::vector<char> bytes{std::istreambuf_iterator<char>(file), {}};
  const auto byte = [&](size_t i) { return std::ptrdiff_t(static_cast<unsigned char>(bytes[i])); };
  if (bytes.size() < 10 || byte(6) != 1) throw std::runtime_error(path + " is not a .npy file of format 1");
  bytes.erase(bytes.begin(), bytes.begin() + 10 + byte(8) + 256 * byte(9));
  return bytes;
}

}  // namespace test
