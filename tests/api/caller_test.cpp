// The state of a thread where the library calls back, and a locale whose numbers have commas.
#include "reference/caller.h"

#include <locale.h>

#include <cerrno>
#include <cfenv>
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "call.h"
#include "support/child.h"

namespace api_test {
namespace {

/// A log that looks at the thread that it is called on.
struct Looking {
  std::string environment;
  int messages = 0, elsewhere = 0;

  static void log(void *self, const char *) {
    Looking &looking = *static_cast<Looking *>(self);
    ++looking.messages;
    looking.elsewhere += !reference::other_caller_than(looking.environment).empty();
  }
};

// [F195] [F196]
TEST(Caller, ItsLogHasItsEnvironment) {
  const Variable verbose("FA_VERBOSE", "dispatch"), threads("FA_NUM_THREADS", "none");
  for (const std::string &environment : reference::float_environments()) {
    Looking looking{environment};
    fa_set_log(Looking::log, &looking);
    Call call;
    call.desc.num_threads = 0;
    std::string changed;
    {
      const reference::Caller caller(environment);
      EXPECT_EQ(call.run(), FA_OK);
      changed = caller.changed();
    }
    fa_set_log(nullptr, nullptr);
    EXPECT_EQ(changed, "");
    EXPECT_GT(looking.messages, 1);
    EXPECT_EQ(looking.elsewhere, 0) << environment;
  }
}

/// The environment of the log is its thread's, and not a copy of it.
TEST(Caller, KeepsWhatItsLogChanges) {
  const Variable verbose("FA_VERBOSE", "dispatch");
  Call before, after;
  ASSERT_EQ(before.run(), FA_OK);
  fa_set_log(
      [](void *, const char *) {
        std::fesetround(FE_UPWARD);
        errno = EDOM;
      },
      nullptr);
  EXPECT_EQ(after.run(), FA_OK);
  fa_set_log(nullptr, nullptr);
  EXPECT_EQ(errno, EDOM);
  EXPECT_EQ(std::fegetround(), FE_UPWARD);
  std::fesetround(FE_TONEAREST);
  EXPECT_EQ(std::memcmp(before.out, after.out, sizeof before.out), 0);
}

/// The numbers of a locale as glibc's localedef writes them: the decimal point is a comma, and groups of digits are
/// separated by points. Its other categories are not there.
constexpr char comma_for_point[] =
    "\x14\x11\x03\x20\x06\0\0\0\x20\0\0\0\x22\0\0\0\x24\0\0\0\x28\0\0\0\x2c\0\0\0\x30\0\0\0"
    ",\0.\0\3\3\0\0,\0\0\0.\0\0\0ANSI_X3.4-1968";

/// Makes that locale a thread's, or the process'.
bool take_commas(const std::filesystem::path &folder, bool of_the_thread) {
  const std::filesystem::path file = folder / "fa_FA" / "LC_NUMERIC";
  std::filesystem::create_directories(file.parent_path());
  std::ofstream(file, std::ios::binary).write(comma_for_point, sizeof comma_for_point);
  setenv("LOCPATH", folder.c_str(), 1);
  if (of_the_thread) {
    const locale_t commas = newlocale(LC_NUMERIC_MASK, "fa_FA", nullptr);
    if (commas) uselocale(commas);
  } else {
    setlocale(LC_NUMERIC, "fa_FA");
  }
  char text[8];
  std::snprintf(text, sizeof text, "%g", 1.5);
  return std::strcmp(text, "1,5") == 0;
}

/// fa_last_error of fa_create.
std::string refusal(float scale, float softcap) {
  Call call;
  call.desc.softmax_scale = scale;
  call.desc.softcap = softcap;
  fa_op *op = nullptr;
  return fa_create(&call.desc, &op) == FA_ERROR_INVALID_ARGUMENT ? fa_last_error() : "";
}

// [F196]
TEST(Locale, ChangesNoTextAndNoNumber) {
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("fa_locale_" + std::to_string(getpid()));
  Call expected;
  ASSERT_EQ(expected.run(), FA_OK);
  const std::string refused = refusal(0, -1.5f);
  ASSERT_EQ(missing_words(refused, {"-1.5"}), "");
  for (const bool of_the_thread : {false, true}) {
    enum { same, no_locale, other_text, other_bits };
    const int outcome = test::in_child({{"FA_NUM_THREADS", "3"}}, [&] {
      if (!take_commas(folder, of_the_thread)) return no_locale;
      if (refusal(0, -1.5f) != refused) return std::fprintf(stderr, "%s\n", fa_last_error()), other_text;
      Call call;
      call.desc.num_threads = 0;
      if (call.run() != FA_OK || std::memcmp(call.out, expected.out, sizeof call.out) != 0) return other_bits;
      return same;
    });
    EXPECT_EQ(outcome, same) << (of_the_thread ? "uselocale" : "setlocale");
  }
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace api_test
