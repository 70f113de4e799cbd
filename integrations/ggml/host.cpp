#include "host.h"

#include <dlfcn.h>

#include <cstring>
#include <memory>

namespace fa_ggml {
namespace {

struct Named {
  int number;
  const char *name;
};

struct Sized {
  ggml_type type;
  const char *name;
  size_t size;  // bytes of a block
  int64_t elements;
};

constexpr Named operations[] = {{GGML_OP_NONE, "NONE"},           {GGML_OP_RESHAPE, "RESHAPE"},
                                {GGML_OP_VIEW, "VIEW"},           {GGML_OP_PERMUTE, "PERMUTE"},
                                {GGML_OP_TRANSPOSE, "TRANSPOSE"}, {GGML_OP_FLASH_ATTN_EXT, "FLASH_ATTN_EXT"}};
constexpr Sized types[] = {{GGML_TYPE_F32, "f32", 4, 1},
                           {GGML_TYPE_F16, "f16", 2, 1},
                           {GGML_TYPE_BF16, "bf16", 2, 1},
                           {GGML_TYPE_Q8_0, "q8_0", 34, 32},
                           {GGML_TYPE_Q4_0, "q4_0", 18, 32}};

std::string quoted(const char *text) {
  return text ? std::string("\"").append(text).append("\"") : "nothing";
}

std::string compare_operations(const Host &host) {
  // No function returns the number of operations: the loop ends at the last name that is looked for, which each ggml
  // has.
  int number = 0;
  for (const Named &expected : operations) {
    while (std::strcmp(host.ggml_op_name(ggml_op(number)), expected.name) != 0) {
      if (std::strcmp(host.ggml_op_name(ggml_op(number)), "FLASH_ATTN_EXT") == 0) {
        return "ggml's operations are in another order: " + std::string(expected.name) +
               " is not before FLASH_ATTN_EXT";
      }
      ++number;
    }
    if (number != expected.number) {
      return "operation " + std::string(expected.name) + " is number " + std::to_string(number) +
             " of the ggml that runs, and " + std::to_string(expected.number) + " of the headers";
    }
  }
  return "";
}

std::string compare_types(const Host &host) {
  for (const Sized &expected : types) {
    const char *name = host.ggml_type_name(expected.type);
    if (!name || std::strcmp(name, expected.name) != 0) {
      return "type " + std::to_string(expected.type) + " of the ggml that runs is " + quoted(name) + ", and \"" +
             expected.name + "\" of the headers";
    }
    if (host.ggml_type_size(expected.type) != expected.size ||
        host.ggml_blck_size(expected.type) != expected.elements) {
      return "type " + std::string(expected.name) + " has " + std::to_string(host.ggml_type_size(expected.type)) +
             " bytes for " + std::to_string(host.ggml_blck_size(expected.type)) +
             " elements in the ggml that runs; expected " + std::to_string(expected.size) + " for " +
             std::to_string(expected.elements);
    }
  }
  return "";
}

// The fields of a tensor that this backend reads, where ggml has written them.
std::string compare_tensor(const Host &host) {
  const size_t header = 32;  // of an object in a context
  if (host.ggml_tensor_overhead() != sizeof(ggml_tensor) + header) {
    return "a tensor has " + std::to_string(host.ggml_tensor_overhead() - header) +
           " bytes in the ggml that runs, and " + std::to_string(sizeof(ggml_tensor)) + " in the headers";
  }
  const ggml_init_params room = {16 * host.ggml_tensor_overhead(), nullptr, true};
  const std::unique_ptr<ggml_context, decltype(host.ggml_free)> context(host.ggml_init(room), host.ggml_free);
  if (!context) return "ggml_init failed";
  ggml_context *c = context.get();
  ggml_tensor *q = host.ggml_new_tensor_4d(c, GGML_TYPE_F32, 64, 3, 4, 2);
  ggml_tensor *k = host.ggml_new_tensor_4d(c, GGML_TYPE_Q8_0, 64, 5, 2, 2);
  ggml_tensor *v = host.ggml_new_tensor_4d(c, GGML_TYPE_F16, 32, 5, 2, 2);
  ggml_tensor *mask = host.ggml_new_tensor_4d(c, GGML_TYPE_F16, 5, 3, 1, 1);
  ggml_tensor *sinks = host.ggml_new_tensor_4d(c, GGML_TYPE_F32, 4, 1, 1, 1);
  ggml_tensor *op = host.ggml_flash_attn_ext(c, q, k, v, mask, 0.5F, 8.0F, 30.0F);
  host.ggml_flash_attn_ext_add_sinks(op, sinks);
  host.ggml_set_name(op, "libfa");
  float parameters[3];
  std::memcpy(parameters, op->op_params, sizeof parameters);

  const int64_t shape[] = {32, 4, 3, 2};
  const size_t steps[] = {34, 68, 340, 680};
  const char *wrong = nullptr;
  if (op->type != GGML_TYPE_F32 || k->type != GGML_TYPE_Q8_0) wrong = "type";
  if (std::memcmp(op->ne, shape, sizeof shape) != 0) wrong = "ne";
  if (std::memcmp(k->nb, steps, sizeof steps) != 0) wrong = "nb";
  if (op->op != GGML_OP_FLASH_ATTN_EXT) wrong = "op";
  if (parameters[0] != 0.5F || parameters[1] != 8.0F || parameters[2] != 30.0F) wrong = "op_params";
  if (op->src[0] != q || op->src[1] != k || op->src[2] != v || op->src[3] != mask || op->src[4] != sinks) wrong = "src";
  if (op->data != nullptr || op->view_src != nullptr) wrong = "data";
  if (std::strcmp(op->name, "libfa") != 0) wrong = "name";
  return wrong ? std::string("ggml_tensor has another layout in the ggml that runs than in the headers: ") + wrong : "";
}

}  // namespace

Host &host() {
  static Host functions;
  return functions;
}

std::string find_host(const void *caller, Host *host) {
  Dl_info where = {};
  void *library = nullptr;
  if (dladdr(caller, &where) != 0 && where.dli_fname) library = dlopen(where.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
  if (!library) library = dlopen(nullptr, RTLD_LAZY);  // the program itself, whose name is not that of a library
  *host = {};
  host->ggml_version = reinterpret_cast<decltype(host->ggml_version)>(dlsym(library, "ggml_version"));
  const char *missing = nullptr;
  const auto find = [&](auto &function, const char *name) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, name));
    if (!function && !missing) missing = name;
  };
#define FIND(name) find(host->name, #name)
  FIND(ggml_op_name);
  FIND(ggml_type_name);
  FIND(ggml_type_size);
  FIND(ggml_blck_size);
  FIND(ggml_init);
  FIND(ggml_free);
  FIND(ggml_tensor_overhead);
  FIND(ggml_set_name);
  FIND(ggml_new_tensor_4d);
  FIND(ggml_flash_attn_ext);
  FIND(ggml_flash_attn_ext_add_sinks);
  FIND(ggml_graph_n_nodes);
  FIND(ggml_graph_node);
  FIND(ggml_backend_buft_is_host);
  FIND(ggml_backend_cpu_buffer_type);
  FIND(ggml_backend_cpu_buffer_from_ptr);
#undef FIND
  if (missing) return std::string(missing) + " is not in " + (where.dli_fname ? where.dli_fname : "the program");
  return "";  // `library` stays open: it is that of the functions
}

std::string compare_with_headers(const Host &host) {
  for (const auto compare : {compare_operations, compare_types, compare_tensor}) {
    const std::string difference = compare(host);
    if (!difference.empty()) return difference;
  }
  return "";
}

}  // namespace fa_ggml
