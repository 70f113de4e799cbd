// Prints options twice: in columns for a terminal, in roff for man. Neither knows the other's form.
#include "manual.h"

#include <fa.h>
#include <fmt/format.h>

#include <sstream>

#include "roff.h"
#include "text.h"

namespace fa::tool {
namespace {

constexpr size_t columns = 80;
constexpr size_t indent = 25;  // of descriptions

/// "-o, --out FILE"
std::string option_name(const OptionText &option) {
  std::string text;
  for (const char each : option.names) text += each == ',' ? ", " : std::string(1, each);
  return option.value.empty() ? text : text + " " + option.value;
}

/// Breaks text into lines of at most `width` columns.
std::vector<std::string> wrapped(const std::string &text, size_t width) {
  std::vector<std::string> lines(1);
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    if (!lines.back().empty() && lines.back().size() + 1 + word.size() > width) lines.emplace_back();
    lines.back() += (lines.back().empty() ? "" : " ") + word;
  }
  return lines;
}

/// A name that is too long for its column shares its line with a description that fits there.
std::string in_columns(const std::string &name, const std::string &description) {
  std::string text = "  " + name;
  if (text.size() + 1 >= indent && text.size() + 2 + description.size() <= columns)
    return text + "  " + description + "\n";
  bool first = true;
  for (const std::string &line : wrapped(description, columns - indent)) {
    if (first && text.size() + 1 < indent) {
      text.append(indent - text.size(), ' ');
    } else {
      text += "\n" + std::string(indent, ' ');
    }
    text += line;
    first = false;
  }
  return text + "\n";
}

std::string full_name(const Command &command, char between) {
  return *command.name ? fmt::format("fa{}{}", between, command.name) : "fa";
}

/// Neighbours of one description as one: "--dq,--dk".
std::vector<OptionText> entries_of(const Options &options) {
  std::vector<OptionText> entries;
  for (const OptionText &option : options.texts()) {
    if (!entries.empty() && entries.back().description == option.description) {
      entries.back().names += "," + option.names;
    } else {
      entries.push_back(option);
    }
  }
  return entries;
}

/// Calls group(name) before the first entry of each group, and each(entry).
template <class Group, class Each>
void for_each_entry(const Options &options, Group group, Each each) {
  std::string last;
  for (const OptionText &entry : entries_of(options)) {
    if (entry.group != last) group(last = entry.group);
    each(entry);
  }
}

}  // namespace

std::string help_text(const Command &command, const Options &options) {
  std::string text = fmt::format("{}: {}\n\n", full_name(command, ' '), command.summary);
  text += fmt::format("Usage: {} {}\n", full_name(command, ' '), command.usage);
  if (!*command.name) {
    text += "\nCommands:\n";
    for (const Command &each : commands()) text += in_columns(each.name, each.summary);
  }
  for_each_entry(
      options, [&](const std::string &group) { text += fmt::format("\n{}:\n", group); },
      [&](const OptionText &option) { text += in_columns(option_name(option), option.description); });
  if (!command.examples.empty()) text += "\nExamples:\n";
  for (const Example &example : command.examples) {
    for (const std::string &line : lines_of(example.line)) text += fmt::format("  {}\n", line);
  }
  return text;
}

std::string man_page(const Command &command, const Options &options) {
  Roff roff(full_name(command, '-'), 1);
  roff.section("Name");
  roff.line(fmt::format("{} \\- {}", Roff::escaped(full_name(command, '-')), Roff::escaped(command.summary)));
  roff.section("Synopsis");
  roff.line(fmt::format("\\fB{}\\fR {}", Roff::escaped(full_name(command, ' ')), Roff::escaped(command.usage)));
  roff.section("Description");
  roff.paragraphs(command.details);
  if (!*command.name) {
    roff.section("Commands");
    for (const Command &each : commands()) roff.item(fmt::format("fa-{}(1)", each.name), each.summary);
  }
  roff.section("Options");
  for_each_entry(
      options, [&](const std::string &group) { roff.subsection(group); },
      [&](const OptionText &option) { roff.item(option_name(option), option.description); });
  if (!command.examples.empty()) roff.section("Examples");
  for (const Example &example : command.examples) {
    roff.paragraphs(example.purpose);
    roff.verbatim(example.line);
  }
  roff.section("Exit status");
  roff.item("0", "Success.");
  roff.item("1", "A check failed, or the computation did.");
  roff.item("2", "Wrong usage, or a file with the wrong contents; the message says which and why.");
  roff.section("Environment");
  roff.item("FA_VERBOSE=dispatch", "Log which kernel was chosen and why each better one was not.");
  roff.item("FA_FORCE_KERNEL=NAME", "Use this kernel, as --kernel does, or fail.");
  roff.item("FA_MAX_ARCH=ARCH", "Skip kernels for anything newer than this instruction set or GPU.");
  roff.item("FA_NUM_THREADS=N", "The default number of CPU threads.");
  roff.item(
      "FA_KERNEL_PATH=FOLDER",
      "Take this build's GPU kernels from the files there. They are code that runs with the rights of the process: "
      "name no folder that others can write to.");
  roff.section("See also");
  std::vector<std::string> others;
  if (*command.name) others.emplace_back("\\fBfa\\fR(1)");
  for (const Command &each : commands()) {
    if (std::string_view(each.name) != command.name) others.push_back(fmt::format("\\fBfa\\-{}\\fR(1)", each.name));
  }
  others.emplace_back("\\fBlibfa\\fR(3)");
  roff.line(fmt::format("{}", fmt::join(others, ", ")));
  return roff.text();
}

}  // namespace fa::tool
