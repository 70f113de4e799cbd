// Writes the same list of commands and options in the languages of three shells.
#include "completion.h"

#include <fmt/format.h>

#include <vector>

#include "command.h"

namespace fa::tool {
namespace {

/// A command and the texts of its options.
struct Described {
  Command command;
  std::vector<OptionText> options;
};

Described described(const Command &command) {
  Options options(nullptr);
  command.define(options);
  return {command, options.texts()};
}

std::vector<Described> all_commands() {
  std::vector<Described> all;
  for (const Command &command : commands()) all.push_back(described(command));
  return all;
}

/// "-o,--out" -> "-o", "--out"
std::vector<std::string> names_of(const OptionText &option) {
  const size_t comma = option.names.find(',');
  if (comma == option.names.npos) return {option.names};
  return {option.names.substr(0, comma), option.names.substr(comma + 1)};
}

std::string words_of(const std::vector<OptionText> &options) {
  std::vector<std::string> words;
  for (const OptionText &option : options)
    for (const std::string &name : names_of(option)) words.push_back(name);
  return fmt::format("{}", fmt::join(words, " "));
}

std::string escaped(std::string_view text, std::string_view special, std::string_view by) {
  std::string result;
  for (const char c : text) {
    if (special.find(c) != special.npos) result += by;
    result += c;
  }
  return result;
}

/// In single quotes, which end before each quote of the text and begin again behind it.
std::string quoted(std::string_view text) {
  std::string result;
  for (const char c : text) c == '\'' ? result += "'\\''" : result += c;
  return "'" + result + "'";
}

}  // namespace

// ---- bash

std::string bash_completion() {
  std::string names, values, options;
  const auto add_options = [&](const Described &each, const std::string &pattern) {
    for (const OptionText &option : each.options) {
      if (option.value.empty()) continue;
      std::vector<std::string> patterns;
      for (const std::string &name : names_of(option)) patterns.push_back(fmt::format("'{} {}'", pattern, name));
      std::string action = ":";
      if (option.value == "FILE") action = "_fa_files";
      if (!option.choices.empty())
        action = fmt::format("_fa_{} '{}'", option.list ? "list" : "words", fmt::join(option.choices, " "));
      values += fmt::format("    {}) {} ;;\n", fmt::join(patterns, " | "), action);
    }
    options += fmt::format("    {}) _fa_words '{}' ;;\n", quoted(pattern), words_of(each.options));
  };
  for (const Described &each : all_commands()) {
    names += (names.empty() ? "" : " ") + std::string(each.command.name);
    add_options(each, each.command.name);
  }
  return fmt::format(R"(# Completion of fa for bash, written by its build.

_fa_words() {{
  local word
  while read -r word; do COMPREPLY+=("$word"); done < <(compgen -W "$1" -- "$current")
}}

# The last of several words with commas between them.
_fa_list() {{
  local word before=
  [[ $current != *,* ]] || before=${{current%,*}},
  while read -r word; do COMPREPLY+=("$before$word"); done < <(compgen -W "$1" -- "${{current##*,}}")
}}

_fa_files() {{
  local word
  compopt -o filenames 2>/dev/null
  while read -r word; do COMPREPLY+=("$word"); done < <(compgen -f -- "$current")
}}

_fa() {{
  local current=${{COMP_WORDS[COMP_CWORD]}} previous=${{COMP_WORDS[COMP_CWORD - 1]}} command= i
  COMPREPLY=()
  # bash takes --option=value for three words.
  if [[ $current == "=" ]]; then
    current=
  elif [[ $previous == "=" && $COMP_CWORD -gt 1 ]]; then
    previous=${{COMP_WORDS[COMP_CWORD - 2]}}
  fi
  for ((i = 1; i < COMP_CWORD; ++i)); do
    if [[ " {0} " == *" ${{COMP_WORDS[i]}} "* ]]; then
      command=${{COMP_WORDS[i]}}
      break
    fi
  done
  if [[ -z $command ]]; then
    _fa_words '{0} {1}'
    return
  fi
  case "$command $previous" in
{2}    *) _fa_options "$command" ;;
  esac
}}

_fa_options() {{
  case $1 in
{3}  esac
}}

complete -F _fa fa
)",
                     names, words_of(described(program()).options), values, options);
}

// ---- zsh

namespace {

/// The specification of an option for _arguments: '(-o --out)'{-o,--out=}'[description]:FILE:_files'
std::string zsh_option(const OptionText &option) {
  std::string text = fmt::format("[{}]", escaped(option.description, "[]\\", "\\"));
  if (!option.value.empty()) {
    std::string action = " ";
    if (option.value == "FILE") action = "_files";
    if (!option.choices.empty())
      action = option.list ? fmt::format("_values -s , {} {}", option.value, fmt::join(option.choices, " "))
                           : fmt::format("({})", fmt::join(option.choices, " "));
    text += fmt::format(":{}:{}", escaped(option.value, ":", "\\"), action);
  }
  const std::vector<std::string> names = names_of(option);
  const std::string equals = option.value.empty() ? "" : "=";  // the value may follow in the same word
  if (names.size() == 1) return quoted((names[0] == "--version" ? "(- *)" : "") + names[0] + equals + text);
  const std::string excluded = names[1] == "--help" ? "- *" : fmt::format("{}", fmt::join(names, " "));
  return fmt::format("'({})'{{{},{}{}}}{}", excluded, names[0], names[1], equals, quoted(text));
}

std::string zsh_options(const Described &each, const char *indent) {
  std::string text;
  for (const OptionText &option : each.options) text += fmt::format(" \\\n{}{}", indent, zsh_option(option));
  return text;
}

}  // namespace

std::string zsh_completion() {
  std::string names, cases;
  for (const Described &each : all_commands()) {
    names += fmt::format("        {}\n", quoted(fmt::format("{}:{}", each.command.name, each.command.summary)));
    cases += fmt::format("        {})\n          _arguments{}\n          ;;\n", each.command.name,
                         zsh_options(each, "            "));
  }
  return fmt::format(R"(#compdef fa
# Completion of fa for zsh, written by its build.

_fa() {{
  local curcontext=$curcontext state line ret=1
  local -a names
  typeset -A opt_args
  _arguments -C{} \
    '1: :->command' \
    '*:: :->options' && ret=0
  case $state in
    command)
      names=(
{}      )
      _describe -t commands command names && ret=0
      ;;
    options)
      case $line[1] in
{}      esac && ret=0
      ;;
  esac
  return ret
}}

_fa "$@"
)",
                     zsh_options(described(program()), "    "), names, cases);
}

// ---- fish

namespace {

std::string fish_option(const std::string &condition, const OptionText &option) {
  std::string text = fmt::format("complete -c fa -n {}", quoted(condition));
  for (const std::string &name : names_of(option))
    text += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
  if (option.value == "FILE") {
    text += " -r -F";
  } else if (!option.choices.empty()) {
    text += fmt::format(" -x -a {}", option.list ? quoted(fmt::format("(__fish_complete_list , 'printf \"%s\\n\" {}')",
                                                                      fmt::join(option.choices, " ")))
                                                 : quoted(fmt::format("{}", fmt::join(option.choices, " "))));
  } else if (!option.value.empty()) {
    text += " -x";
  }
  return text + fmt::format(" -d {}\n", quoted(option.description));
}

}  // namespace

std::string fish_completion() {
  std::string text = "# Completion of fa for fish, written by its build.\ncomplete -c fa -f\n";
  for (const OptionText &option : described(program()).options) text += fish_option("__fish_use_subcommand", option);
  for (const Described &each : all_commands()) {
    text += fmt::format("complete -c fa -n __fish_use_subcommand -a {} -d {}\n", each.command.name,
                        quoted(each.command.summary));
    for (const OptionText &option : each.options)
      text += fish_option(fmt::format("__fish_seen_subcommand_from {}", each.command.name), option);
  }
  return text;
}

}  // namespace fa::tool
