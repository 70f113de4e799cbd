// `fa bench` of appends and of quantised caches: the bytes counted, the plain move of memory next to them.
#include <fa.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "arrays.h"
#include "bench_fixture.h"
#include "bench_measure.h"
#include "bench_report.h"
#include "error.h"
#include "machine.h"
#include "program.h"
#include "temporary.h"

namespace {

using nlohmann::json;
using test::Finished;
using test::save;
using namespace fa::tool;

/// The result of a quick run with these options, as JSON.
json quick_result(const test::TemporaryFolder &folder, std::vector<std::string> options, std::string *table) {
  const std::string file = folder / "q.json";
  options.insert(options.begin(), "bench");
  for (const char *each : {"--kernel", "cpu.generic", "--rounds", "2", "--time", "0", "--json"})
    options.emplace_back(each);
  options.push_back(file);
  const Finished f = test::fa(options);
  EXPECT_EQ(f.code, 0) << f.err;
  *table = f.out;
  const std::vector<std::byte> bytes = read_text_file(file);
  const std::string text(reinterpret_cast<const char *>(bytes.data()), bytes.size());
  const BenchRun back = parse_bench_run(text, "q.json");
  EXPECT_EQ(json_of(back), text);
  EXPECT_EQ(test::fa({"bench", "--compare", file, "--measured", file}).code, 0);
  return json::parse(text).at("results").at(0);
}

/// Each type of a cache: the bytes of 3 * 5 new rows of 2 heads of 64 and 32 numbers, in bf16 and as they are stored.
TEST_F(Bench, Append) {
  const int64_t rows = 3 * 5 * 2, given = rows * (64 + 32) * 2;
  for (const auto &[type, stored] : std::vector<std::pair<std::string, int64_t>>{{"bf16", (64 + 32) * 2},
                                                                                 {"i8", 64 + 32 + 8},
                                                                                 {"e4m3", 64 + 32 + 8},
                                                                                 {"e5m2", 64 + 32 + 8},
                                                                                 {"i4", 32 + 16 + 8},
                                                                                 {"u4", 32 + 16 + 16},
                                                                                 {"q8_0", 3 * 34},
                                                                                 {"q4_0", 3 * 18}}) {
    std::string table;
    const json kept = quick_result(
        folder, {"--append", "--shape", "3,4,2,5,40,64,32", "--dtype", "bf16", "--dtype-kv", type}, &table);
    const std::string kind = "bf16" + (type == "bf16" ? "" : " kv=" + type) + " append, cpu.generic\n";
    EXPECT_NE(table.find(kind + "  3,4,2,5,40,64,32 "), table.npos) << table;
    EXPECT_NE(table.find(" % of memcpy "), table.npos) << table;
    EXPECT_EQ(kept.at("append"), true);
    EXPECT_EQ(kept.at("dtype_kv"), type);
    EXPECT_EQ(kept.at("flops"), 0);
    EXPECT_EQ(kept.at("bytes"), given + rows * stored) << type;
    EXPECT_EQ(kept.at("plain").at("name"), "memcpy");
    EXPECT_EQ(kept.at("plain").at("bytes"), given + rows * stored);
    EXPECT_EQ(kept.at("plain").at("seconds").size(), 2u);
  }
}

/// Decode reads codes and scales; prefill is compared with no read.
TEST_F(Bench, QuantisedCaches) {
  std::string table;
  const json decode =
      quick_result(folder, {"--shape", "2,4,2,3,40,64,32", "--dtype", "f16", "--dtype-kv", "i4"}, &table);
  const int64_t cache = 2 * 40 * 2 * (32 + 16 + 2 * 4), others = 2 * 3 * 4 * (64 + 32) * 2;
  EXPECT_NE(table.find("f16 kv=i4, cpu.generic\n  2,4,2,3,40,64,32 "), table.npos) << table;
  EXPECT_NE(table.find(" % of a plain read "), table.npos) << table;
  EXPECT_EQ(decode.at("bytes"), cache + others);
  EXPECT_EQ(decode.at("plain").at("bytes"), cache);
  EXPECT_EQ(decode.at("flops"), 2 * (64 + 32) * 2 * 4 * 3 * 40);
  const json prefill =
      quick_result(folder, {"--shape", "1,1,1,17,40,64", "--dtype", "f32", "--dtype-kv", "q8_0"}, &table);
  EXPECT_FALSE(prefill.contains("plain"));
  EXPECT_EQ(prefill.at("bytes"), 40 * 2 * 2 * 34 + 17 * 128 * 4);
}

/// The rotation is of both calls, has its word, and is kept: by a file, which a run compares with the same calls.
TEST_F(Bench, RotatedCaches) {
  std::string table;
  const json decode = quick_result(
      folder, {"--shape", "2,4,2,3,40,64,32", "--dtype", "f16", "--dtype-kv", "i4", "--hadamard-k", "--hadamard-v"},
      &table);
  EXPECT_NE(table.find("f16 kv=i4 hadamard=kv, cpu.generic\n"), table.npos) << table;
  EXPECT_EQ(decode.at("hadamard_k"), true);
  EXPECT_EQ(decode.at("hadamard_v"), true);
  const json append =
      quick_result(folder, {"--append", "--shape", "1,1,1,4,8,32", "--dtype", "f32", "--hadamard-v"}, &table);
  EXPECT_NE(table.find("f32 hadamard=v append, cpu.generic\n"), table.npos) << table;
  EXPECT_EQ(append.at("hadamard_k"), false);
  BenchRun run = made_up(1, 1);
  run.measurements.resize(1);
  run.measurements[0].c.hadamard_k = true;
  EXPECT_EQ(parse_bench_run(json_of(run), "run.json").measurements[0].c, run.measurements[0].c);
}

/// The plain move's line has its own figures: 20 us of 30 MB are 40 % of a call's 50 us.
TEST_F(Bench, PlainMovesHaveALine) {
  BenchRun run = made_up(1, 1);
  run.measurements.resize(1);
  Measurement &m = run.measurements[0];
  m.c.append = m.c.cold = true;
  m.c.dtype_kv = FA_I8;
  m.seconds.assign(15, 50e-6);
  m.plain = "memcpy", m.plain_bytes = 3e7, m.plain_seconds.assign(15, 20e-6);
  const Finished f = test::fa({"bench", "--measured", saved("a.json", run)});
  EXPECT_EQ(f.code, 0) << f.err;
  EXPECT_NE(f.out.find("f32 kv=i8 append cold, cpu.generic\n"), f.out.npos) << f.out;
  const size_t line = f.out.find("    40 % of memcpy ");
  ASSERT_NE(line, f.out.npos) << f.out;
  EXPECT_NE(f.out.find("20.0 us", line), f.out.npos) << f.out;
  EXPECT_NE(f.out.find(" 1500.0\n", line), f.out.npos) << f.out;
}

/// Cold cases are measured one after another, so that memory for one of them suffices; others in common rounds.
TEST_F(Bench, MemoryIsForOneColdCase) {
  BenchCase c;
  c.batch = c.heads_q = c.heads_kv = c.rows_q = 1, c.dim = c.dim_v = 64, c.dtype = FA_F32;
  c.rows_k = static_cast<int64_t>(0.6 * free_memory()) / (2 * 64 * 4);
  const auto measured = [](const std::vector<BenchCase> &cases) {
    return measure(cases, {}, [](int64_t, int64_t, const BenchCase &) {}, [] { return true; }).size();
  };
  EXPECT_THROW(measured({c, c}), Failure);
  c.cold = true;
  EXPECT_EQ(measured({c, c}), 0u);
}

TEST_F(Bench, RefusesAppendsAndCachesThatAreNone) {
  for (const auto &[options, part] : std::vector<std::pair<std::vector<std::string>, std::string>>{
           {{"--append", "--merge", "2"}, "--append goes with no --merge"},
           {{"--append", "--causal"}, "--append goes with no --merge, --causal"},
           {{"--append", "--backward"}, "--append goes with no"},
           {{"--append", "--shape", "1,1,1,5,4,64"}, "5 new rows (Sq) do not fit into a cache of 4 (Sk)"},
           {{"--merge", "2", "--dtype-kv", "i8"}, "--merge goes with no --dtype-kv"},
           {{"--hadamard-k", "--merge", "2"}, "--hadamard-k and --hadamard-v go with no --merge or --backward"},
           {{"--hadamard-v", "--backward"}, "--hadamard-k and --hadamard-v go with no --merge or --backward"},
           {{"--cold", "--merge", "2"}, "--cold goes with no --merge"},
           {{"--cold", "--backward"}, "--cold goes with no --merge or --backward"},
           {{"--dtype-kv", "i9"}, "--dtype-kv is 'i9'; one of f32, f16, bf16, i8, e4m3, e5m2, i4, u4, q8_0, q4_0 is"},
           {{"--dtype-kv", "q8_0", "--shape", "1,1,1,1,8,40"}, "rows of q8_0 have a multiple of 32 elements"},
           {{"--dtype-kv", "i4", "--shape", "1,1,1,1,8,32,31"}, "rows of i4 have a multiple of 2 elements"},
           {{"--dtype-kv", "i8", "--backward", "--shape", "1,1,1,1,8,32"}, "quantised k"}}) {
    std::vector<std::string> words = options;
    words.insert(words.begin(), "bench");
    const Finished f = test::fa(words);
    EXPECT_EQ(f.code, 2) << part;
    EXPECT_NE(f.err.find(part), f.err.npos) << f.err;
  }
  json bad = json::parse(json_of(made_up(1, 1)));
  bad["results"][0]["dtype_kv"] = "i9";
  const Finished f = test::fa({"bench", "--measured", save(folder / "bad.json", bad.dump())});
  EXPECT_EQ(f.code, 2);
  EXPECT_NE(f.err.find("its 'dtype_kv' is not one of f32, f16, bf16, i8"), f.err.npos) << f.err;
}

/// Files of earlier versions have no type of the cache and no plain move.
TEST_F(Bench, ReadsFilesWithoutCaches) {
  json old = json::parse(json_of(made_up(1, 1)));
  for (const char *key : {"dtype_kv", "append", "cold", "hadamard_k", "hadamard_v"}) old["results"][0].erase(key);
  const BenchCase c = parse_bench_run(old.dump(), "old.json").measurements[0].c;
  EXPECT_EQ(c, made_up(1, 1).measurements[0].c);
}

}  // namespace
