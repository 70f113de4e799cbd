// The C++ face of the installed package: an op that ends itself, a result, and an error that is thrown.
#include <cmath>
#include <cstring>
#include <fa.hpp>

int main() {
  const float q[4] = {1, 2, 3, 4}, k[4] = {1, 1, 1, 1}, v[4] = {5, 6, 7, 8};
  float out[4] = {0, 0, 0, 0};
  fa::Desc desc;
  desc.dtype_q = FA_F32;
  desc.head_dim = 4;
  const fa::Op op(desc);

  fa::ForwardArgs args;
  args.q = fa::tensor(q, 1, 1, 1, 4);
  args.k = fa::tensor(k, 1, 1, 1, 4);
  args.v = fa::tensor(v, 1, 1, 1, 4);
  args.out = fa::tensor(out, 1, 1, 1, 4);
  op(args);
  for (int d = 0; d < 4; ++d) {
    if (std::fabs(out[d] - v[d]) > 1e-5f) return 1;  // one key: its value
  }

  desc.head_dim = -1;
  try {
    const fa::Op refused(desc);
  } catch (const fa::Error &error) {
    return error.status() == FA_ERROR_INVALID_ARGUMENT && std::strstr(error.what(), "head_dim") ? 0 : 2;
  }
  return 3;
}
