// Reads the files of examples/data, whose types and shapes the tests know. The reader for other files is the tool's.
#pragma once

#include <string>
#include <vector>

namespace test {

/// The bytes of the elements of a .npy file of format 1. Throws std::runtime_error when it cannot be read.
std::vector<char> npy_elements(const std::string &path);

}  // namespace test
