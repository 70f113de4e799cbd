// `fa bench`: measures, keeps, compares; the verdict on made-up measurements.
#include <fa.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <sstream>

#include "arrays.h"
#include "bench_fixture.h"
#include "bench_report.h"
#include "error.h"
#include "program.h"
#include "temporary.h"

namespace {

using nlohmann::json;
using test::Finished;
using test::save;
using namespace fa::tool;

/// Five products where forward has two.
TEST_F(Bench, Backward) {
  const Finished f = test::fa({"bench", "--backward", "--shape", "1,2,1,32,48,16", "--dtype", "f32", "--kernel",
                               "cpu.generic", "--rounds", "1", "--time", "0", "--json", folder / "b.json"});
  ASSERT_EQ(f.code, 0) << f.err;
  EXPECT_NE(f.out.find("f32 backward, cpu.generic\n  1,2,1,32,48,16 "), f.out.npos) << f.out;
  const std::vector<std::byte> bytes = read_text_file(folder / "b.json");
  const json kept = json::parse(std::string(reinterpret_cast<const char *>(bytes.data()), bytes.size()));
  EXPECT_EQ(kept.at("results").at(0).at("backward"), true);
  EXPECT_EQ(kept.at("results").at(0).at("flops"), 5 * 2 * 16 * 2 * 32 * 48);
}

/// Values may have other columns, as 192/128 has: three products of five are as wide as queries.
TEST_F(Bench, ColumnsOfValues) {
  for (const bool backward : {false, true}) {
    std::vector<std::string> words = {"bench",    "--shape",     "1,2,1,32,48,24,16", "--dtype", "f32",
                                      "--kernel", "cpu.generic", "--rounds",          "1",       "--time",
                                      "0",        "--json",      folder / "v.json"};
    if (backward) words.push_back("--backward");
    const Finished f = test::fa(words);
    ASSERT_EQ(f.code, 0) << f.err;
    EXPECT_NE(f.out.find("  1,2,1,32,48,24,16 "), f.out.npos) << f.out;
    const std::vector<std::byte> bytes = read_text_file(folder / "v.json");
    const std::string text(reinterpret_cast<const char *>(bytes.data()), bytes.size());
    EXPECT_EQ(json::parse(text).at("results").at(0).at("flops"),
              2 * 2 * 32 * 48 * (backward ? 3 * 24 + 2 * 16 : 24 + 16));
    EXPECT_EQ(parse_bench_run(text, "v.json").measurements.at(0).c.dim_v, 16);
  }
}

/// Sums in any order are another case than those in a fixed one, in files too.
TEST_F(Bench, Nondeterministic) {
  const std::string file = folder / "n.json";
  const Finished f = test::fa({"bench", "--backward", "--nondeterministic", "--shape", "1,2,1,32,48,16", "--dtype",
                               "f32", "--kernel", "cpu.generic", "--rounds", "1", "--time", "0", "--json", file});
  ASSERT_EQ(f.code, 0) << f.err;
  EXPECT_NE(f.out.find("f32 backward nondeterministic, cpu.generic\n"), f.out.npos) << f.out;
  const std::vector<std::byte> bytes = read_text_file(file);
  const std::string text(reinterpret_cast<const char *>(bytes.data()), bytes.size());
  EXPECT_EQ(json::parse(text).at("results").at(0).at("nondeterministic"), true);
  EXPECT_TRUE(parse_bench_run(text, "n.json").measurements.at(0).c.nondeterministic);
  EXPECT_EQ(compare(file, file).code, 0);
}

/// Three parts of 2*32 rows of 16 numbers are read, and one is written.
TEST_F(Bench, Merge) {
  const std::string file = folder / "m.json";
  const Finished f = test::fa({"bench", "--merge", "3", "--shape", "1,2,1,32,48,24,16", "--dtype", "bf16", "--kernel",
                               "cpu.generic", "--rounds", "1", "--time", "0", "--json", file});
  ASSERT_EQ(f.code, 0) << f.err;
  EXPECT_NE(f.out.find("bf16 merge=3, cpu.generic\n  1,2,1,32,48,24,16 "), f.out.npos) << f.out;
  const std::vector<std::byte> bytes = read_text_file(file);
  const std::string text(reinterpret_cast<const char *>(bytes.data()), bytes.size());
  const json kept = json::parse(text).at("results").at(0);
  EXPECT_EQ(kept.at("merge"), 3);
  EXPECT_EQ(kept.at("flops"), 2 * 3 * 2 * 32 * 16);
  EXPECT_EQ(kept.at("bytes"), (3 + 1) * 2 * 32 * (2 * 16 + 4));
  EXPECT_EQ(parse_bench_run(text, "m.json").measurements.at(0).c.merge, 3);
  EXPECT_EQ(compare(file, file).code, 0);
}

TEST_F(Bench, RefusesMergesThatAreNone) {
  for (const char *flag : {"--causal", "--backward", "--nondeterministic"}) {
    const Finished f = test::fa({"bench", "--merge", "2", flag, "--shape", "1,2,1,32,48,16"});
    EXPECT_EQ(f.code, 2) << flag;
    EXPECT_NE(f.err.find("--merge"), f.err.npos) << f.err;
  }
  for (const char *parts : {"0", "33", "two"}) EXPECT_EQ(test::fa({"bench", "--merge", parts}).code, 2) << parts;
  BenchRun run = made_up(1, 1);
  run.measurements[0].c.merge = 33;
  const Finished f = test::fa({"bench", "--measured", saved("a.json", run)});
  EXPECT_EQ(f.code, 2);
  EXPECT_NE(f.err.find("its 'merge' is not within 0..32"), f.err.npos) << f.err;
}

TEST_F(Bench, MeasuresKeepsAndComparesAgain) {
  const std::vector<std::string> quick = {"--rounds", "6", "--time", "0.001"};
  std::vector<std::string> options = {"bench",     "--shape",  "1,2,1,32,48,16", "--shape",        "2,2,2,16,16,8",
                                      "--dtype",   "f32,bf16", "--causal",       "--kernel",       "cpu.generic",
                                      "--threads", "1",        "--json",         folder / "b.json"};
  options.insert(options.end(), quick.begin(), quick.end());
  Finished f = test::fa(options);
  ASSERT_EQ(f.code, 0) << f.err;
  for (const char *part : {"f32 causal threads=1, cpu.generic\n  1,2,1,32,48,16 ", "\n  2,2,2,16,16,8 ",
                           "bf16 causal threads=1, cpu.generic\n", "GFLOP/s"}) {
    EXPECT_NE(f.out.find(part), f.out.npos) << f.out;
  }
  const std::vector<std::byte> bytes = read_text_file(folder / "b.json");
  const json kept = json::parse(std::string(reinterpret_cast<const char *>(bytes.data()), bytes.size()));
  ASSERT_EQ(kept.at("results").size(), 4u);
  const json &first = kept.at("results").at(0);
  EXPECT_EQ(first.at("seconds").size(), 6u);
  // Causal: query i of 32 attends the first i + 17 of 48 keys, twice 4 * 16 operations each, on 2 heads.
  int64_t pairs = 0;
  for (int i = 0; i < 32; ++i) pairs += i + 17;
  EXPECT_EQ(first.at("flops").get<double>(), static_cast<double>(2 * pairs * 4 * 16));
  // Queries and results of 2 heads, keys and values of one, of 16 elements each.
  EXPECT_EQ(first.at("bytes").get<double>(), 4.0 * 16 * 2 * (32 * 2 + 48));
  EXPECT_LE(first.at("interval_95_seconds").at(0).get<double>(), first.at("median_seconds").get<double>());

  std::vector<std::string> again = {"bench", "--compare", folder / "b.json", "--threshold", "1000"};
  again.insert(again.end(), quick.begin(), quick.end());
  f = test::fa(again);
  EXPECT_EQ(f.code, 0) << f.out << f.err;
  EXPECT_NE(f.out.find("no difference"), f.out.npos) << f.out;
}

TEST_F(Bench, VerdictOnNoise) {
  const Finished f = compare(saved("a.json", made_up(1, 1)), saved("b.json", made_up(2, 1)));
  EXPECT_EQ(f.code, 0) << f.out << f.err;
  EXPECT_EQ(f.out.find("slower"), f.out.npos) << f.out;
  EXPECT_EQ(f.out.find("faster"), f.out.npos) << f.out;
  EXPECT_NE(f.out.find("no difference"), f.out.npos) << f.out;
}

TEST_F(Bench, VerdictOnChange) {
  const std::string a = saved("a.json", made_up(1, 1)), b = saved("b.json", made_up(2, 1.15));
  const Finished slower = compare(a, b), faster = compare(b, a);
  EXPECT_EQ(slower.code, 1);
  EXPECT_NE(slower.out.find("no difference"), slower.out.npos) << slower.out;
  EXPECT_NE(slower.out.find("slower"), slower.out.npos) << slower.out;
  EXPECT_EQ(faster.code, 0);
  EXPECT_NE(faster.out.find("faster"), faster.out.npos) << faster.out;
}

TEST_F(Bench, TellsWhatElseDiffers) {
  BenchRun other = made_up(2, 1);
  other.cpu = "another processor";
  other.version = "0.2.0";
  other.measurements[0].kernel = "cpu.other";
  const Finished f = compare(saved("a.json", made_up(1, 1)), saved("b.json", other));
  for (const char *part : {"measured on a processor, this on another processor", "library 0.2.0 against 0.1.0",
                           "cpu.generic before, cpu.other now"}) {
    EXPECT_NE(f.out.find(part), f.out.npos) << f.out;
  }
}

TEST_F(Bench, KeepsEverythingInJson) {
  const BenchRun run = made_up(1, 1), back = parse_bench_run(json_of(run), "x");
  ASSERT_EQ(back.measurements.size(), run.measurements.size());
  for (size_t i = 0; i < run.measurements.size(); ++i) {
    EXPECT_EQ(back.measurements[i].c, run.measurements[i].c);
    EXPECT_EQ(back.measurements[i].seconds, run.measurements[i].seconds);
    EXPECT_EQ(back.measurements[i].flops, run.measurements[i].flops);
  }
}

/// One measurement whose every figure is another number: 4e9 operations and 3e7 bytes in 1 to 5 ms.
BenchRun of_known_figures() {
  BenchRun run{"0.1.0", "a processor", {}};
  Measurement m;
  m.c = parse_shape("1,4,2,64,128,32");
  m.kernel = "cpu.generic";
  m.flops = 4e9;
  m.bytes = 3e7;
  for (int i = 0; i < 15; ++i) m.seconds.push_back(1e-3 * (i < 5 ? 1 : i < 10 ? 2 : 5));
  run.measurements.push_back(m);
  return run;
}

TEST_F(Bench, EachFigureOfTheTableIsInItsColumn) {
  const Finished f = test::fa({"bench", "--measured", saved("a.json", of_known_figures())});
  ASSERT_EQ(f.code, 0) << f.err;
  std::istringstream lines(f.out);
  std::string titles, heading, line;
  std::getline(lines, titles);
  std::getline(lines, heading);
  std::getline(lines, line);
  // The text at the right end of each title, or at its left end.
  const auto ending_at = [&](const std::string &title) {
    const size_t end = titles.find(title) + title.size(), begin = line.rfind(' ', end - 1) + 1;
    return line.substr(begin, end - begin);
  };
  const auto beginning_at = [&](const std::string &title) {
    const size_t begin = titles.find(title);
    return line.substr(begin, line.find("  ", begin) - begin);
  };
  EXPECT_EQ(heading, "f32, cpu.generic");
  EXPECT_EQ(beginning_at("B,Hq,Hkv,Sq,Sk,D"), "1,4,2,64,128,32") << f.out;
  EXPECT_EQ(line.substr(titles.find("median") - 4, 10), "   2.00 ms") << f.out;
  EXPECT_EQ(beginning_at("95 % within"), "[1.00 ms, 5.00 ms]") << f.out;
  EXPECT_EQ(ending_at("GFLOP/s"), "2000.0") << f.out;  // 4e9 / 2 ms
  EXPECT_EQ(ending_at("GB/s"), "15.0") << f.out;       // 3e7 / 2 ms
}

/// For all shapes, kernels and notes on a case.
TEST_F(Bench, TablesFit80ColumnsAndStayInLine) {
  BenchRun before = of_known_figures();
  const Measurement one = before.measurements[0];
  before.measurements.clear();
  for (const char *shape : {"1,4,2,64,128,32", "1,32,8,1,32768,128", "1,64,64,1000000,1000000,192,128"}) {
    for (const bool long_names : {false, true}) {
      Measurement m = one;
      m.c = parse_shape(shape);
      m.c.causal = m.c.backward = m.c.nondeterministic = long_names;
      m.c.threads = long_names ? 128 : 0;
      m.kernel = long_names ? "cuda.sm_100a.tcgen05" : "cpu.generic";
      before.measurements.push_back(m);
    }
  }
  BenchRun now = before;
  for (Measurement &m : now.measurements) m.kernel = "cuda.sm_100a.mma";
  const std::string a = saved("a.json", before), b = saved("b.json", now);
  for (const Finished &f : {test::fa({"bench", "--measured", a}), compare(a, b)}) {
    std::istringstream lines(f.out);
    std::string titles;
    std::getline(lines, titles);
    const size_t interval = titles.find("95 % within");
    int rows = 0;
    for (std::string line; std::getline(lines, line);) {
      EXPECT_LE(line.size(), 80u) << line;
      if (line.find('[') == line.npos) continue;
      EXPECT_EQ(line.find('['), interval) << f.out;
      ++rows;
    }
    EXPECT_EQ(rows, 6) << f.out;
  }
}

TEST_F(Bench, EachFigureOfTheJsonHasItsName) {
  const json result = json::parse(json_of(of_known_figures())).at("results").at(0);
  EXPECT_EQ(result.at("shape"), "1,4,2,64,128,32");
  EXPECT_EQ(result.at("dtype"), "f32");
  EXPECT_EQ(result.at("causal"), false);
  EXPECT_EQ(result.at("kernel"), "cpu.generic");
  EXPECT_DOUBLE_EQ(result.at("flops").get<double>(), 4e9);
  EXPECT_DOUBLE_EQ(result.at("bytes").get<double>(), 3e7);
  EXPECT_DOUBLE_EQ(result.at("median_seconds").get<double>(), 2e-3);
  EXPECT_DOUBLE_EQ(result.at("interval_95_seconds").at(0).get<double>(), 1e-3);
  EXPECT_DOUBLE_EQ(result.at("interval_95_seconds").at(1).get<double>(), 5e-3);
  EXPECT_DOUBLE_EQ(result.at("gflops").get<double>(), 2000);
}

/// "before" and "now", and the change between them, which has a direction.
TEST_F(Bench, EachFigureOfTheComparisonIsInItsColumn) {
  BenchRun before = of_known_figures(), now = before;
  for (size_t i = 0; i < 15; ++i) {
    before.measurements[0].seconds[i] = 2e-3 + 1e-6 * (double(i) - 7);
    now.measurements[0].seconds[i] = 3 * before.measurements[0].seconds[i];
  }
  const Finished f = compare(saved("a.json", before), saved("b.json", now));
  EXPECT_EQ(f.code, 1);
  std::istringstream lines(f.out);
  std::string titles, heading, line;
  std::getline(lines, titles);
  std::getline(lines, heading);
  std::getline(lines, line);
  const auto right_end = [&](const std::string &title, size_t width) {
    return line.substr(titles.find(title) + title.size() - width, width);
  };
  EXPECT_EQ(right_end("before", 7), "2.00 ms") << f.out;
  EXPECT_EQ(right_end("now", 7), "6.00 ms") << f.out;
  EXPECT_EQ(right_end("change", 8), "+200.0 %") << f.out;
}

TEST_F(Bench, RefusesBaselinesThatAreNone) {
  const std::string good = saved("a.json", made_up(1, 1));
  const auto result = [](const char *fields) {
    return std::string(R"({"format": "fa bench 1", "version": "", "cpu": "", "results": [)") + fields + "]}";
  };
  for (const auto &[text, part] : std::vector<std::pair<std::string, std::string>>{
           {"", "it is empty"},
           {"{", "from its byte 2 on it is not JSON"},
           {"[]", "there is no 'format'"},
           {"{}", "there is no 'format'"},
           {R"({"format": 1})", "its 'format' is not a text"},
           {R"({"format": "other"})", "its 'format' is 'other', not 'fa bench 1'"},
           {R"({"format": "fa bench 1", "version": 1, "cpu": "", "results": []})", "its 'version' is not a text"},
           {R"({"format": "fa bench 1", "version": "", "cpu": "", "results": {}})", "its 'results' is not a list"},
           {result("{}"), "in result 1, there is no 'shape'"},
           {result("7"), "in result 1, there is no 'shape'"},
           {result(R"({"shape": "1,2"})"), "in result 1, --shape is '1,2'"}}) {
    const Finished f = compare(save(folder / "bad.json", text), good);
    EXPECT_EQ(f.code, 2) << text;
    EXPECT_NE(f.err.find("bad.json: is not a file of `fa bench --json`: " + part), f.err.npos) << f.err;
  }
  json no_times = json::parse(json_of(made_up(1, 1)));
  no_times["results"][0]["seconds"] = json::array({1.0, 0.0});
  EXPECT_EQ(compare(save(folder / "bad.json", no_times.dump()), good).code, 2);
  BenchRun other = made_up(1, 1);
  for (Measurement &m : other.measurements) m.c.dim = 7;
  const Finished f = compare(saved("other.json", other), good);
  EXPECT_EQ(f.code, 2);
  EXPECT_NE(f.err.find("nothing to compare"), f.err.npos) << f.err;
  EXPECT_EQ(compare(folder / "missing.json", good).code, 2);
}

TEST_F(Bench, RefusesShapesThatAreNone) {
  for (const char *shape : {"1,2,3", "1,2,2,0,4,8", "a,b", "1,2,2,4,4,8,0", "1,2,2,4,4,8,9,9"}) {
    const Finished f = test::fa({"bench", "--shape", shape});
    EXPECT_EQ(f.code, 2);
    EXPECT_NE(f.err.find("--shape is '"), f.err.npos) << f.err;
  }
  const Finished heads = test::fa({"bench", "--shape", "1,3,2,4,4,8", "--json", folder / "b.json"});
  EXPECT_EQ(heads.code, 2);  // the library's own words
  EXPECT_EQ(folder.names(), std::vector<std::string>{});
}

TEST_F(Bench, PrintsTheTableThoughTheFileCannotBeKept) {
  const Finished f = test::fa(
      {"bench", "--shape", "1,2,1,32,48,16", "--dtype", "f32", "--rounds", "1", "--time", "0", "--json", "/dev/full"});
  EXPECT_EQ(f.code, 1);
  EXPECT_NE(f.out.find("  1,2,1,32,48,16 "), f.out.npos) << f.out;
  EXPECT_NE(f.err.find("/dev/full: cannot be written: No space left on device"), f.err.npos) << f.err;
}

/// A socket can be opened by nobody.
TEST_F(Bench, AFileThatCannotBeOpenedIsFoundBeforeTheWork) {
  const std::string path = folder / "s";
  struct sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  ASSERT_LT(path.size(), sizeof address.sun_path);
  path.copy(address.sun_path, path.size());
  const int socket_there = socket(AF_UNIX, SOCK_STREAM, 0);
  ASSERT_EQ(bind(socket_there, reinterpret_cast<struct sockaddr *>(&address), sizeof address), 0);
  const Finished f = test::fa(
      {"bench", "--shape", "1,2,1,32,48,16", "--dtype", "f32", "--rounds", "1", "--time", "0", "--json", path});
  close(socket_there);
  EXPECT_EQ(f.code, 2);
  EXPECT_EQ(f.out, "");
  EXPECT_NE(f.err.find(path + ": cannot be written: "), f.err.npos) << f.err;
}

TEST_F(Bench, SaysWhatDoesNotFitIntoMemory) {
  for (const bool backward : {false, true}) {
    std::vector<std::string> words = {
        "bench", "--shape", "1,2,1,32,48,16", "--shape", "1,64,64,1000000000,1000000000,128", "--dtype", "f32"};
    if (backward) words.push_back("--backward");
    const Finished f = test::fa(words);
    EXPECT_EQ(f.code, 1);
    EXPECT_NE(f.err.find(std::string("1,64,64,1000000000,1000000000,128 f32") + (backward ? " backward" : "") +
                         ": out of memory: its tensors have " + (backward ? "262 TB" : "131 TB")),
              f.err.npos)
        << f.err;
    const std::string before = backward ? "28.9 kB" : "14.3 kB";
    EXPECT_NE(f.err.find(" and those of the cases before it " + before + ", and "), f.err.npos) << f.err;
  }
}

TEST(Sweeps, AllHaveShapes) {
  for (const std::string &name : sweep_names()) {
    EXPECT_GE(sweep(name).size(), 3u) << name;
    for (const BenchCase &c : sweep(name)) EXPECT_EQ(parse_shape(shape_of(c)), c);
  }
}

}  // namespace
