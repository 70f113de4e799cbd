// Options and commands on top of CLI11, whose header is so large that this file alone includes it.
#include "command_line.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <list>
#include <map>
#include <sstream>

#include "command.h"
#include "error.h"
#include "manual.h"
#include "options.h"
#include "text.h"

namespace fa::tool {
namespace {

[[noreturn]] void wrong_value(const std::string &name, const std::string &given, const std::string &expected) {
  throw CLI::ValidationError(fmt::format("{} is '{}'; {} is expected", name, given, expected));
}

/// A number to the last character, or the expected form.
template <class T>
T number(const std::string &name, const std::string &text, const std::optional<Range> &range) {
  constexpr bool whole = std::is_integral_v<T>;
  T value{};
  const char *begin = text.data() + text.starts_with('+'), *end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(begin, end, value);
  const bool inside = !range || (static_cast<double>(value) >= range->low && static_cast<double>(value) <= range->high);
  if (error == std::errc() && rest == end && begin != end && inside) return value;
  wrong_value(name, text,
              fmt::format("a{} number{}", whole ? " whole" : "",
                          range ? fmt::format(" from {:g} to {:g}", range->low, range->high) : ""));
}

/// The element types as other libraries spell them.
const std::map<std::string, std::string> spellings = {
    {"float32", "f32"}, {"fp32", "f32"}, {"float", "f32"},          {"float16", "f16"},
    {"fp16", "f16"},    {"half", "f16"}, {"bfloat16", "bf16"},      {"int8", "i8"},
    {"int4", "i4"},     {"uint4", "u4"}, {"float8_e4m3fn", "e4m3"}, {"float8_e5m2", "e5m2"}};

std::string one_of(const std::string &name, const std::string &text, const std::vector<std::string> &choices) {
  const auto spelled = spellings.find(text);
  const std::string &word = spelled == spellings.end() ? text : spelled->second;
  if (std::find(choices.begin(), choices.end(), word) != choices.end()) return word;
  wrong_value(name, text, fmt::format("one of {}", fmt::join(choices, ", ")));
}

/// The name that messages use: the long one.
std::string long_name(const char *names) {
  const std::string_view text = names;
  const size_t comma = text.find(',');
  return std::string(comma == text.npos ? text : text.substr(comma + 1));
}

}  // namespace

void Options::add(const char *names, const char *value, const char *description, bool repeated,
                  const std::function<void(const std::string &)> &take) {
  texts_.push_back({group_, names, value, description, {}, false});
  if (!app_) return;
  CLI::Option *option = app_->add_option(names, [take](const CLI::results_t &given) {
    for (const std::string &each : given) take(each);
    return true;
  });
  option->expected(1);
  if (repeated) option->take_all();
}

void Options::value(const char *names, std::string &target, const char *value, const char *description) {
  add(names, value, description, false, [&target](const std::string &given) { target = given; });
}

void Options::value(const char *names, int32_t &target, const char *value, const char *description) {
  add(names, value, description, false,
      [&target, name = long_name(names)](const std::string &given) { target = number<int32_t>(name, given, {}); });
}

void Options::value(const char *names, int64_t &target, const char *value, const char *description,
                    std::optional<Range> range) {
  add(names, value, description, false, [&target, range, name = long_name(names)](const std::string &given) {
    target = number<int64_t>(name, given, range);
  });
}

void Options::value(const char *names, float &target, const char *value, const char *description) {
  add(names, value, description, false,
      [&target, name = long_name(names)](const std::string &given) { target = number<float>(name, given, {}); });
}

void Options::value(const char *names, std::optional<float> &target, const char *value, const char *description) {
  add(names, value, description, false,
      [&target, name = long_name(names)](const std::string &given) { target = number<float>(name, given, {}); });
}

void Options::value(const char *names, double &target, const char *value, const char *description,
                    std::optional<Range> range) {
  add(names, value, description, false, [&target, range, name = long_name(names)](const std::string &given) {
    target = number<double>(name, given, range);
  });
}

void Options::values(const char *names, std::vector<std::string> &target, const char *value, const char *description) {
  add(names, value, description, true, [&target](const std::string &given) { target.push_back(given); });
}

void Options::choice(const char *names, std::string &target, const std::vector<std::string> &choices, const char *value,
                     const char *description) {
  add(names, value, description, false,
      [&target, choices, name = long_name(names)](const std::string &given) { target = one_of(name, given, choices); });
  texts_.back().choices = choices;
}

void Options::choices(const char *names, std::vector<std::string> &target, const std::vector<std::string> &choices,
                      const char *value, const char *description) {
  add(names, value, description, true, [&target, choices, name = long_name(names)](const std::string &given) {
    for (const std::string &each : CLI::detail::split(given, ',')) target.push_back(one_of(name, each, choices));
  });
  texts_.back().choices = choices;
  texts_.back().list = true;
}

void Options::flag(const char *names, bool &target, const char *description) {
  texts_.push_back({group_, names, "", description, {}, false});
  if (app_) app_->add_flag_callback(names, [&target] { target = true; });
}

void Options::help(const char *description) {
  texts_.push_back({group_, "-h,--help", "", description, {}, false});
  if (app_) app_->set_help_flag("-h,--help");
}

void Options::version(const char *text, const char *description) {
  texts_.push_back({group_, "--version", "", description, {}, false});
  if (app_) app_->set_version_flag("--version", text);
}

void Options::exclude(const char *one, const char *other) {
  if (app_) app_->get_option(one)->excludes(app_->get_option(other));
}

namespace {

/// A command in the parser.
struct Parsed {
  Command command;
  CLI::App *app;
  Options options;
  std::function<int()> work;
};

std::vector<std::string> known_words(const CLI::App &app) {
  std::vector<std::string> names;
  for (const CLI::Option *option : app.get_options()) {
    for (const std::string &name : option->get_lnames()) names.push_back("--" + name);
  }
  for (const CLI::App *sub : app.get_subcommands([](const CLI::App *) { return true; }))
    names.push_back(sub->get_name());
  return names;
}

void explain_usage_error(const CLI::App &app, const CLI::ParseError &error) {
  const CLI::App *chosen = &app;
  if (!app.get_subcommands().empty()) chosen = app.get_subcommands().front();
  const std::string name = chosen == &app ? "fa" : "fa " + chosen->get_name();
  std::string message = error.what();
  // A wrong word also makes a command missing: the word is the error.
  if (const std::vector<std::string> unknown = app.remaining(true); !unknown.empty()) {
    message = fmt::format("unknown {} '{}'{}", unknown[0].starts_with("-") ? "option" : "argument", unknown[0],
                          suggestion(unknown[0], known_words(*chosen)));
  } else if (dynamic_cast<const CLI::RequiredError *>(&error)) {
    message = "expected a command";
  } else if (dynamic_cast<const CLI::ArgumentMismatch *>(&error)) {
    message = fmt::format("{} takes one value and may be given only once", message.substr(0, message.find(':')));
  }
  fmt::print(stderr, "{}: {}\nSee {} --help.\n", name, printable(message), name);
}

/// `fa help`, `fa help run`, `fa version` and `fa -v`, as other programs have them, in the words of the options.
void ask_for_help(std::vector<std::string> &words) {
  if (words.empty()) return;
  if (words[0] == "help" && words.size() <= 2) {
    words.erase(words.begin());
    const auto is_asked = [&](const Command &command) { return words[0] == command.name; };
    if (words.empty() || std::ranges::any_of(commands(), is_asked)) words.emplace_back("--help");
  } else if (words.size() == 1 && (words[0] == "version" || words[0] == "-v" || words[0] == "-V")) {
    words[0] = "--version";
  }
}

}  // namespace

ParsedCommand parse_command_line(int argc, char **argv) {
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
    std::vector<std::string> words(argv + 1, argv + argc);
    ask_for_help(words);
    std::reverse(words.begin(), words.end());  // as CLI11 takes them
    app.parse(std::move(words));
  } catch (const CLI::Success &success) {  // --help, --version
    std::ostringstream text;               // std::cout would forget that it could not be written
    const int code = app.exit(success, text, text);
    fmt::print("{}", text.str());
    return {"", {}, code};
  } catch (const CLI::ParseError &error) {
    explain_usage_error(app, error);
    return {"", {}, exit_bad_input};
  }
  const CLI::App *parser = app.get_subcommands().front();
  const Parsed &chosen = *std::find_if(all.begin(), all.end(), [&](const Parsed &each) { return each.app == parser; });
  return {chosen.command.name, chosen.work, exit_ok};
}

}  // namespace fa::tool
