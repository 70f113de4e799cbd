// Writes every man page and completion below a folder while the tool is built: fa_man OUTPUT_FOLDER FA_H
#include <fmt/format.h>

#include <exception>
#include <filesystem>
#include <fstream>

#include "command.h"
#include "completion.h"
#include "error.h"
#include "file.h"
#include "manual.h"

namespace fa::tool {
namespace {

void write_page(const std::filesystem::path &path, const std::string &text) {
  OutputFile file(path.string());
  file.write(std::as_bytes(std::span(text)));
  file.commit();
}

void write_completions(const std::filesystem::path &folder) {
  for (const char *shell : {"bash", "zsh", "fish"}) std::filesystem::create_directories(folder / shell);
  write_page(folder / "bash/fa", bash_completion());
  write_page(folder / "zsh/_fa", zsh_completion());
  write_page(folder / "fish/fa.fish", fish_completion());
}

void write_pages(const std::filesystem::path &folder, const std::string &header_path) {
  std::filesystem::create_directories(folder / "man1");
  std::filesystem::create_directories(folder / "man3");
  Options none(nullptr);
  const Command whole = program();
  whole.define(none);
  write_page(folder / "man1/fa.1", man_page(whole, none));
  for (const Command &command : commands()) {
    Options options(nullptr);
    command.define(options);
    write_page(folder / fmt::format("man1/fa-{}.1", command.name), man_page(command, options));
  }
  const std::vector<std::byte> bytes = read_text_file(header_path);
  const std::string_view header(reinterpret_cast<const char *>(bytes.data()), bytes.size());
  write_page(folder / "man3/libfa.3", header_man_page(header));
  for (const std::string &name : functions_of(header)) {
    write_page(folder / fmt::format("man3/{}.3", name), function_man_page(header, name));
  }
}

}  // namespace
}  // namespace fa::tool

int main(int argc, char **argv) {
  if (argc != 3) {
    fmt::print(stderr, "usage: fa_man OUTPUT_FOLDER FA_H\n");
    return fa::tool::exit_bad_input;
  }
  try {
    fa::tool::write_pages(argv[1], argv[2]);
    fa::tool::write_completions(std::filesystem::path(argv[1]) / "completions");
  } catch (const std::exception &error) {
    fmt::print(stderr, "fa_man: {}\n", error.what());
    return fa::tool::exit_failure;
  }
  return fa::tool::exit_ok;
}
