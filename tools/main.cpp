// The program `fa`: parses the command line, runs one command, turns what went wrong into a message and an exit code.
#include <fa.h>
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <exception>
#include <list>
#include <numeric>

#include "command.h"
#include "error.h"
#include "manual.h"

namespace fa::tool {
namespace {

/// A command in the parser.
struct Parsed {
  Command command;
  CLI::App *app;
  Options options;
  std::function<int()> work;
};

/// The number of single-letter edits from a to b.
size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replace = diagonal + (a[i - 1] != b[j - 1]);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, replace});
    }
  }
  return row[b.size()];
}

/// "; did you mean X?", or nothing when no name is near.
std::string suggestion(const std::string &word, const std::vector<std::string> &names) {
  const std::string given = word.substr(0, word.find('='));
  std::string best;
  size_t best_distance = 3;  // more edits than two are another word
  for (const std::string &name : names) {
    const size_t distance = edit_distance(given, name);
    if (distance < best_distance) best = name, best_distance = distance;
  }
  return best.empty() ? "" : fmt::format("; did you mean {}?", best);
}

std::vector<std::string> known_words(const CLI::App &app) {
  std::vector<std::string> names;
  for (const CLI::Option *option : app.get_options()) {
    for (const std::string &name : option->get_lnames()) names.push_back("--" + name);
  }
  for (const CLI::App *sub : app.get_subcommands([](const CLI::App *) { return true; }))
    names.push_back(sub->get_name());
  return names;
}

int usage_error(const CLI::App &app, const CLI::ParseError &error) {
  const CLI::App *chosen = &app;
  if (!app.get_subcommands().empty()) chosen = app.get_subcommands().front();
  const std::string name = chosen == &app ? "fa" : "fa " + chosen->get_name();
  std::string message = error.what();
  // A wrong word also makes a command missing: the word is what went wrong.
  if (const std::vector<std::string> unknown = app.remaining(true); !unknown.empty()) {
    message = fmt::format("unknown {} '{}'{}", unknown[0].starts_with("-") ? "option" : "argument", unknown[0],
                          suggestion(unknown[0], known_words(*chosen)));
  } else if (dynamic_cast<const CLI::RequiredError *>(&error)) {
    message = "a command is needed";
  }
  fmt::print(stderr, "{}: {}\nSee {} --help.\n", name, message, name);
  return exit_bad_input;
}

/// Does a command's work; its exit code, whatever happens.
int run(const Parsed &parsed) {
  try {
    const int code = parsed.work();
    if (std::fflush(stdout) != 0) failure("the standard output cannot be written");
    return code;
  } catch (const BadInput &error) {
    fmt::print(stderr, "fa {}: {}\n", parsed.command.name, error.what());
    return exit_bad_input;
  } catch (const std::bad_alloc &) {
    fmt::print(stderr, "fa {}: out of memory\n", parsed.command.name);
  } catch (const std::exception &error) {
    fmt::print(stderr, "fa {}: {}\n", parsed.command.name, error.what());
  }
  return exit_failure;
}

int run_command_line(int argc, char **argv) {
  CLI::App app;
  app.name("fa");
  app.require_subcommand(1);
  std::list<Parsed> all;  // stays in place: the help texts refer to it
  const auto add = [&](const Command &command, CLI::App *parser) {
    Parsed &parsed = all.emplace_back(Parsed{command, parser, Options(parser), {}});
    parsed.work = command.define(parsed.options);
    parser->formatter_fn([&parsed](const CLI::App *, const std::string &, CLI::AppFormatMode) {
      return help_text(parsed.command, parsed.options);
    });
  };
  add(program(), &app);
  for (const Command &command : commands()) add(command, app.add_subcommand(command.name));
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success &success) {  // --help, --version
    return app.exit(success);
  } catch (const CLI::ParseError &error) {
    return usage_error(app, error);
  }
  const CLI::App *parser = app.get_subcommands().front();
  return run(*std::find_if(all.begin(), all.end(), [&](const Parsed &each) { return each.app == parser; }));
}

}  // namespace
}  // namespace fa::tool

int main(int argc, char **argv) {
  try {
    return fa::tool::run_command_line(argc, argv);
  } catch (...) {  // memory too short even for the options
    std::fputs("fa: out of memory\n", stderr);
    return fa::tool::exit_failure;
  }
}
