// Damaged .npy files: whatever the bytes, the parser gives a whole array or a refusal that names the file, and touches
// nothing outside of the bytes (which end at an inaccessible page).
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <cstring>

#include "error.h"
#include "npy.h"
#include "reference/memory.h"
#include "reference/random.h"

namespace fa::tool {
namespace {

const char *const words[] = {"'descr'",
                             "'shape'",
                             "'fortran_order'",
                             "True",
                             "False",
                             "(",
                             ")",
                             ",",
                             ":",
                             "{",
                             "}",
                             "'<f4'",
                             "'>f8'",
                             "'V2'",
                             "'|b1'",
                             "[",
                             "L",
                             "0",
                             "1",
                             "-1",
                             "18446744073709551616",
                             "9223372036854775807",
                             "\"",
                             "'",
                             " "};

std::string seed_file(reference::Random &random) {
  const NpyType types[] = {NpyType::f16, NpyType::bf16, NpyType::f32, NpyType::f64, NpyType::boolean,
                           NpyType::u8,  NpyType::u16,  NpyType::i32, NpyType::i64};
  std::vector<int64_t> shape(static_cast<size_t>(random.between(0, 5)));
  for (int64_t &n : shape) n = random.between(0, 4);
  const std::vector<std::byte> bytes = format_npy(make_array(types[random.between(0, 8)], shape));
  std::string file(reinterpret_cast<const char *>(bytes.data()), bytes.size());
  if (random.chance(30)) {  // the longer form of the header's length
    file[6] = static_cast<char>(random.between(2, 3));
    file.insert(10, 2, '\0');
  }
  if (random.chance(30)) {
    if (const size_t at = file.find("False"); at != file.npos) file.replace(at, 5, "True ");
  }
  if (random.chance(20)) file[file.find('<') == file.npos ? 0 : file.find('<')] = '>';
  return file;
}

void damage(std::string &file, reference::Random &random) {
  const auto anywhere = [&] { return static_cast<size_t>(random.between(0, static_cast<int64_t>(file.size()))); };
  switch (random.between(0, 5)) {
    case 0:
      if (!file.empty()) file[anywhere() % file.size()] = static_cast<char>(random.next());
      break;
    case 1:
      file.resize(anywhere());
      break;
    case 2:
      file.insert(anywhere(), words[random.between(0, static_cast<int64_t>(std::size(words)) - 1)]);
      break;
    case 3:
      file.erase(anywhere(), static_cast<size_t>(random.between(1, 8)));
      break;
    case 4:  // the header's length
      if (file.size() > 9) file[static_cast<size_t>(random.between(8, 9))] = static_cast<char>(random.next());
      break;
    default:
      if (!file.empty()) {
        const size_t at = anywhere() % file.size();
        file[at] = static_cast<char>(file[at] ^ (1 << random.between(0, 7)));
      }
  }
}

/// "" or the fault in how a file was taken.
std::string fault_of(const std::string &file, bool *accepted) {
  reference::GuardedMemory memory(file.size(), reference::Guard::end);
  if (!file.empty()) std::memcpy(memory.data(), file.data(), file.size());
  const std::span<const std::byte> bytes(reinterpret_cast<const std::byte *>(memory.data()), file.size());
  try {
    const Array array = parse_npy(bytes, "x.npy");
    *accepted = true;
    int64_t elements = 1;
    for (const int64_t n : array.shape) elements *= n;
    if (array.elements() != elements) return "the array does not have the elements of its shape";
    const Array again = parse_npy(format_npy(array), "x.npy");
    if (again.bytes != array.bytes || again.shape != array.shape) return "written and read again it is another array";
  } catch (const BadInput &error) {
    *accepted = false;
    if (!std::string_view(error.what()).starts_with("x.npy: "))
      return std::string("its refusal names no file: ") + error.what();
  }
  return "";
}

TEST(NpyFuzz, DamagedFilesAreRefusedOrWhole) {
  const char *given = std::getenv("FA_FUZZ_SECONDS");
  const double seconds = given ? std::atof(given) : 3;
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  int64_t taken = 0, refused = 0;
  for (uint64_t seed = 1; std::chrono::steady_clock::now() < end; ++seed) {
    reference::Random random(seed);
    std::string file = seed_file(random);
    for (int64_t n = random.between(0, 4); n > 0; --n) damage(file, random);
    bool accepted = false;
    ASSERT_EQ(fault_of(file, &accepted), "") << "seed " << seed;
    ++(accepted ? taken : refused);
  }
  EXPECT_GT(taken, 100);  // the damage leaves enough to parse
  EXPECT_GT(refused, 100);
  std::printf("%lld files taken, %lld refused\n", static_cast<long long>(taken), static_cast<long long>(refused));
}

}  // namespace
}  // namespace fa::tool
