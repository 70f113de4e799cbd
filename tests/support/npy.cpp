#include "support/npy.h"

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <stdexcept>

namespace test {
namespace {

/// The text between the quotes or brackets that follow 'key': in the header.
std::string after(const std::string &header, const std::string &key, char open, char close) {
  const size_t start = header.find(open, header.find("'" + key + "':") + key.size() + 3);
  const size_t end = header.find(close, start + 1);
  if (start == std::string::npos || end == std::string::npos) throw std::runtime_error("no " + key + " in .npy header");
  return header.substr(start + 1, end - start - 1);
}

}  // namespace

Npy read_npy(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  const std::vector<char> all{std::istreambuf_iterator<char>(file), {}};
  if (all.size() < 10 || all[0] != '\x93' || all[6] != 1)
    throw std::runtime_error(path + " is no .npy file, version 1");
  const size_t length = uint8_t(all[8]) + 256u * uint8_t(all[9]);
  const std::string header(all.begin() + 10, all.begin() + 10 + std::ptrdiff_t(length));

  Npy npy;
  npy.type = after(header, "descr", '\'', '\'');
  const std::string shape = after(header, "shape", '(', ')');
  for (const char *p = shape.c_str(); *p;) {
    char *end;
    const long long extent = std::strtoll(p, &end, 10);
    if (end != p) npy.shape.push_back(extent);
    p = end == p ? p + 1 : end;
  }
  npy.data.assign(all.begin() + 10 + std::ptrdiff_t(length), all.end());
  return npy;
}

}  // namespace test
