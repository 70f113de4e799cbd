// C++: the MiniLM layers of minilm.c, one call for each paragraph: views of the packed tensors, so that nothing is
// copied, and paragraphs that may be computed in any order.
//
//   paragraphs data
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <fa.hpp>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

constexpr int heads = 12, dim = 32, row = heads * dim;

struct Half {
  std::uint16_t bits;
};

// The elements of a .npy file of format 1, whose header says how long it is.
template <class T>
std::vector<T> read_npy(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  const std::vector<char> bytes{std::istreambuf_iterator<char>(file), {}};
  if (bytes.size() < 10) throw std::runtime_error(path + ": cannot be read; the argument is the folder examples/data");
  const auto length = [&](int i) { return std::size_t(static_cast<unsigned char>(bytes[std::size_t(i)])); };
  const std::size_t begin = 10 + length(8) + 256 * length(9);
  std::vector<T> data((bytes.size() - begin) / sizeof(T));
  std::copy(bytes.begin() + std::ptrdiff_t(begin), bytes.end(), reinterpret_cast<char *>(data.data()));
  return data;
}

}  // namespace

template <>
struct fa::dtype_of<Half> {
  static constexpr fa_dtype value = FA_F16;
};

int main(int argc, char **argv) try {
  const std::string folder = argc > 1 ? argv[1] : "data";
  const auto starts = read_npy<std::int32_t>(folder + "/cu_seqlens.npy");

  fa::Desc desc;
  desc.dtype_q = FA_F16;
  desc.dtype_out = FA_F32;
  desc.head_dim = dim;
  const fa::Op attention(desc);

  float worst = 0;
  for (const std::string layer : {"/layer0_", "/layer5_"}) {
    const auto q = read_npy<Half>(folder + layer + "q.npy"), k = read_npy<Half>(folder + layer + "k.npy"),
               v = read_npy<Half>(folder + layer + "v.npy");
    const auto reference = read_npy<float>(folder + layer + "out.npy");
    std::vector<float> out(reference.size());
    for (std::size_t paragraph = 0; paragraph + 1 < starts.size(); ++paragraph) {
      const int first = starts[paragraph], tokens = starts[paragraph + 1] - first;
      const auto part = [&](auto &tensor) { return fa::tensor(tensor.data() + first * row, 1, tokens, heads, dim); };
      fa::ForwardArgs args;
      args.q = part(q);
      args.k = part(k);
      args.v = part(v);
      args.out = part(out);
      attention(args);
    }
    for (std::size_t i = 0; i < out.size(); ++i) {
      const float error = std::fabs(out[i] - reference[i]);
      if (!(error <= worst) && !std::isnan(worst)) worst = error;  // a NaN stays
    }
  }
  std::printf("%zu paragraphs on %s: largest error %.1e\n", starts.size() - 1, attention.kernel(), double(worst));
  return worst < 2e-3f ? 0 : 1;
} catch (const std::exception &error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
