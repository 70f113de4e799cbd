// C++: one op shared by all layers of a model, each of which attends within a window to its packed QKV projection. The
// projection is one buffer (batch, sequence, 3, heads, dim); q, k and v are strided views of it, and nothing is copied.
#include <cmath>
#include <cstdio>
#include <fa.hpp>
#include <vector>

namespace {

constexpr int batch = 2, sequence = 100, heads = 4, dim = 64, window = 16;
constexpr int row = 3 * heads * dim;  // elements from one token's projection to the next

// One of the three parts of the projection as a (batch, sequence, heads, dim) tensor.
fa_tensor part(const std::vector<float> &qkv, int which) {
  return fa::strided(fa::tensor(qkv.data() + which * heads * dim, batch, sequence, heads, dim), sequence * row, row, dim, 1);
}

}  // namespace

int main() try {
  fa::Desc desc;
  desc.dtype_q = FA_F32;
  desc.head_dim = dim;
  desc.mask = FA_MASK_CAUSAL;
  desc.window_left = window;
  const fa::Op attention(desc);  // immutable: any thread may call it

  std::vector<float> qkv(batch * sequence * row), out(batch * sequence * heads * dim), lse(batch * heads * sequence);
  for (int layer = 0; layer < 3; ++layer) {
    for (size_t i = 0; i < qkv.size(); ++i) qkv[i] = std::sin(float(i % 1013) * 0.1f + float(layer));
    fa::ForwardArgs args;
    args.q = part(qkv, 0);
    args.k = part(qkv, 1);
    args.v = part(qkv, 2);
    args.out = fa::tensor(out.data(), batch, sequence, heads, dim);
    args.lse = fa::tensor(lse.data(), batch, heads, sequence, 1);
    attention(args);
    std::printf("layer %d on %s: out[0] = %.4f, lse[0] = %.4f\n", layer, attention.kernel(), out[0], lse[0]);

    // The first token of a causal sequence attends itself alone: its output is its value.
    if (std::fabs(out[0] - qkv[2 * heads * dim]) > 1e-5f) return 1;
  }
  return 0;
} catch (const fa::Error &error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
