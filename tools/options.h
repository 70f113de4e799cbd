// The options of a command, defined once: the parser, the help text, the man page and the completions all come from
// here.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace fa::tool {

/// An option as help texts, man pages and completions show it.
struct OptionText {
  std::string group;                 // "Tensors"
  std::string names;                 // "-o,--out"
  std::string value;                 // "FILE"; "" for a flag
  std::string description;           // one phrase
  std::vector<std::string> choices;  // the values there are, where they are few
  bool list;                         // one value may have several of them, with commas between them
};

/// The smallest and the largest number that an option takes.
struct Range {
  double low, high;
};

/// Defines options in an app, one group after another. Each target is written when the command line is parsed and must
/// live until then.
class Options {
 public:
  /// Without an app the texts alone are kept.
  explicit Options(CLI::App *app) : app_(app) {}

  void group(const std::string &name) { group_ = name; }

  /// An option with a value, which the help calls `value`.
  void value(const char *names, std::string &target, const char *value, const char *description);
  void value(const char *names, int32_t &target, const char *value, const char *description);
  void value(const char *names, int64_t &target, const char *value, const char *description,
             std::optional<Range> range = {});
  void value(const char *names, float &target, const char *value, const char *description);
  void value(const char *names, std::optional<float> &target, const char *value, const char *description);
  void value(const char *names, double &target, const char *value, const char *description,
             std::optional<Range> range = {});

  /// An option that may be given several times.
  void values(const char *names, std::vector<std::string> &target, const char *value, const char *description);

  /// A value out of a few.
  void choice(const char *names, std::string &target, const std::vector<std::string> &choices, const char *value,
              const char *description);

  /// Several values out of a few, with commas between them.
  void choices(const char *names, std::vector<std::string> &target, const std::vector<std::string> &choices,
               const char *value, const char *description);

  void flag(const char *names, bool &target, const char *description);

  /// -h,--help and --version, which end the program.
  void help(const char *description);
  void version(const char *text, const char *description);

  /// Says that two options, by their long names, cannot be given together.
  void exclude(const char *one, const char *other);

  const std::vector<OptionText> &texts() const { return texts_; }

 private:
  void add(const char *names, const char *value, const char *description, bool repeated,
           const std::function<void(const std::string &)> &take);

  CLI::App *app_;
  std::string group_ = "Options";
  std::vector<OptionText> texts_;
};

/// "1,-2,3" as integers; their number must be between low and high. Throws BadInput that names the option and the form.
std::vector<int64_t> parse_integers(const std::string &option, const std::string &text, size_t low, size_t high,
                                    const std::string &form);

}  // namespace fa::tool
