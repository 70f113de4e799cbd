// The C library as the tool uses it: errors as exceptions, ops that end themselves, names for dtypes.
#pragma once

#include <fa.h>

#include <memory>
#include <string>
#include <vector>

#include "npy.h"

namespace fa::tool {

/// Throws the library's error when status is one: BadInput for arguments that can never work, else Failure.
void check(fa_status status);

struct OpDeleter {
  void operator()(fa_op *op) const { fa_destroy(op); }
};
using Op = std::unique_ptr<fa_op, OpDeleter>;

/// fa_create. Throws BadInput or Failure.
Op create_op(const fa_desc &desc);

/// Every kernel in the library, best first.
std::vector<fa_kernel> kernels();

/// Makes the ops created from now on use this kernel; "" leaves it to the environment that the program was started in.
/// Throws BadInput for a name that the library does not have.
void force_kernel(const std::string &name);

/// The kernel that is forced now, "" when none is.
std::string forced_kernel();

/// The types of queries and results: "f32", "f16", "bf16".
std::vector<std::string> compute_dtypes();
/// The types of keys and values.
std::vector<std::string> cache_dtypes();

/// Those and the quantised ones, "i8", "q4_0".
std::vector<std::string> storage_dtypes();

/// "f32" or "i8", and back; FA_DTYPE_DEFAULT is "".
const char *storage_name(fa_dtype dtype);
fa_dtype storage_of_name(const std::string &name);

/// "f32" and back; FA_DTYPE_DEFAULT is "".
const char *dtype_name(fa_dtype dtype);
fa_dtype dtype_of_name(const std::string &name);

/// The dtype in which a file's elements go to the library, FA_DTYPE_DEFAULT for a type that attention does not take.
fa_dtype dtype_of(NpyType type);
NpyType npy_type_of(fa_dtype dtype);

}  // namespace fa::tool
