// A subcommand: its options and function, and the texts of its help and man page.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "library.h"
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

/// The `define` of a command that has its options in a Values, one of them --kernel: define_options() defines them, and
/// run(), under that kernel, is the work.
template <class Values, auto define_options, auto run>
std::function<int()> define_command(Options &options) {
  const auto values = std::make_shared<Values>();
  define_options(&options, values.get());
  return [values] {
    force_kernel(values->kernel);
    return run(*values);
  };
}

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
