// A subcommand: its place in the command line, the text of both its help and its man page, its work.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "options.h"

namespace fa::tool {

struct Example {
  const char *purpose;
  const char *line;  // or several: a shell's, with a backslash before each newline
};

struct Command {
  const char *name;     // "run"
  const char *summary;  // one line
  const char *usage;    // the text after the name
  const char *details;  // paragraphs of the man page, blank lines between them
  std::vector<Example> examples;

  /// Defines the options and returns the work, to be called once the command line has been parsed. It returns the exit
  /// code, or throws BadInput or Failure.
  std::function<int()> (*define)(Options &options);
};

Command info_command();
Command run_command();
Command append_command();
Command draw_command();
Command explain_command();
Command check_command();
Command bench_command();

/// All of them, in the order of the help text.
std::vector<Command> commands();

/// The program's own text, in the same form.
Command program();

}  // namespace fa::tool
