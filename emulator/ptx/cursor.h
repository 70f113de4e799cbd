// A position in PTX text: skips blanks and comments, counts lines, reads words and numbers.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "ptx/type.h"

namespace fa::emu::ptx {

/// The error and its place; thrown inside the parser only.
struct Failure {
  uint32_t line;
  std::string message;
};

/// A literal: bits, and f32 or f64 where it was written as such.
struct Literal {
  int64_t bits = 0;
  Type type = Type::none;
};

class Cursor {
 public:
  explicit Cursor(std::string_view text) : text_(text) {}

  uint32_t line() const { return line_; }
  bool at_end() { return skip_blanks(), at_ == text_.size(); }
  /// The next character that is no blank, 0 at the end.
  char peek() { return skip_blanks(), at_ < text_.size() ? text_[at_] : '\0'; }
  /// The very next character.
  char peek_raw(size_t ahead = 0) const { return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0'; }
  bool accept(char c);
  void expect(char c);
  /// [A-Za-z0-9_$%]+ ; fails otherwise.
  std::string_view word();
  /// As word, with an ".x" to ".w" behind it: names of special registers.
  std::string_view word_with_component();
  /// A word that goes on over dots and double colons: an opcode.
  std::string_view opcode();
  bool at_number();
  Literal number();
  uint64_t unsigned_integer();
  std::string_view quoted();
  void skip_line();
  /// Skips to behind the brace that closes the one just read.
  void skip_braces();
  [[noreturn]] void fail(std::string message) const { throw Failure{line_, std::move(message)}; }

 private:
  void skip_blanks();

  std::string_view text_;
  size_t at_ = 0;
  uint32_t line_ = 1;
};

}  // namespace fa::emu::ptx
