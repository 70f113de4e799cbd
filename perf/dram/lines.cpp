#include "perf/dram/lines.h"

#include <algorithm>
#include <map>
#include <sstream>
#include <stdexcept>

namespace fa::dram {
namespace {

[[noreturn]] void refuse(const std::string &what, const std::string &expected) {
  throw std::invalid_argument("got " + what + ", expected " + expected);
}

Gpu gpu_of(std::string name) {
  std::replace(name.begin(), name.end(), '_', ' ');
  std::string known;
  for (const Gpu &gpu : gpus) {
    if (name == gpu.name) return gpu;
    known += (known.empty() ? "" : ", ") + std::string(gpu.name);
  }
  refuse("gpu=" + name, "one of " + known);
}

int64_t number_of(const std::string &word, const std::string &text) {
  size_t used = 0;
  int64_t value = -1;
  try {
    value = std::stoll(text, &used);
  } catch (const std::logic_error &) {
  }
  if (used != text.size() || value < 0 || value > 0x7fffffff) refuse(word, "a number from 0 to 2^31 - 1");
  return value;
}

std::vector<int32_t> lengths_of(const std::string &word, const std::string &text) {
  std::vector<int32_t> lengths;
  std::istringstream parts(text);
  for (std::string part; std::getline(parts, part, ',');)
    lengths.push_back(static_cast<int32_t>(number_of(word, part)));
  return lengths;
}

}  // namespace

Call call_of(const std::string &line) {
  Call call = {};
  int64_t causal = 0, alibi = 0, bias = 0, splits = 0, page = 0, softcap = 0, warpgroups = 0;
  const std::map<std::string, int64_t *> numbers = {
      {"batch", &call.batch},   {"queries", &call.rows_q},    {"keys", &call.rows_k},
      {"heads", &call.heads_q}, {"heads_kv", &call.heads_kv}, {"dim", &call.dim},
      {"dim_v", &call.dim_v},   {"causal", &causal},          {"alibi", &alibi},
      {"bias", &bias},          {"splits", &splits},          {"page", &page},
      {"softcap", &softcap},    {"warpgroups", &warpgroups},
  };
  std::istringstream words(line);
  for (std::string word; words >> word;) {
    const size_t equals = std::min(word.find('='), word.size());
    const std::string key = word.substr(0, equals), value = word.substr(std::min(equals + 1, word.size()));
    if (key == "gpu") {
      call.gpu = gpu_of(value);
    } else if (key == "lengths") {
      call.lengths = lengths_of(word, value);
    } else if (const auto found = numbers.find(key); found != numbers.end()) {
      *found->second = number_of(word, value);
    } else {
      refuse(word, "a word such as gpu=A100 or keys=4096");
    }
  }
  if (call.gpu.name == nullptr) refuse(line, "a line that names a GPU, gpu=A100");
  if (call.heads_kv < 1 || call.heads_q % call.heads_kv != 0 || call.heads_q < 1)
    refuse(line, "heads and heads_kv, of which the former is a multiple");
  if (call.dim < 1 || call.dim > 256) refuse(line, "dim from 1 to 256");
  if (call.dim_v > call.dim) refuse(line, "dim_v of dim at most");
  if (warpgroups != 0 && call.gpu.sm != 90) refuse(line, "warpgroups=1 on an H100 or H200");
  if (call.lengths.empty() && (call.batch < 1 || call.rows_q < 1 || call.rows_k < 1))
    refuse(line, "batch, queries and keys of 1 at least, or lengths");
  call.causal = causal != 0, call.alibi = alibi != 0, call.bias = bias != 0;
  call.splits = static_cast<int32_t>(splits), call.page = static_cast<int32_t>(page);
  call.softcap = static_cast<float>(softcap), call.warpgroups = warpgroups != 0;
  return call;
}

}  // namespace fa::dram
