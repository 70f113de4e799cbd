// The cases of `fa bench`: shapes, given or from a sweep.
#pragma once

#include <fa.h>

#include <cstdint>
#include <string>
#include <vector>

namespace fa::tool {

struct BenchCase {
  int64_t batch = 1, heads_q = 8, heads_kv = 8, rows_q = 1024, rows_k = 1024, dim = 64, dim_v = 64;
  fa_dtype dtype = FA_F32;
  bool causal = false;
  bool backward = false;
  bool nondeterministic = false;
  int32_t merge = 0;    // how many results of this shape are merged; 0: an attention
  int32_t threads = 0;  // 0: the library's default
  std::string kernel;   // forced; "": the library's choice

  bool operator==(const BenchCase &) const = default;
};

/// "1,8,8,1024,1024,64"; "1,8,8,1024,1024,192,128" where values have other columns.
std::string shape_of(const BenchCase &c);

/// "f32 causal", all but the shape and the kernel.
std::string kind_of(const BenchCase &c);

/// "1,8,8,1024,1024,64 f32 causal", without the kernel: equal for measurements that can be compared.
std::string name_of(const BenchCase &c);

/// Of the tensors of a call, with gradients and their inputs; of a merge, the parts and the result.
double tensor_bytes(const BenchCase &c);

/// B,Hq,Hkv,Sq,Sk,D[,Dv]. Throws BadInput.
BenchCase parse_shape(const std::string &text);

/// The names of the sweeps, and the shapes of one.
const std::vector<std::string> &sweep_names();
std::vector<BenchCase> sweep(const std::string &name);

}  // namespace fa::tool
