// `fa bench --plot`: bars, intervals and ticks, read back from the SVG, are those of the measurements.
#include <gtest/gtest.h>

#include <cstdio>

#include "bench_fixture.h"
#include "file.h"
#include "svg_parts.h"

namespace {

using fa::tool::BenchRun;
using fa::tool::Measurement;
using test::between;
using test::Finished;

class BenchPlot : public Bench {
 protected:
  const std::string picture = folder / "plot.svg";

  std::string drawn(std::vector<std::string> options, int code = 0) {
    options.insert(options.begin(), "bench");
    options.insert(options.end(), {"--plot", picture});
    const Finished f = test::fa(options);
    EXPECT_EQ(f.code, code) << f.err;
    const std::vector<std::byte> bytes = fa::tool::read_text_file(picture);
    return std::string(reinterpret_cast<const char *>(bytes.data()), bytes.size());
  }
};

double number_of(const std::string &element, const char *attribute) {
  double value = -1;
  const std::vector<std::string> found = between(element, std::string(" ") + attribute + "=\"", "\"");
  EXPECT_EQ(found.size(), 1u) << element;
  if (!found.empty()) std::sscanf(found[0].c_str(), "%lf", &value);
  return value;
}

/// The widths of the bars of a class, in order.
std::vector<double> widths(const std::string &svg, const std::string &of) {
  std::vector<double> all;
  for (const std::string &bar : between(svg, "<rect class=\"" + of + "\"", "/>"))
    all.push_back(number_of(bar, "width"));
  return all;
}

std::vector<std::string> texts(const std::string &svg, const std::string &of) {
  std::vector<std::string> all;
  for (const std::string &text : between(svg, "<text class=\"" + of + "\"", "</text>"))
    all.push_back(text.substr(text.find('>') + 1));
  return all;
}

/// 1e9 operations and 4e8 bytes in 1 to 4 seconds, of which 2 are the median, and the same twice as fast.
BenchRun of_known_rates() {
  BenchRun run{"0.1.0", "a <processor> & more", {}};
  for (const double factor : {1.0, 0.5}) {
    Measurement m;
    m.c = fa::tool::parse_shape("1,4,2,64,128,32");
    m.c.causal = factor < 1;
    m.kernel = "cpu.generic";
    m.flops = 1e9;
    m.bytes = 4e8;
    for (int i = 0; i < 15; ++i) m.seconds.push_back(factor * (i < 5 ? 1 : i < 10 ? 2 : 4));
    run.measurements.push_back(m);
  }
  return run;
}

TEST_F(BenchPlot, BarsAreTheRatesOfTheCases) {
  const std::string svg = drawn({"--measured", saved("a.json", of_known_rates())});
  EXPECT_EQ(texts(svg, "rate"), (std::vector<std::string>{"0.5", "1.0"}));
  EXPECT_EQ(texts(svg, "shape"), (std::vector<std::string>(2, "1,4,2,64,128,32")));
  EXPECT_EQ(texts(svg, "heading"),
            (std::vector<std::string>{"f32, cpu.generic: GFLOP/s", "f32 causal, cpu.generic: GFLOP/s"}));
  const std::vector<double> bars = widths(svg, "now");
  ASSERT_EQ(bars.size(), 2u);
  EXPECT_NEAR(bars[1], 2 * bars[0], 0.11);
  // The slower case is between 1 / 4 and 1 / 1 GFLOP/s, half and twice its bar.
  const std::vector<std::string> intervals = between(svg, "<path class=\"interval\" d=\"M", "\"");
  ASSERT_EQ(intervals.size(), 2u);
  double low = 0, y = 0, high = 0;
  ASSERT_EQ(std::sscanf(intervals[0].c_str(), "%lf %lfH%lf", &low, &y, &high), 3) << intervals[0];
  const double left = number_of(between(svg, "<rect class=\"now\"", "/>")[0], "x");
  EXPECT_NEAR(low - left, 0.5 * bars[0], 0.11);
  EXPECT_NEAR(high - left, 2 * bars[0], 0.11);
  EXPECT_TRUE(widths(svg, "before").empty());
  EXPECT_NE(svg.find("a &lt;processor&gt; &amp; more, libfa 0.1.0"), svg.npos) << svg;
}

/// Of a call that is bound by memory, next to a plain read at 0.8 GB/s.
TEST_F(BenchPlot, AnotherUnitAndATickWhereMemoryIsTheBound) {
  BenchRun run = of_known_rates();
  run.measurements[1].plain = "read";
  run.measurements[1].plain_bytes = 4e8;
  run.measurements[1].plain_seconds = {0.5, 0.5, 0.5};
  const std::string svg = drawn({"--measured", saved("a.json", run)});
  EXPECT_EQ(texts(svg, "heading"),
            (std::vector<std::string>{"f32, cpu.generic: GFLOP/s", "f32 causal, cpu.generic: GB/s; tick: read"}));
  EXPECT_EQ(texts(svg, "rate"), (std::vector<std::string>{"0.5", "0.4"}));
  const std::vector<std::string> ticks = between(svg, "<path class=\"plain\" d=\"M", " ");
  ASSERT_EQ(ticks.size(), 1u);
  const double left = number_of(between(svg, "<rect class=\"now\"", "/>")[1], "x");
  const std::vector<double> bars = widths(svg, "now");
  ASSERT_EQ(bars.size(), 2u);
  EXPECT_NEAR(std::stod(ticks[0]) - left, 2 * bars[1], 0.11);
  EXPECT_NEAR(bars[0], bars[1], 0.11);  // each is half of its unit's fastest: 1 GFLOP/s and 0.8 GB/s
}

TEST_F(BenchPlot, ABaselineIsAboveEachBar) {
  const std::string before = saved("a.json", made_up(1, 1)), now = saved("b.json", made_up(2, 1.5));
  const std::string svg = drawn({"--compare", before, "--measured", now}, 1);  // the second case is slower
  const std::vector<double> old_bars = widths(svg, "before"), bars = widths(svg, "now");
  ASSERT_EQ(old_bars.size(), 2u);
  ASSERT_EQ(bars.size(), 2u);
  EXPECT_NEAR(old_bars[1], 1.5 * bars[1], 0.1 * bars[1]);
  const std::vector<std::string> rates = texts(svg, "rate");
  ASSERT_EQ(rates.size(), 4u);
  EXPECT_NE(rates[1].find("no difference)"), rates[1].npos) << rates[1];
  EXPECT_NE(rates[3].find(" %: slower)"), rates[3].npos) << rates[3];
  EXPECT_NE(svg.find("gray: the baseline"), svg.npos);
}

TEST_F(BenchPlot, NamesOfAFileAreText) {
  BenchRun run = of_known_rates();
  for (Measurement &m : run.measurements) m.kernel = "<script>\x1b";
  const std::string svg = drawn({"--measured", saved("a.json", run)});
  EXPECT_EQ(svg.find("<script>"), svg.npos) << svg;
  EXPECT_NE(svg.find("&lt;script&gt;\\x1b"), svg.npos) << svg;
}

TEST_F(BenchPlot, RefusesPlacesThatItWouldSpoil) {
  const std::string results = saved("a.json", of_known_rates());
  const auto refusal = [](std::vector<std::string> options) {
    options.insert(options.begin(), {"bench", "--shape", "1,2,1,32,48,16"});
    const Finished f = test::fa(options);
    EXPECT_EQ(f.code, 2) << f.out;
    EXPECT_EQ(f.out, "");
    return f.err;
  };
  EXPECT_NE(refusal({"--measured", results, "--plot", results}).find("a.json: is an input"), std::string::npos);
  EXPECT_NE(refusal({"--compare", results, "--plot", results}).find("a.json: is an input"), std::string::npos);
  EXPECT_NE(refusal({"--json", picture, "--plot", picture}).find("--json and --plot are both"), std::string::npos);
  EXPECT_NE(refusal({"--plot", folder / "none/plot.svg"}).find("none/plot.svg: cannot be"), std::string::npos);
  EXPECT_EQ(folder.names(), std::vector<std::string>{"a.json"});
}

}  // namespace
