// The fuzzer's target on a fixed set: every PTX file of the given folders, whole, cut off, and changed at random
// places, with pieces of other places put in.
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

namespace {

constexpr int changed_copies = 300, cuts = 150;
constexpr size_t longest_part = 20000;  // of a long file, a part with its head is enough

void parse(const std::string &text) {
  LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t *>(text.data()), text.size());
}

void change(std::string &text, std::mt19937 &random) {
  const std::string bytes = std::string("{}[]();,.:%@!|+-<>0fx\"\n\0/*_", 28);
  size_t at = random() % text.size(), length = random() % 40;
  switch (random() % 4) {
    case 0:
      text[at] = bytes[random() % bytes.size()];
      break;
    case 1:
      text.erase(at, length);
      break;
    case 2:
      text.insert(at, text.substr(random() % text.size(), length));
      break;
    default:
      text[at] = static_cast<char>(random());
  }
}

void damage(const std::string &whole, std::mt19937 &random) {
  parse(whole);
  std::string text = whole.substr(0, longest_part);
  for (int i = 0; i < cuts; i++) parse(text.substr(0, random() % text.size()));
  for (int i = 0; i < changed_copies; i++) {
    std::string copy = text;
    for (int n = 1 + static_cast<int>(random() % 5); n > 0 && !copy.empty(); n--) change(copy, random);
    parse(copy);
  }
}

}  // namespace

int main(int count, char **arguments) {
  std::mt19937 random(1);
  int files = 0;
  for (int i = 1; i < count; i++)
    for (const auto &entry : std::filesystem::directory_iterator(arguments[i])) {
      if (entry.path().extension() != ".ptx") continue;
      std::ifstream file(entry.path());
      std::stringstream text;
      text << file.rdbuf();
      if (text.str().empty()) continue;
      damage(text.str(), random);
      files++;
    }
  std::printf("%d files\n", files);
  return files == 0;
}
