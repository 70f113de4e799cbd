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
  fa_dtype dtype_kv = FA_DTYPE_DEFAULT;  // of k and v, or of the cache that is appended to: as dtype
  bool causal = false;
  bool backward = false;
  bool nondeterministic = false;
  bool append = false;  // the last rows_q of rows_k rows are appended
  bool hadamard_k = false, hadamard_v = false;
  bool cold = false;    // keys, values and caches come from memory
  int32_t merge = 0;    // how many results of this shape are merged; 0: an attention
  int32_t threads = 0;  // 0: the library's default
  std::string kernel;   // forced; "": the library's choice

  fa_dtype cache() const { return dtype_kv ? dtype_kv : dtype; }
  /// Whether moving its data takes most of its time, which is then compared with merely moving it.
  bool bound_by_memory() const { return append || (rows_q <= 16 && !merge && !backward); }

  bool operator==(const BenchCase &) const = default;
};

/// "1,8,8,1024,1024,64"; "1,8,8,1024,1024,192,128" where values have other columns.
std::string shape_of(const BenchCase &c);

/// "f32 causal", all but the shape and the kernel.
std::string kind_of(const BenchCase &c);

/// "1,8,8,1024,1024,64 f32 causal", without the kernel: equal for measurements that can be compared.
std::string name_of(const BenchCase &c);

/// The bytes of a call's tensors, with gradients and their inputs; of a merge's parts and result; of the rows that an
/// append reads and writes.
double tensor_bytes(const BenchCase &c);

/// Whether codes of this type have scales, f32 and one a token and head: not blocks.
bool is_scaled(fa_dtype dtype);

/// The bytes of a call's keys and values, or of the cache that is appended to, with their scales.
double cache_bytes(const BenchCase &c);

/// The number of these in a case: in a cold one enough that each has left the CPU's caches before its next call.
int64_t caches_of(const BenchCase &c);

/// The bytes of the target of a memcpy that an append is compared with.
double copy_bytes(const BenchCase &c);

/// The bytes of everything that a case keeps in memory.
double memory_bytes(const BenchCase &c);

/// B,Hq,Hkv,Sq,Sk,D[,Dv]. Throws BadInput.
BenchCase parse_shape(const std::string &text);

/// The names of the sweeps, and the shapes of one.
const std::vector<std::string> &sweep_names();
std::vector<BenchCase> sweep(const std::string &name);

}  // namespace fa::tool
