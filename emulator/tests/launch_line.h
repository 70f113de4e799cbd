// The line of JSON that FA_EMU_JSON has of a launch.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

#include "client.h"
#include "reported.h"

namespace emulated {

/// Of f's launch; said: f's output on stderr.
template <class F>
std::string line_of(F f, const std::string &said = "") {
  char name[] = "/tmp/fa-emu-counters-XXXXXX";
  close(mkstemp(name));
  EXPECT_EQ(reported([&] {
              setenv("FA_EMU_JSON", name, 1);
              f();
            }),
            said);
  std::string line = read_file(name);
  unlink(name);
  return line;
}

inline double value_of(const std::string &line, const std::string &name) {
  size_t at = line.find("\"" + name + "\":");
  if (at == std::string::npos) ADD_FAILURE() << "no " << name << " in " << line;
  return at == std::string::npos ? -1 : std::strtod(line.c_str() + at + name.size() + 3, nullptr);
}

}  // namespace emulated
