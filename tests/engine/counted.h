// Counts of a call's launches, from the file that FA_EMU_JSON names: the emulator adds a line to it for each launch.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <string>

namespace test {

/// The launches from its construction on.
class LaunchCounts {
 public:
  static bool available() { return std::getenv("FA_EMU_JSON") != nullptr; }
  static constexpr const char *unavailable_reason =
      "FA_EMU_JSON names no file: instructions and bytes are counted under the emulator";

  LaunchCounts() : begin_(std::max<std::streamoff>(std::ifstream(file(), std::ios::ate).tellg(), 0)) {}

  /// A count, such as "warp_instructions", added up over these launches.
  double sum(const std::string &name) const {
    std::ifstream lines(file());
    lines.seekg(begin_);
    const std::string key = "\"" + name + "\":";
    double sum = 0;
    for (std::string line; std::getline(lines, line);)
      if (const size_t at = line.find(key); at != std::string::npos) sum += std::atof(line.c_str() + at + key.size());
    EXPECT_GT(sum, 0) << "the emulator has not counted " << name;
    return sum;
  }

 private:
  static const char *file() { return std::getenv("FA_EMU_JSON"); }

  std::streamoff begin_;
};

}  // namespace test
