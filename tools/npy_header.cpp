// Parses and prints the dictionary {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), } strictly: anything else
// is an error that says where.
#include "npy_header.h"

#include <charconv>
#include <limits>

#include "error.h"
#include "npy.h"

namespace fa::tool {
namespace {

constexpr std::string_view magic = "\x93NUMPY";
constexpr size_t shortest_header = 10;
constexpr size_t max_header = 1 << 20;  // NumPy itself writes some 100 bytes

/// Reads Python literals from the header's text, front to back.
class Reader {
 public:
  Reader(std::string_view text, std::string_view name) : text_(text), name_(name) {}

  /// Consumes a character, spaces before it included, when it is next.
  bool take(char c) {
    skip_spaces();
    if (position_ == text_.size() || text_[position_] != c) return false;
    ++position_;
    return true;
  }

  void expect(char c) {
    if (!take(c)) fail(fmt::format("expected '{}'", c));
  }

  bool at_end() {
    skip_spaces();
    return position_ == text_.size();
  }

  std::string string() {
    skip_spaces();
    const char quote = take('\'') ? '\'' : take('"') ? '"' : '\0';
    if (!quote) fail("expected a string");
    const size_t end = text_.find(quote, position_);
    if (end == text_.npos) fail("a string without an end");
    std::string result(text_.substr(position_, end - position_));
    position_ = end + 1;
    return result;
  }

  bool boolean() {
    skip_spaces();
    for (const bool value : {true, false}) {
      const std::string_view word = value ? "True" : "False";
      if (text_.substr(position_, word.size()) == word) {
        position_ += word.size();
        return value;
      }
    }
    fail("expected True or False");
  }

  int64_t size() {
    skip_spaces();
    int64_t value = 0;
    const char *begin = text_.data() + position_, *end = text_.data() + text_.size();
    const auto [rest, error] = std::from_chars(begin, end, value);
    if (error == std::errc::result_out_of_range) fail("a dimension beyond 64 bits");
    if (error != std::errc() || value < 0) fail("expected a dimension");
    position_ += static_cast<size_t>(rest - begin);
    take('L');  // Python 2 wrote long integers so
    return value;
  }

  std::vector<int64_t> shape() {
    std::vector<int64_t> result;
    expect('(');
    while (!take(')')) {
      result.push_back(size());
      if (!take(',')) {
        expect(')');
        break;
      }
    }
    return result;
  }

  bool next_is(char c) {
    skip_spaces();
    return position_ < text_.size() && text_[position_] == c;
  }

  [[noreturn]] void fail(std::string_view what) const {
    bad_input("{}: malformed .npy header: {} at byte {} of its dictionary", name_, what, position_);
  }

 private:
  void skip_spaces() {
    while (position_ < text_.size() && (text_[position_] == ' ' || text_[position_] == '\n')) ++position_;
  }

  std::string_view text_, name_;
  size_t position_ = 0;
};

NpyHeader parse_dictionary(std::string_view text, std::string_view name) {
  Reader reader(text, name);
  NpyHeader header;
  bool have_descr = false, have_order = false, have_shape = false;
  reader.expect('{');
  while (!reader.take('}')) {
    const std::string key = reader.string();
    reader.expect(':');
    bool *have = key == "descr"           ? &have_descr
                 : key == "fortran_order" ? &have_order
                 : key == "shape"         ? &have_shape
                                          : nullptr;
    if (!have) reader.fail(fmt::format("unknown key '{}'", key));
    if (*have) reader.fail(fmt::format("'{}' a second time", key));
    *have = true;
    if (key == "descr") {
      if (reader.next_is('[')) bad_input("{}: holds a structured type; expected a plain array of numbers", name);
      header.descr = reader.string();
    } else if (key == "fortran_order") {
      header.fortran_order = reader.boolean();
    } else {
      header.shape = reader.shape();
    }
    if (!reader.take(',')) {
      reader.expect('}');
      break;
    }
  }
  if (!reader.at_end()) reader.fail("text after the dictionary");
  if (!have_descr || !have_order || !have_shape) {
    bad_input("{}: malformed .npy header: '{}' is missing", name,
              !have_descr   ? "descr"
              : !have_order ? "fortran_order"
                            : "shape");
  }
  return header;
}

/// The little-endian number of `count` bytes at offset.
size_t little_endian(std::span<const std::byte> file, size_t offset, size_t count) {
  size_t value = 0;
  for (size_t i = 0; i < count; ++i) value |= std::to_integer<size_t>(file[offset + i]) << (8 * i);
  return value;
}

}  // namespace

size_t npy_header_bytes(std::span<const std::byte> file, std::string_view name) {
  const std::string_view text(reinterpret_cast<const char *>(file.data()), file.size());
  if (text.substr(0, magic.size()) != magic.substr(0, text.size())) {
    bad_input("{}: is not a .npy file: it does not begin with \\x93NUMPY{}", name,
              text.starts_with("PK") ? " (a .npz archive? unpack it: each member is a .npy file)" : "");
  }
  if (file.size() < shortest_header) return shortest_header;
  const int major = std::to_integer<int>(file[6]), minor = std::to_integer<int>(file[7]);
  if (major < 1 || major > 3 || minor != 0) {
    bad_input("{}: .npy format version {}.{}; versions 1.0, 2.0 and 3.0 can be read", name, major, minor);
  }
  const size_t length_bytes = major == 1 ? 2 : 4, begin = 8 + length_bytes;
  if (file.size() < begin) return begin;
  const size_t length = little_endian(file, 8, length_bytes);
  if (length > max_header) bad_input("{}: malformed .npy header: {} bytes long", name, length);
  return begin + length;
}

NpyHeader parse_npy_header(std::span<const std::byte> file, std::string_view name) {
  if (file.empty()) bad_input("{}: is empty; expected a .npy file as numpy.save writes it", name);
  const size_t end = npy_header_bytes(file, name);
  if (file.size() < end) bad_input("{}: truncated: {} bytes, but its header alone has {}", name, file.size(), end);
  const size_t begin = std::to_integer<int>(file[6]) == 1 ? 10 : 12;
  const std::string_view text(reinterpret_cast<const char *>(file.data()), end);
  NpyHeader header = parse_dictionary(text.substr(begin), name);
  header.data_offset = end;
  return header;
}

std::string format_npy_header(std::string_view descr, std::span<const int64_t> shape) {
  std::string text = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': {}, }}", descr, shape_text(shape));
  constexpr size_t before = 10;  // magic, version, length
  text.append((64 - (before + text.size() + 1) % 64) % 64, ' ');
  text.push_back('\n');
  std::string header(magic);
  header += {'\x01', '\x00', static_cast<char>(text.size() & 0xff), static_cast<char>(text.size() >> 8)};
  return header + text;
}

}  // namespace fa::tool
