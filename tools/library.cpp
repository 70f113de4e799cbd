// Thin translations between the library's names and the tool's.
#include "library.h"

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "error.h"

namespace fa::tool {
namespace {

enum class Use { compute, cache, other };

struct DtypeFact {
  fa_dtype dtype;
  const char *name;
  NpyType npy;
};

template <Use last>
std::vector<DtypeFact> facts_up_to() {
  std::vector<DtypeFact> facts;
#define FA_ELEMENT(dtype, number, name, use, bits) \
  if (Use::use <= last) facts.push_back({FA_##dtype, #name, NpyType::name});
#include "core/all_elements.inc"
#undef FA_ELEMENT
  return facts;
}

const std::vector<DtypeFact> dtypes = facts_up_to<Use::cache>();

struct CodesFact {
  fa_dtype dtype;
  const char *name;
};
constexpr CodesFact quantised[] = {
#define FA_CODES(dtype, number, name, kind, elements, bytes) {FA_##dtype, #name},
#include "core/codes.inc"
#undef FA_CODES
};

}  // namespace

void check(fa_status status) {
  if (status == FA_OK) return;
  if (status == FA_ERROR_INVALID_ARGUMENT) throw BadInput(fa_last_error());
  failure("{} ({})", fa_last_error(), fa_status_string(status));
}

Op create_op(const fa_desc &desc) {
  fa_op *op = nullptr;
  check(fa_create(&desc, &op));
  return Op(op);
}

std::vector<fa_kernel> kernels() {
  std::vector<fa_kernel> list;
  for (int32_t i = 0; i < fa_kernel_count(); ++i) {
    fa_kernel kernel = {};
    kernel.struct_size = sizeof kernel;
    check(fa_kernel_info(i, &kernel));
    list.push_back(kernel);
  }
  return list;
}

std::string forced_kernel() {
  const char *name = std::getenv("FA_FORCE_KERNEL");
  return name ? name : "";
}

void force_kernel(const std::string &name) {
  static const std::string at_start = forced_kernel();
  if (name.empty()) {
    setenv("FA_FORCE_KERNEL", at_start.c_str(), 1);  // empty is as good as unset
    return;
  }
  std::vector<std::string> names;
  for (const fa_kernel &kernel : kernels()) names.emplace_back(kernel.name);
  if (std::find(names.begin(), names.end(), name) == names.end()) {
    bad_input("no kernel is named '{}'; there are {}", name, fmt::join(names, ", "));
  }
  setenv("FA_FORCE_KERNEL", name.c_str(), 1);
}

std::vector<std::string> compute_dtypes() {
  std::vector<std::string> names;
  for (const DtypeFact &d : facts_up_to<Use::compute>()) names.emplace_back(d.name);
  return names;
}

std::vector<std::string> cache_dtypes() {
  std::vector<std::string> names;
  for (const DtypeFact &d : dtypes) names.emplace_back(d.name);
  return names;
}

std::vector<std::string> storage_dtypes() {
  std::vector<std::string> names = cache_dtypes();
  for (const CodesFact &q : quantised) names.emplace_back(q.name);
  return names;
}

const char *storage_name(fa_dtype dtype) {
  for (const CodesFact &q : quantised) {
    if (q.dtype == dtype) return q.name;
  }
  return dtype_name(dtype);
}

fa_dtype storage_of_name(const std::string &name) {
  for (const CodesFact &q : quantised) {
    if (name == q.name) return q.dtype;
  }
  return dtype_of_name(name);
}

const char *dtype_name(fa_dtype dtype) {
  for (const DtypeFact &d : dtypes) {
    if (d.dtype == dtype) return d.name;
  }
  return "";
}

fa_dtype dtype_of_name(const std::string &name) {
  for (const DtypeFact &d : dtypes) {
    if (name == d.name) return d.dtype;
  }
  return FA_DTYPE_DEFAULT;
}

fa_dtype dtype_of(NpyType type) {
  for (const DtypeFact &d : dtypes) {
    if (d.npy == type) return d.dtype;
  }
  return FA_DTYPE_DEFAULT;
}

NpyType npy_type_of(fa_dtype dtype) {
  for (const DtypeFact &d : dtypes) {
    if (d.dtype == dtype) return d.npy;
  }
  return NpyType::f32;
}

}  // namespace fa::tool
