// Files read whole, and outputs that appear whole or not at all.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace fa::tool {

/// Looks at the bytes that a file begins with, perhaps none yet, and returns how many are needed, to say more or in
/// all. May throw BadInput.
using Needed = std::function<size_t(std::span<const std::byte>)>;

/// A file's bytes, all that are needed and perhaps some more: an endless file (/dev/zero, a pipe) is not read to its
/// end. Throws BadInput that says why it cannot be read.
std::vector<std::byte> read_file(const std::string &path, const Needed &needed);

/// A text file's bytes, of which there are at most 64 MiB.
std::vector<std::byte> read_text_file(const std::string &path);

/// Throws BadInput where an output would replace an input, whatever name it has for it. Paths may be "".
void check_outputs_are_no_inputs(const std::vector<const std::string *> &outputs,
                                 const std::vector<const std::string *> &inputs);

/// A file to be written. Its bytes go to a temporary file in the same folder, which commit() puts in its place; without
/// a commit, on an error or a signal that ends the program, the temporary file goes away and the file at path
/// stays. A path that is no regular file (/dev/null, a pipe) is written directly, a pipe opened only then.
class OutputFile {
 public:
  /// Creates the temporary file, or opens the existing one, so that an unwritable place is found before the work.
  /// Throws BadInput.
  explicit OutputFile(std::string path);
  ~OutputFile();
  OutputFile(const OutputFile &) = delete;
  OutputFile &operator=(const OutputFile &) = delete;

  /// Replaces the contents. Throws Failure (a full disk).
  void write(std::span<const std::byte> bytes);

  /// Puts the file in its place. Throws Failure.
  void commit();

  const std::string &path() const { return path_; }

 private:
  std::string path_;       // as given
  std::string target_;     // where it leads: links are followed
  std::string temporary_;  // "" when target_ is written directly
  int descriptor_ = -1;
  int slot_ = -1;  // in the signal handler's list
};

}  // namespace fa::tool
