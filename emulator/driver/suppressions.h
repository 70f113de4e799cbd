// Findings that a file asks to leave out: lines of patterns, all of which must match.
//
//   # CUTLASS 3.8 stores the same scale from two warps
//   class:race kernel:*device_kernel* source:*sm90_epilogue.hpp:1??
//   class:unwritten-* line:120-140
//   ptx:*st.shared.v4.b32*
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "exec/finding.h"

namespace fa::emu::driver {

/// Patterns are those of shells (* ? [a-z]) and match whole texts; empty: any.
struct Suppression {
  std::string text;     // as written
  uint32_t number = 0;  // of its line in the file
  std::string kernel;   // the name in the source, or the mangled one
  std::string what;     // the class
  std::string source;   // file:line as in reports, of either party or of a call on the way to it
  std::string ptx;      // the line of the PTX, of either party
  uint32_t first_line = 0, last_line = UINT32_MAX;

  bool matches(const Finding &finding) const;
};

/// Reads a file; invalid lines are described in errors.
std::vector<Suppression> read_suppressions(const std::string &file, std::vector<std::string> &errors);

}  // namespace fa::emu::driver
