// Blanks, words and numbers of PTX.
#include "ptx/cursor.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <utility>

namespace fa::emu::ptx {
namespace {

constexpr bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
constexpr bool is_word(char c) {
  return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '$' || c == '%';
}

std::string shown(char c) {
  return c ? std::string("'") + c + "'" : std::string("the end of the text");
}

}  // namespace

void Cursor::skip_blanks() {
  while (at_ < text_.size()) {
    char c = text_[at_];
    if (c == '\n') {
      line_++;
      at_++;
    } else if (c == ' ' || c == '\t' || c == '\r' || c == '\f' || c == '\v') {
      at_++;
    } else if (c == '/' && peek_raw(1) == '/') {
      at_ = std::min(text_.find('\n', at_), text_.size());
    } else if (c == '/' && peek_raw(1) == '*') {
      size_t end = text_.find("*/", at_ + 2);
      if (end == std::string_view::npos) fail("a comment that never ends");
      for (; at_ < end + 2; at_++) line_ += text_[at_] == '\n';
    } else {
      return;
    }
  }
}

bool Cursor::accept(char c) {
  if (peek() != c || c == '\0') return false;
  at_++;
  return true;
}

void Cursor::expect(char c) {
  if (!accept(c)) fail("expected " + shown(c) + ", got " + shown(peek()));
}

std::string_view Cursor::word() {
  skip_blanks();
  size_t begin = at_;
  while (is_word(peek_raw())) at_++;
  if (at_ == begin) fail("expected a name, got " + shown(peek_raw()));
  return text_.substr(begin, at_ - begin);
}

std::string_view Cursor::word_with_component() {
  size_t begin = (skip_blanks(), at_);
  word();
  char component = peek_raw(1);
  if (peek_raw() == '.' && component >= 'w' && component <= 'z' && !is_word(peek_raw(2))) at_ += 2;
  return text_.substr(begin, at_ - begin);
}

std::string_view Cursor::opcode() {
  size_t begin = (skip_blanks(), at_);
  word();
  while (is_word(peek_raw()) || peek_raw() == '.' || (peek_raw() == ':' && peek_raw(1) == ':')) {
    at_ += peek_raw() == ':' ? 2 : 1;
  }
  return text_.substr(begin, at_ - begin);
}

bool Cursor::at_number() {
  char c = peek();
  return is_digit(c) || ((c == '-' || c == '+') && is_digit(peek_raw(1))) || (c == '.' && is_digit(peek_raw(1)));
}

Literal Cursor::number() {
  skip_blanks();
  bool negative = peek_raw() == '-';
  if (negative || peek_raw() == '+') at_++;
  const char *begin = text_.data() + at_, *end = text_.data() + text_.size();
  char second = peek_raw(1);
  Literal literal;
  auto integer = [&](const char *digits, int base) {
    uint64_t value = 0;
    auto [stop, error] = std::from_chars(digits, end, value, base);
    if (error != std::errc()) fail("a malformed number, or one that is too large");
    literal.bits = static_cast<int64_t>(negative ? 0 - value : value);
    at_ = static_cast<size_t>(stop - text_.data());
    if (peek_raw() == 'U' || peek_raw() == 'u') at_++;
  };
  if (*begin == '0' && (second == 'f' || second == 'F' || second == 'd' || second == 'D')) {
    bool single = second == 'f' || second == 'F';
    bool minus = std::exchange(negative, false);
    integer(begin + 2, 16);
    literal.type = single ? Type::f32 : Type::f64;
    if (minus) literal.bits ^= single ? int64_t{1} << 31 : INT64_MIN;
    return literal;
  }
  if (*begin == '0' && (second == 'x' || second == 'X')) return integer(begin + 2, 16), literal;
  if (*begin == '0' && (second == 'b' || second == 'B')) return integer(begin + 2, 2), literal;
  double real = 0;
  auto [stop, error] = std::from_chars(begin, end, real);
  std::string_view digits(begin, static_cast<size_t>(stop - begin));
  if (digits.find_first_of(".eE") != std::string_view::npos) {
    if (error != std::errc()) fail("a floating point number out of range");
    literal = {std::bit_cast<int64_t>(negative ? -real : real), Type::f64};
    at_ += digits.size();
    return literal;
  }
  integer(begin, *begin == '0' && is_digit(second) ? 8 : 10);
  return literal;
}

uint64_t Cursor::unsigned_integer() {
  if (!is_digit(peek())) fail("expected a number, got " + shown(peek()));
  Literal literal = number();
  if (literal.type != Type::none) fail("expected an integer, got a floating point number");
  return static_cast<uint64_t>(literal.bits);
}

std::string_view Cursor::quoted() {
  expect('"');
  size_t end = text_.find_first_of("\"\n", at_);
  if (end == std::string_view::npos || text_[end] != '"') fail("a string that never ends");
  std::string_view text = text_.substr(at_, end - at_);
  at_ = end + 1;
  return text;
}

void Cursor::skip_line() {
  at_ = std::min(text_.find('\n', at_), text_.size());
}

void Cursor::skip_braces() {
  for (int depth = 1; depth > 0; at_++) {
    if (at_ >= text_.size()) fail("a section that never ends");
    char c = text_[at_];
    line_ += c == '\n';
    depth += (c == '{') - (c == '}');
  }
}

}  // namespace fa::emu::ptx
