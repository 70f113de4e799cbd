// Causal attention of 4 query heads over 2 key/value heads, and its gradients, in C++. Reads q, k, v and dout from
// files of the current folder and writes out, lse, dq, dk and dv.
//
//   c++ client.cpp $(pkg-config --cflags --libs fa)
#include <cstdio>
#include <exception>
#include <fa.hpp>
#include <fstream>
#include <string>
#include <vector>

namespace {

constexpr int batch = 2, queries = 5, keys = 9, heads = 4, kv_heads = 2, dim = 16;
constexpr std::size_t q_size = batch * queries * heads * dim, k_size = batch * keys * kv_heads * dim;

std::vector<float> read(const std::string &name, std::size_t n) {
  std::vector<float> x(n);
  std::ifstream file(name, std::ios::binary);
  file.exceptions(std::ios::failbit | std::ios::badbit);
  file.read(reinterpret_cast<char *>(x.data()), static_cast<std::streamsize>(n * sizeof(float)));
  return x;
}

void write(const std::string &name, const std::vector<float> &x) {
  std::ofstream file(name, std::ios::binary);
  file.exceptions(std::ios::failbit | std::ios::badbit);
  file.write(reinterpret_cast<const char *>(x.data()), static_cast<std::streamsize>(x.size() * sizeof(float)));
}

void attention() {
  const std::vector<float> q = read("q.f32", q_size), k = read("k.f32", k_size), v = read("v.f32", k_size);
  const std::vector<float> dout = read("dout.f32", q_size);
  std::vector<float> out(q_size), lse(batch * heads * queries), dq(q_size), dk(k_size), dv(k_size);

  fa::Desc desc;
  desc.dtype_q = FA_F32;
  desc.head_dim = dim;
  desc.mask = FA_MASK_CAUSAL;
  const fa::Op op(desc);

  fa::ForwardArgs args;
  args.q = fa::tensor(q.data(), batch, queries, heads, dim);
  args.k = fa::tensor(k.data(), batch, keys, kv_heads, dim);
  args.v = fa::tensor(v.data(), batch, keys, kv_heads, dim);
  args.out = fa::tensor(out.data(), batch, queries, heads, dim);
  args.lse = fa::tensor(lse.data(), batch, heads, queries);  // the backward pass reads it
  op(args);

  fa::BackwardArgs backward;
  backward.q = args.q;
  backward.k = args.k;
  backward.v = args.v;
  backward.out = args.out;
  backward.lse = args.lse;
  backward.dout = fa::tensor(dout.data(), batch, queries, heads, dim);
  backward.dq = fa::tensor(dq.data(), batch, queries, heads, dim);
  backward.dk = fa::tensor(dk.data(), batch, keys, kv_heads, dim);
  backward.dv = fa::tensor(dv.data(), batch, keys, kv_heads, dim);
  op.backward(backward);

  write("out.f32", out);
  write("lse.f32", lse);
  write("dq.f32", dq);
  write("dk.f32", dk);
  write("dv.f32", dv);
}

}  // namespace

int main() {
  try {
    attention();
  } catch (const std::exception &error) {  // an fa::Error among them
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
