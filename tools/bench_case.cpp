// Shapes as text, their sizes in memory, and the sweeps.
#include "bench_case.h"

#include <fmt/format.h>

#include <algorithm>

#include "error.h"
#include "library.h"
#include "machine.h"
#include "options.h"
#include "reference/codes.h"

namespace fa::tool {

std::string shape_of(const BenchCase &c) {
  return fmt::format("{},{},{},{},{},{}{}", c.batch, c.heads_q, c.heads_kv, c.rows_q, c.rows_k, c.dim,
                     c.dim_v == c.dim ? "" : fmt::format(",{}", c.dim_v));
}

std::string kind_of(const BenchCase &c) {
  const std::string rotated = std::string(c.hadamard_k ? "k" : "") + (c.hadamard_v ? "v" : "");
  return fmt::format("{}{}{}{}{}{}{}{}{}{}", dtype_name(c.dtype),
                     c.dtype_kv ? fmt::format(" kv={}", storage_name(c.dtype_kv)) : "",
                     rotated.empty() ? "" : " hadamard=" + rotated, c.append ? " append" : "",
                     c.merge ? fmt::format(" merge={}", c.merge) : "", c.causal ? " causal" : "",
                     c.backward ? " backward" : "", c.nondeterministic ? " nondeterministic" : "",
                     c.cold ? " cold" : "", c.threads ? fmt::format(" threads={}", c.threads) : "");
}

std::string name_of(const BenchCase &c) {
  return fmt::format("{} {}", shape_of(c), kind_of(c));
}

namespace {

double product(auto... sizes) {
  return (1.0 * ... * static_cast<double>(sizes));
}

/// Bytes of rows of keys and values in the cache.
double stored_bytes(const BenchCase &c, int64_t rows) {
  const int64_t factors =
      is_scaled(c.cache()) ? (reference::middle_code(c.cache()) != 0 ? 2 : 1) * int64_t{sizeof(float)} : 0;
  const int64_t row = reference::row_bytes(c.cache(), c.dim) + reference::row_bytes(c.cache(), c.dim_v) + 2 * factors;
  return product(c.batch, rows, c.heads_kv, row);
}

}  // namespace

bool is_scaled(fa_dtype dtype) {
  return reference::codes_of(dtype) && !reference::codes_of(dtype)->block;
}

double cache_bytes(const BenchCase &c) {
  return stored_bytes(c, c.rows_k);
}

double tensor_bytes(const BenchCase &c) {
  const int64_t element = reference::dtype_bytes(c.dtype);
  if (c.append) return stored_bytes(c, c.rows_q) + product(c.batch, c.rows_q, c.heads_kv, c.dim + c.dim_v, element);
  const double rows = product(c.batch, c.rows_q, c.heads_q);
  if (c.merge) return (c.merge + 1) * rows * static_cast<double>(c.dim_v * element + int64_t{sizeof(float)});
  const double bytes = cache_bytes(c) + rows * static_cast<double>((c.dim + c.dim_v) * element);
  return c.backward ? 2 * bytes + 4 * rows : bytes;
}

int64_t caches_of(const BenchCase &c) {
  // Odd: calls and plain reads that alternate both come by each.
  return c.cold ? static_cast<int64_t>(static_cast<double>(cold_bytes()) / cache_bytes(c)) | 1 : 1;
}

double copy_bytes(const BenchCase &c) {
  return std::max(tensor_bytes(c) / 2, c.cold ? static_cast<double>(cold_bytes()) : 0);
}

double memory_bytes(const BenchCase &c) {
  if (c.merge || c.backward) return tensor_bytes(c);
  const double caches = static_cast<double>(caches_of(c)) * cache_bytes(c);
  if (!c.append) return tensor_bytes(c) + caches - cache_bytes(c);
  return 1.5 * tensor_bytes(c) + caches + copy_bytes(c);  // half of them are memcpy's source
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
  static const std::vector<std::string> names = {"quick", "prefill", "decode", "tokens", "dims"};
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
  } else if (name == "tokens") {
    for (const int64_t tokens : {1, 2, 4, 8, 16}) add(fmt::format("1,32,8,{},8192,128", tokens).c_str());
  } else if (name == "dims") {
    for (const int64_t dim : {32, 64, 80, 96, 128, 192, 256}) add(fmt::format("1,8,8,1024,1024,{}", dim).c_str());
  }
  return cases;
}

}  // namespace fa::tool
