// Shapes as text, and the sweeps.
#include "bench_case.h"

#include <fmt/format.h>

#include "error.h"
#include "library.h"
#include "options.h"
#include "reference/number.h"

namespace fa::tool {

std::string shape_of(const BenchCase &c) {
  return fmt::format("{},{},{},{},{},{}{}", c.batch, c.heads_q, c.heads_kv, c.rows_q, c.rows_k, c.dim,
                     c.dim_v == c.dim ? "" : fmt::format(",{}", c.dim_v));
}

std::string kind_of(const BenchCase &c) {
  return fmt::format("{}{}{}{}{}{}", dtype_name(c.dtype), c.merge ? fmt::format(" merge={}", c.merge) : "",
                     c.causal ? " causal" : "", c.backward ? " backward" : "",
                     c.nondeterministic ? " nondeterministic" : "",
                     c.threads ? fmt::format(" threads={}", c.threads) : "");
}

std::string name_of(const BenchCase &c) {
  return fmt::format("{} {}", shape_of(c), kind_of(c));
}

double tensor_bytes(const BenchCase &c) {
  const auto of = [](auto... sizes) { return (1.0 * ... * static_cast<double>(sizes)); };
  if (c.merge) {
    const double rows = of(c.batch, c.rows_q, c.heads_q);
    return (c.merge + 1) * rows * (static_cast<double>(c.dim_v * reference::dtype_bytes(c.dtype)) + sizeof(float));
  }
  const double inputs = of(c.batch, c.rows_q, c.heads_q, c.dim) + of(c.batch, c.rows_k, c.heads_kv, c.dim + c.dim_v);
  const double bytes = (inputs + of(c.batch, c.rows_q, c.heads_q, c.dim_v)) * reference::dtype_bytes(c.dtype);
  return c.backward ? 2 * bytes + 4 * of(c.batch, c.heads_q, c.rows_q) : bytes;
}

BenchCase parse_shape(const std::string &text) {
  const std::vector<int64_t> n = parse_integers("--shape", text, 6, 7, "B,Hq,Hkv,Sq,Sk,D[,Dv]");
  for (const int64_t each : n) {
    if (each < 1 || each > int64_t{1} << 30) bad_input("--shape is '{}'; each number is at least 1", text);
  }
  BenchCase c;
  c.batch = n[0], c.heads_q = n[1], c.heads_kv = n[2], c.rows_q = n[3], c.rows_k = n[4], c.dim = n[5];
  c.dim_v = n.back();
  return c;
}

const std::vector<std::string> &sweep_names() {
  static const std::vector<std::string> names = {"quick", "prefill", "decode", "dims"};
  return names;
}

std::vector<BenchCase> sweep(const std::string &name) {
  std::vector<BenchCase> cases;
  const auto add = [&](const char *shape) { cases.push_back(parse_shape(shape)); };
  if (name == "quick") {
    for (const char *shape : {"1,8,8,512,512,64", "1,8,8,1024,1024,128", "1,32,8,1,4096,128"}) add(shape);
  } else if (name == "prefill") {
    for (const int64_t dim : {64, 128}) {
      for (const int64_t rows : {128, 512, 1024, 2048, 4096}) add(fmt::format("1,8,8,{0},{0},{1}", rows, dim).c_str());
    }
  } else if (name == "decode") {
    for (const int64_t keys : {512, 2048, 8192, 32768}) add(fmt::format("1,32,8,1,{},128", keys).c_str());
  } else if (name == "dims") {
    for (const int64_t dim : {32, 64, 80, 96, 128, 192, 256}) add(fmt::format("1,8,8,1024,1024,{}", dim).c_str());
  }
  return cases;
}

}  // namespace fa::tool
