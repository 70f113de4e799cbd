#include "host.h"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <memory>
#include <utility>

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

using Context = std::unique_ptr<ggml_context, decltype(&::ggml_free)>;

// Room for tensors without data, and a graph.
Context make_context(const Host &host) {
  const size_t room = 16 * host.ggml_tensor_overhead() + host.ggml_graph_overhead();
  return {host.ggml_init({room, nullptr, true}), host.ggml_free};
}

// The fields of a tensor that this backend reads, where ggml has written them.
std::string compare_tensor(const Host &host) {
  const size_t header = 32;  // of an object in a context
  if (host.ggml_tensor_overhead() != sizeof(ggml_tensor) + header) {
    return "a tensor has " + std::to_string(host.ggml_tensor_overhead() - header) +
           " bytes in the ggml that runs, and " + std::to_string(sizeof(ggml_tensor)) + " in the headers";
  }
  const Context context = make_context(host);
  if (!context) return "ggml_init failed";
  ggml_context *c = context.get();
  ggml_tensor *q = host.ggml_new_tensor_4d(c, GGML_TYPE_F32, 64, 3, 4, 2);
  ggml_tensor *k = host.ggml_new_tensor_4d(c, GGML_TYPE_Q8_0, 64, 5, 2, 2);
  ggml_tensor *v = host.ggml_new_tensor_4d(c, GGML_TYPE_F16, 32, 5, 2, 2);
  ggml_tensor *mask = host.ggml_new_tensor_4d(c, GGML_TYPE_F16, 5, 64, 1, 1);  // before October 2025 in rows of 64
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

// A structure of which each word is a function that notes the place of its word: a call of ggml's through one of its
// tables says where ggml looks for it.
constexpr size_t words = 64;
thread_local size_t called;

template <size_t word>
size_t note() {
  called = word * sizeof(void *);
  return 0;
}

template <size_t... word>
constexpr std::array<size_t (*)(), words> notes(std::index_sequence<word...>) {
  return {note<word>...};
}

// The functions that this backend has, at their places in ggml's tables, which shift while GGML_BACKEND_API_VERSION
// stays; and the size of the properties of a device.
std::string compare_tables(const Host &host) {
  std::array<size_t (*)(), words> noting = notes(std::make_index_sequence<words>());
  const auto backend = reinterpret_cast<ggml_backend_t>(noting.data());
  const auto device = reinterpret_cast<ggml_backend_dev_t>(noting.data());
  const auto registration = reinterpret_cast<ggml_backend_reg_t>(noting.data());
  std::array<unsigned char, 1024> cleared;
  cleared.fill(0xFF);
  const auto props = reinterpret_cast<ggml_backend_dev_props *>(cleared.data());
  size_t numbers[2];

  const size_t nowhere = words * sizeof(void *);
  std::string difference;
#define EXPECT(structure, entry, ...)                                                                        \
  called = nowhere;                                                                                          \
  host.__VA_ARGS__;                                                                                          \
  if (difference.empty() && called != offsetof(structure, iface.entry)) {                                    \
    difference = #structure "'s " #entry " is at byte " + std::to_string(called) +                           \
                 " in the ggml that runs, and at byte " + std::to_string(offsetof(structure, iface.entry)) + \
                 " in the headers";                                                                          \
  }
  EXPECT(ggml_backend, get_name, ggml_backend_name(backend))
  EXPECT(ggml_backend, free, ggml_backend_free(backend))
  EXPECT(ggml_backend, graph_compute, ggml_backend_graph_compute_async(backend, nullptr))
  EXPECT(ggml_backend_device, get_name, ggml_backend_dev_name(device))
  EXPECT(ggml_backend_device, get_description, ggml_backend_dev_description(device))
  EXPECT(ggml_backend_device, get_memory, ggml_backend_dev_memory(device, &numbers[0], &numbers[1]))
  EXPECT(ggml_backend_device, get_type, ggml_backend_dev_type(device))
  EXPECT(ggml_backend_device, get_props, ggml_backend_dev_get_props(device, props))
  EXPECT(ggml_backend_device, init_backend, ggml_backend_dev_init(device, nullptr))
  EXPECT(ggml_backend_device, get_buffer_type, ggml_backend_dev_buffer_type(device))
  EXPECT(ggml_backend_device, buffer_from_host_ptr, ggml_backend_dev_buffer_from_host_ptr(device, nullptr, 0, 0))
  EXPECT(ggml_backend_device, supports_op, ggml_backend_dev_supports_op(device, nullptr))
  EXPECT(ggml_backend_device, supports_buft, ggml_backend_dev_supports_buft(device, nullptr))
  EXPECT(ggml_backend_reg, get_name, ggml_backend_reg_name(registration))
  EXPECT(ggml_backend_reg, get_device_count, ggml_backend_reg_dev_count(registration))
  EXPECT(ggml_backend_reg, get_device, ggml_backend_reg_dev_get(registration, 0))
  EXPECT(ggml_backend_reg, get_proc_address, ggml_backend_reg_get_proc_address(registration, ""))
#undef EXPECT
  const ptrdiff_t size = std::ranges::find(cleared, 0xFF) - cleared.begin();
  if (difference.empty() && size != ptrdiff_t(sizeof *props)) {
    difference = "the properties of a device have " + std::to_string(size) + " bytes in the ggml that runs, and " +
                 std::to_string(sizeof *props) + " in the headers";
  }
  return difference;
}

}  // namespace

bool marks_nodes(const Host &host) {
  const Context context = make_context(host);
  if (!context) return false;
  ggml_tensor *q = host.ggml_new_tensor_4d(context.get(), GGML_TYPE_F32, 64, 1, 1, 1);
  ggml_tensor *op = host.ggml_flash_attn_ext(context.get(), q, q, q, nullptr, 1.0F, 0.0F, 0.0F);
  host.ggml_build_forward_expand(host.ggml_new_graph(context.get()), op);
  return (op->flags & computed) != 0;
}

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
  FIND(ggml_new_graph);
  FIND(ggml_graph_overhead);
  FIND(ggml_build_forward_expand);
  FIND(ggml_graph_n_nodes);
  FIND(ggml_graph_node);
  FIND(ggml_backend_buft_is_host);
  FIND(ggml_backend_cpu_buffer_type);
  FIND(ggml_backend_cpu_buffer_from_ptr);
  FIND(ggml_backend_name);
  FIND(ggml_backend_free);
  FIND(ggml_backend_graph_compute_async);
  FIND(ggml_backend_dev_name);
  FIND(ggml_backend_dev_description);
  FIND(ggml_backend_dev_memory);
  FIND(ggml_backend_dev_type);
  FIND(ggml_backend_dev_get_props);
  FIND(ggml_backend_dev_init);
  FIND(ggml_backend_dev_buffer_type);
  FIND(ggml_backend_dev_buffer_from_host_ptr);
  FIND(ggml_backend_dev_supports_op);
  FIND(ggml_backend_dev_supports_buft);
  FIND(ggml_backend_reg_name);
  FIND(ggml_backend_reg_dev_count);
  FIND(ggml_backend_reg_dev_get);
  FIND(ggml_backend_reg_get_proc_address);
#undef FIND
  if (missing) return std::string(missing) + " is not in " + (where.dli_fname ? where.dli_fname : "the program");
  return "";  // `library` stays open: it is that of the functions
}

std::string compare_with_headers(const Host &host) {
  for (const auto compare : {compare_operations, compare_types, compare_tensor, compare_tables}) {
    const std::string difference = compare(host);
    if (!difference.empty()) return difference;
  }
  return "";
}

}  // namespace fa_ggml
