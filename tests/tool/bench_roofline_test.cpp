// `fa bench --roofline`: lines and points, read back from the SVG, are those of the ceilings and the cases.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "bench_fixture.h"
#include "file.h"
#include "svg_parts.h"

namespace {

using fa::tool::BenchRun;
using fa::tool::Measurement;
using test::between;
using test::Finished;

class BenchRoofline : public Bench {
 protected:
  const std::string picture = folder / "roofline.svg";

  Finished drawn(std::vector<std::string> options) {
    options.insert(options.begin(), "bench");
    options.insert(options.end(), {"--roofline", picture});
    return test::fa(options);
  }

  std::string svg() {
    const std::vector<std::byte> bytes = fa::tool::read_text_file(picture);
    return std::string(reinterpret_cast<const char *>(bytes.data()), bytes.size());
  }
};

/// Ceilings of 100 GFLOP/s and 10 GB/s, and cases of 1 and 100 operations a byte at 5 and 50 GFLOP/s.
BenchRun of_known_ceilings() {
  BenchRun run{"0.1.0", "a <processor>", {}, {{"f32", {90, 100, 110}}, {"memory", {9, 10, 11}}}};
  for (const double intensity : {1.0, 100.0}) {
    Measurement m;
    m.c = fa::tool::parse_shape("1,4,2,64,128,32");
    m.kernel = "cpu.generic";
    m.bytes = 1e9 / intensity;
    m.flops = 1e9;
    m.seconds = {intensity > 1 ? 0.02 : 0.2};
    run.measurements.push_back(m);
  }
  return run;
}

std::vector<std::string> texts(const std::string &svg, const std::string &of) {
  std::vector<std::string> all;
  for (const std::string &text : between(svg, "<text class=\"" + of + "\"", "</text>"))
    all.push_back(text.substr(text.find('>') + 1));
  return all;
}

std::array<double, 2> point(const std::string &svg, size_t i) {
  std::array<double, 2> at = {-1, -1};
  const std::vector<std::string> all = between(svg, "<circle class=\"case\" cx=\"", " r=");
  EXPECT_LT(i, all.size()) << svg;
  if (i < all.size()) {
    EXPECT_EQ(std::sscanf(all[i].c_str(), "%lf\" cy=\"%lf\"", &at[0], &at[1]), 2) << all[i];
  }
  return at;
}

TEST_F(BenchRoofline, PointsAndLines) {
  const Finished f = drawn({"--measured", saved("a.json", of_known_ceilings())});
  EXPECT_EQ(f.code, 0) << f.err;
  EXPECT_NE(f.out.find("ceiling of f32 products: 100.0 GFLOP/s [90.0, 110.0]\n"), f.out.npos) << f.out;
  EXPECT_NE(f.out.find("ceiling of reading memory: 10.0 GB/s [9.0, 11.0]\n"), f.out.npos) << f.out;
  const std::string text = svg();
  EXPECT_EQ(texts(text, "part"), (std::vector<std::string>{"50 %", "50 %"}));
  EXPECT_EQ(texts(text, "rate"), (std::vector<std::string>{"5.0 GFLOP/s", "50.0 GFLOP/s"}));
  EXPECT_NE(text.find(">of memory<"), text.npos);
  EXPECT_NE(text.find(">of products<"), text.npos);
  EXPECT_NE(text.find("a &lt;processor&gt;, libfa 0.1.0"), text.npos) << text;

  // Two decades of operations and one of rates between the points; the line of products half as far again above the
  // second.
  const auto one = point(text, 0), two = point(text, 1);
  const double decade_x = 0.5 * (two[0] - one[0]), decade_y = one[1] - two[1];
  double x = 0, y = 0, right = 0;
  const std::vector<std::string> products = between(text, "<path class=\"products\" d=\"M", "\"");
  ASSERT_EQ(products.size(), 1u);
  ASSERT_EQ(std::sscanf(products[0].c_str(), "%lf %lfH%lf", &x, &y, &right), 3) << products[0];
  EXPECT_NEAR(two[1] - y, std::log10(2) * decade_y, 0.2);
  EXPECT_NEAR(x - one[0], decade_x, 0.2);  // the ridge, 10 operations a byte
  double x0 = 0, y0 = 0, x1 = 0, y1 = 0;
  const std::vector<std::string> memory = between(text, "<path class=\"memory\" d=\"M", "\"");
  ASSERT_EQ(memory.size(), 1u);
  ASSERT_EQ(std::sscanf(memory[0].c_str(), "%lf %lfL%lf %lf", &x0, &y0, &x1, &y1), 4) << memory[0];
  EXPECT_NEAR(x1, x, 0.2);
  EXPECT_NEAR(y1, y, 0.2);
  EXPECT_NEAR((y0 - y1) / decade_y, (x1 - x0) / decade_x, 0.01);  // 10 times the operations, 10 times the rate
}

TEST_F(BenchRoofline, MeasuresTheCeilings) {
  const std::string json = folder / "run.json";
  const Finished f = drawn({"--shape", "1,2,1,32,48,16", "--dtype", "f32,bf16", "--threads", "1", "--rounds", "2",
                            "--time", "0.001", "--json", json});
  EXPECT_EQ(f.code, 0) << f.err;
  const std::vector<std::byte> bytes = fa::tool::read_text_file(json);
  const auto saved = nlohmann::json::parse(reinterpret_cast<const char *>(bytes.data()),
                                           reinterpret_cast<const char *>(bytes.data()) + bytes.size());
  ASSERT_GE(saved.at("ceilings").size(), 2u);
  EXPECT_EQ(saved.at("ceilings").front().at("name"), "f32");
  EXPECT_EQ(saved.at("ceilings").back().at("name"), "memory");
  for (const auto &ceiling : saved.at("ceilings")) {
    ASSERT_EQ(ceiling.at("rates").size(), 2u);
    EXPECT_GT(ceiling.at("rates")[0].get<double>(), 0);
  }
  EXPECT_EQ(between(svg(), "<circle", "/>").size(), 2u);
  EXPECT_EQ(drawn({"--measured", json}).code, 0);  // the file has all that the picture takes
}

TEST_F(BenchRoofline, Refusals) {
  const auto refused = [this](std::vector<std::string> options, const char *text) {
    const Finished f = drawn(std::move(options));
    EXPECT_EQ(f.code, 2) << f.out;
    EXPECT_NE(f.err.find(text), f.err.npos) << f.err;
  };
  refused({"--measured", saved("a.json", made_up(1, 1))},
          "--roofline: the results have no ceilings; expected those of a run");
  BenchRun of_gpu = of_known_ceilings();
  for (Measurement &m : of_gpu.measurements) m.kernel = "cuda.sm_80.mma";
  refused({"--measured", saved("b.json", of_gpu)}, "--roofline: no case has products on the CPU");
  BenchRun threads = made_up(1, 1);
  threads.measurements[0].c.threads = 1, threads.measurements[1].c.threads = 3;
  refused({"--compare", saved("c.json", threads)}, "--roofline: cases have 1 and 3 threads");
  refused({"--plot", picture}, "--plot and --roofline are both");
  BenchRun wrong = of_known_ceilings();
  wrong.ceilings[0].rates = {-1};
  refused({"--measured", saved("d.json", wrong)}, "its 'rates' are not a list of positive numbers");
}

}  // namespace
