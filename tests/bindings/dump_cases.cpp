// dump_cases FOLDER: the shared case list for languages that cannot call reference/, as cases.txt and cases.bin.
// Every feature of fa.h alone over plain cases in changing element types, calls that fa.h refuses, and the oracle's
// results of each.
//
// cases.txt has one fact a line, words between spaces; everything not named has its default. cases.bin holds the bytes.
//
//   case NUMBER NAME          begins a case
//   text ...                  how to repeat it: fa run --case '...'
//   desc FIELD VALUE          a field of fa_desc
//   args FIELD VALUE          a field of fa_forward_args that is a number
//   tensor FIELD DTYPE S0 S1 S2 S3 T0 T1 T2 T3 OFFSET BYTES FIRST
//                             a tensor of fa_forward_args: fa_dtype, shape, strides in elements; its memory is BYTES at
//                             OFFSET of cases.bin, gaps included, and element (0, 0, 0, 0) is FIRST bytes behind the
//                             memory's start
//   array FIELD OFFSET COUNT  an array of int32_t of fa_forward_args
//   workspace                 the caller gives one
//   refused NAME...           FA_ERROR_INVALID_ARGUMENT, by a text that holds these names; nothing is written
//   want FIELD OFFSET COUNT   of out or lse: COUNT doubles that are expected, in the order of the indices, then COUNT
//   doubles
//                             that bound the error; a bound of -1: the element is not written. NaN and Inf must be met
//   end                       ends the case
//
// Memory that a call does not write, gaps included, must hold the same bytes afterwards.
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <vector>

#include "engine/features.h"
#include "reference/compare.h"
#include "reference/instance.h"
#include "reference/number.h"

namespace test {
using namespace reference;
namespace {

struct Types {
  fa_dtype q, kv, out;
};

constexpr Types types[] = {{FA_F32, FA_DTYPE_DEFAULT, FA_DTYPE_DEFAULT},
                           {FA_F16, FA_DTYPE_DEFAULT, FA_DTYPE_DEFAULT},
                           {FA_BF16, FA_DTYPE_DEFAULT, FA_DTYPE_DEFAULT},
                           {FA_F32, FA_BF16, FA_F16},
                           {FA_F32, FA_F16, FA_DTYPE_DEFAULT},
                           {FA_BF16, FA_F32, FA_F32}};

class Dump {
 public:
  explicit Dump(const std::string &folder) : text_(folder + "/cases.txt"), bytes_(folder + "/cases.bin") {
    text_.exceptions(std::ios::badbit | std::ios::failbit);
    bytes_.exceptions(std::ios::badbit | std::ios::failbit);
  }

  void add(Case c, const std::string &name) {
    const Types &t = types[count_ % std::size(types)];
    c.q = t.q, c.kv = t.kv, c.out = t.out;
    c.seed = ++count_;
    const Instance instance(c);
    text_ << "case " << count_ << " " << name << "\ntext " << to_text(c) << "\n";
    desc(instance.desc);
    args(instance);
    if (c.workspace) text_ << "workspace\n";
    if (const auto names = refused(c); !names.empty()) {
      text_ << "refused";
      for (const std::string &part : names) text_ << " " << part;
      text_ << "\n";
    } else {
      expected(instance);
    }
    text_ << "end\n";
  }

  void finish() {
    text_.flush();
    bytes_.flush();
    std::printf("%zu cases, %zu bytes\n", size_t(count_), size_);
  }

 private:
  size_t append(const void *data, size_t bytes) {
    const size_t at = (size_ + 63) / 64 * 64;
    const std::vector<char> gap(at - size_);
    bytes_.write(gap.data(), std::streamsize(gap.size()));
    bytes_.write(static_cast<const char *>(data), std::streamsize(bytes));
    size_ = at + bytes;
    return at;
  }

  template <class T>
  void number(const char *structure, const char *field, T value, T standard) {
    if (value == standard) return;
    char text[40];
    std::snprintf(text, sizeof text, "%.9g", double(value));
    text_ << structure << " " << field << " " << text << "\n";
  }

  void desc(const fa_desc &d) {
    fa_desc standard;
    fa_desc_init(&standard, sizeof standard);
#define FIELD(name) number("desc", #name, d.name, standard.name)
    FIELD(device), FIELD(device_index), FIELD(dtype_q), FIELD(dtype_kv), FIELD(dtype_out), FIELD(mask);
    FIELD(head_dim), FIELD(head_dim_v), FIELD(window_left), FIELD(window_right), FIELD(attention_chunk);
    FIELD(softmax_scale), FIELD(softcap), FIELD(flags), FIELD(num_threads);
#undef FIELD
  }

  void tensor(const char *field, const Tensor &t) {
    if (!t) return;
    const fa_tensor view = t.view();
    const std::vector<char> bytes = t.bytes();
    text_ << "tensor " << field << " " << view.dtype;
    for (const int64_t size : view.shape) text_ << " " << size;
    for (const int64_t stride : view.stride) text_ << " " << stride;
    const auto first = view.data ? static_cast<const char *>(view.data) - t.memory() : 0;
    text_ << " " << append(bytes.data(), bytes.size()) << " " << bytes.size() << " " << first << "\n";
  }

  void array(const char *field, const GuardedInts &a) {
    if (a.size()) text_ << "array " << field << " " << append(a.data(), a.size() * 4) << " " << a.size() << "\n";
  }

  void args(const Instance &i) {
#define FA_TENSOR(name, ...) tensor(#name, i.name);
#define FA_ARRAY(name, ...) array(#name, i.name);
    FA_FORWARD_FIELDS(FA_TENSOR, FA_ARRAY, FA_NOTHING)
#undef FA_TENSOR
#undef FA_ARRAY
#define FIELD(name) number("args", #name, i.args.name, {})
    FIELD(num_seqs), FIELD(max_seqlen_q), FIELD(max_seqlen_k), FIELD(num_splits);
#undef FIELD
  }

  void want(const char *field, std::vector<double> values, const std::vector<double> &bounds) {
    const size_t count = values.size();
    values.insert(values.end(), bounds.begin(), bounds.end());
    text_ << "want " << field << " " << append(values.data(), values.size() * sizeof(double)) << " " << count << "\n";
  }

  void expected(const Instance &instance) {
    const reference::Result r = reference::attention(instance.desc, instance.args);
    std::vector<double> values, bounds;
    instance.out.each([&](int64_t b, int64_t i, int64_t h, int64_t d, int64_t) {
      values.push_back(r.out[size_t(r.element(b, i, h, d))]);
      bounds.push_back(r.written[size_t(r.row(b, i))] ? out_bound(instance.c, r, r.head(b, i, h), d) : -1);
    });
    want("out", values, bounds);
    if (!instance.lse) return;
    values.clear(), bounds.clear();
    instance.lse.each([&](int64_t b, int64_t h, int64_t i, int64_t, int64_t) {
      values.push_back(r.lse[size_t(r.head(b, i, h))]);
      bounds.push_back(r.written[size_t(r.row(b, i))] ? lse_bound(instance.c, r, r.head(b, i, h)) : -1);
    });
    want("lse", values, bounds);
  }

  std::ofstream text_;
  std::ofstream bytes_;
  size_t size_ = 0;
  uint64_t count_ = 0;
};

void dump(const std::string &folder) {
  Dump dump(folder);
  for (const Case &base : bases()) {
    dump.add(base, "plain");
    for (const Feature &feature : features()) {
      Case c = base;
      feature.add(&c);
      dump.add(c, feature.name);
    }
  }
  for (size_t i = 0; i < features().size(); ++i) {
    for (size_t j = i + 1; j < features().size(); ++j) {
      const Feature &a = features()[i], &b = features()[j];
      if (std::string(a.group) == b.group) continue;
      Case c = bases()[0];
      a.add(&c);
      b.add(&c);
      if (!refused(c).empty()) dump.add(c, std::string(a.name) + "_with_" + b.name);
    }
  }
  Case empty;
  empty.b = 0;
  dump.add(empty, "no_sequence");
  empty = Case{};
  empty.sk = 0, empty.sinks = "h", empty.sq = 3;
  dump.add(empty, "no_key");
  dump.finish();
}

}  // namespace
}  // namespace test

int main(int argc, char **argv) try {
  if (argc != 2) throw std::runtime_error("usage: dump_cases FOLDER");
  test::dump(argv[1]);
  return 0;
} catch (const std::exception &error) {
  std::fprintf(stderr, "dump_cases: %s\n", error.what());
  return 1;
}
