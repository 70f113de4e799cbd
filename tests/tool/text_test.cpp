// The small makers of text: the progress bar's line, units, numbers in lists, processors, roff, the page of the header.
#include "text.h"

#include <gtest/gtest.h>

#include <sstream>

#include "error.h"
#include "machine.h"
#include "manual.h"
#include "options.h"
#include "roff.h"
#include "terminal.h"

namespace fa::tool {
namespace {

TEST(Progress, ShowsRateAndTimeLeft) {
  EXPECT_EQ(progress_line("case", 25, 100, 5, 80), "[#######.......................]  25% 25/100 5.0/s ETA 0:15 case");
  EXPECT_EQ(progress_line("case", 0, 100, 0, 80), "[..............................]   0% 0/100 0.0/s ETA --:-- case");
  EXPECT_EQ(progress_line("", 100, 100, 50, 80), "[##############################] 100% 100/100 2.0/s ETA 0:00 ");
}

TEST(Progress, FitsTheTerminal) {
  for (int columns = 0; columns < 120; ++columns) {
    const std::string line = progress_line(std::string(200, 'x'), 3, 7, 1, columns);
    EXPECT_LT(static_cast<int>(line.size()), std::max(columns, 1)) << columns;
  }
}

TEST(Progress, TakesAnyNumbers) {
  EXPECT_NE(progress_line("", 0, 0, 0, 80).find("100%"), std::string::npos);
  EXPECT_NE(progress_line("", 9, 5, 1, 80).find("5/5"), std::string::npos);
  EXPECT_NE(progress_line("", -1, 5, 1, 80).find("0/5"), std::string::npos);
}

TEST(Progress, SaysNothingWithoutATerminal) {
  testing::internal::CaptureStderr();
  {
    Progress progress(10);
    progress.update(5, "x");
  }
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

TEST(Progress, Durations) {
  EXPECT_EQ(duration_text(0), "0:00");
  EXPECT_EQ(duration_text(65), "1:05");
  EXPECT_EQ(duration_text(7384), "2:03:04");
  EXPECT_EQ(duration_text(-1), "--:--");
  EXPECT_EQ(duration_text(1e300), "--:--");
}

TEST(Units, SecondsAndBytes) {
  EXPECT_EQ(seconds_text(2.345), "2.35 s");
  EXPECT_EQ(seconds_text(0.0123), "12.3 ms");
  EXPECT_EQ(seconds_text(0.000999), "999 us");
  EXPECT_EQ(seconds_text(0.9999), "1.00 s");
  EXPECT_EQ(seconds_text(3e-8), "30 ns");
  EXPECT_EQ(bytes_text(131.072e9), "131 GB");
  EXPECT_EQ(bytes_text(2048), "2.05 kB");
  EXPECT_EQ(bytes_text(17), "17 bytes");
}

TEST(Options, ParsesIntegersToTheLastCharacter) {
  EXPECT_EQ(parse_integers("--x", "-1,0,12", 3, 3, "three"), (std::vector<int64_t>{-1, 0, 12}));
  for (const char *text : {"", "1", "1,2,", ",1", "1,a", "1 ,2", "1,2,3,4", "1,99999999999999999999", "1x,2"}) {
    EXPECT_THROW(parse_integers("--x", text, 2, 3, "two or three"), BadInput) << text;
  }
}

TEST(Machine, ReadsCpuinfo) {
  const std::string x86 =
      "processor\t: 0\nmodel name\t: Some CPU @ 2 GHz\nflags\t\t: fpu avx2 fma avx512f avx512_bf16\n";
  EXPECT_EQ(cpuinfo_value(x86, "model name"), "Some CPU @ 2 GHz");
  EXPECT_EQ(isas_in(x86), (std::vector<std::string>{"fma", "avx2", "avx512f", "avx512_bf16"}));
  EXPECT_EQ(isas_in("Features\t: fp asimd asimdhp bf16\n"), (std::vector<std::string>{"asimd", "asimdhp", "bf16"}));
  EXPECT_EQ(isas_in(""), std::vector<std::string>{});
  EXPECT_EQ(cpuinfo_value("nonsense", "flags"), "");
  EXPECT_GT(this_machine().cpus_online, 0);
}

TEST(Roff, EscapesWhatRoffWouldRead) {
  EXPECT_EQ(Roff::escaped("a-b\\c 'd' `e`"), "a\\-b\\ec \\(aqd\\(aq \\(gae\\(ga");
  EXPECT_EQ(Roff::escaped(".start"), "\\&.start");
}

TEST(Manual, HeaderBecomesAPage) {
  const std::string header =
      "/*\n * lib: a thing.\n *\n *   shaped - line\n *\n * A HEADING (with a note)\n *\n * Text.\n */\n"
      "/* ---- constants */\nFA_API int fa_one(int a);\nFA_API const char *fa_two(void);\n#ifdef __cplusplus\n}\n";
  EXPECT_EQ(functions_of(header), (std::vector<std::string>{"fa_one", "fa_two"}));
  const std::string page = header_man_page(header);
  EXPECT_NE(page.find(".SH A HEADING (WITH A NOTE)\nText.\n"), page.npos) << page;
  EXPECT_NE(page.find(".nf\n  shaped \\- line\n.fi\n"), page.npos) << page;
  EXPECT_NE(page.find("FA_API int fa_one(int a);"), page.npos) << page;
  EXPECT_NE(page.find("libfa, fa_one, fa_two \\- "), page.npos) << page;
  EXPECT_EQ(functions_of(""), std::vector<std::string>{});
  EXPECT_NE(header_man_page("").find(".TH LIBFA 3"), page.npos);
}

TEST(Manual, FunctionsHavePages) {
  const std::string header =
      "/* Another. */\nFA_API int fa_other(int a);\n\n"
      "/* Makes one [F1]: a thing.\n * Of a kind [F2].\n *\n * More of it.\n *\n * Errors: FA_NONE; none [F3]. "
      "Thread-safe.\n"
      " * Since 0.1. */\ntypedef int fa_kind;\nFA_API fa_status fa_one(int a,\n                        fa_kind b);\n";
  const std::string page = function_man_page(header, "fa_one");
  EXPECT_NE(page.find(".SH NAME\nfa_one \\- makes one\n"), page.npos) << page;
  EXPECT_NE(page.find("typedef int fa_kind;\nfa_status fa_one(int a,\n                        fa_kind b);"), page.npos)
      << page;
  EXPECT_NE(page.find(".SH DESCRIPTION\nMakes one: a thing.\nOf a kind.\n.PP\nMore of it.\n"), page.npos) << page;
  EXPECT_NE(page.find(".SH RETURN VALUE\n"), page.npos) << page;
  EXPECT_NE(page.find(".SH ERRORS\nFA_NONE; none.\n"), page.npos) << page;
  EXPECT_NE(page.find(".SH NOTES\nThread\\-safe. Since 0.1.\n"), page.npos) << page;
  EXPECT_EQ(function_man_page(header, "fa_other").find(".SH ERRORS"), page.npos);
}

/// Every help text fits a screen, and describes every option.
TEST(Manual, HelpFitsAScreen) {
  std::vector<Command> all = commands();
  all.push_back(program());
  for (const Command &command : all) {
    Options options(nullptr);
    command.define(options);
    const std::string text = help_text(command, options);
    std::istringstream lines(text);
    int count = 0;
    for (std::string line; std::getline(lines, line); ++count) EXPECT_LE(line.size(), 80u) << line;
    EXPECT_LE(count, 60) << command.name;
    for (const OptionText &option : options.texts()) {
      EXPECT_FALSE(option.description.empty()) << option.names;
      EXPECT_NE(man_page(command, options).find(Roff::escaped(option.description)), std::string::npos) << option.names;
    }
  }
}

/// Neighbours of one description are one entry.
TEST(Manual, OptionsOfOneDescription) {
  Options options(nullptr);
  std::string target;
  options.value("-a,--one", target, "FILE", "the first");
  for (const char *name : {"--two", "--three"}) options.value(name, target, "FILE", "the others");
  const std::string help = help_text(program(), options), page = man_page(program(), options);
  EXPECT_NE(help.find("\n  -a, --one FILE         the first\n  --two, --three FILE    the others\n"), help.npos)
      << help;
  EXPECT_NE(page.find("\\-\\-two, \\-\\-three FILE"), page.npos) << page;
}

}  // namespace
}  // namespace fa::tool
