// Options on top of CLI11, whose header is so large that only this file and main.cpp include it.
#include "options.h"

#include <CLI/CLI.hpp>
#include <charconv>

#include "error.h"

namespace fa::tool {

void Options::note(const char *names, const std::string &value, const char *description) {
  texts_.push_back({group_, names, value, description});
}

template <class T>
CLI::Option *Options::add(const char *names, T &target, const std::string &value, const char *description) {
  note(names, value, description);
  return app_ ? app_->add_option(names, target) : nullptr;
}

void Options::check_range(CLI::Option *option, const std::optional<Range> &range) {
  if (option && range) option->check(CLI::Range(range->low, range->high));
}

void Options::value(const char *names, std::string &target, const char *value, const char *description) {
  add(names, target, value, description);
}

void Options::value(const char *names, int32_t &target, const char *value, const char *description) {
  add(names, target, value, description);
}

void Options::value(const char *names, int64_t &target, const char *value, const char *description,
                    std::optional<Range> range) {
  check_range(add(names, target, value, description), range);
}

void Options::value(const char *names, float &target, const char *value, const char *description) {
  add(names, target, value, description);
}

void Options::value(const char *names, double &target, const char *value, const char *description,
                    std::optional<Range> range) {
  check_range(add(names, target, value, description), range);
}

void Options::values(const char *names, std::vector<std::string> &target, const char *value, const char *description) {
  if (CLI::Option *option = add(names, target, value, description)) option->expected(1)->take_all();
}

void Options::choice(const char *names, std::string &target, const std::vector<std::string> &choices, const char *value,
                     const char *description) {
  if (CLI::Option *option = add(names, target, value, description)) option->check(CLI::IsMember(choices));
}

void Options::choices(const char *names, std::vector<std::string> &target, const std::vector<std::string> &choices,
                      const char *value, const char *description) {
  CLI::Option *option = add(names, target, value, description);
  if (option) option->expected(1)->take_all()->delimiter(',')->check(CLI::IsMember(choices));
}

void Options::flag(const char *names, bool &target, const char *description) {
  note(names, "", description);
  if (app_) app_->add_flag(names, target);
}

void Options::help(const char *description) {
  note("-h,--help", "", description);
  if (app_) app_->set_help_flag("-h,--help");
}

void Options::version(const char *text, const char *description) {
  note("--version", "", description);
  if (app_) app_->set_version_flag("--version", text);
}

void Options::exclude(const char *one, const char *other) {
  if (app_) app_->get_option(one)->excludes(app_->get_option(other));
}

std::vector<int64_t> parse_integers(const std::string &option, const std::string &text, size_t low, size_t high,
                                    const std::string &form) {
  std::vector<int64_t> numbers;
  const char *at = text.data(), *end = text.data() + text.size();
  for (;;) {
    int64_t number = 0;
    const auto [rest, error] = std::from_chars(at, end, number);
    if (error != std::errc() || (rest != end && *rest != ',')) break;
    numbers.push_back(number);
    if (rest == end) {
      if (numbers.size() < low || numbers.size() > high) break;
      return numbers;
    }
    at = rest + 1;
  }
  bad_input("{} is '{}'; {} is expected", option, text, form);
}

}  // namespace fa::tool
