// The ggml that has loaded this backend. Its functions are looked up through the caller of ggml_backend_init, as the
// names of its libraries differ between builds: libggml-fa.so needs none of them by name, and finds them where they are
// not in the global scope.
#pragma once
#include <ggml-backend-impl.h>
#include <ggml-backend.h>
#include <ggml.h>

#include <string>

namespace fa_ggml {

struct Host {
  const char *(*ggml_version)();  // null in a ggml before August 2025
  decltype(&::ggml_op_name) ggml_op_name;
  decltype(&::ggml_type_name) ggml_type_name;
  decltype(&::ggml_type_size) ggml_type_size;
  decltype(&::ggml_blck_size) ggml_blck_size;
  decltype(&::ggml_init) ggml_init;
  decltype(&::ggml_free) ggml_free;
  decltype(&::ggml_tensor_overhead) ggml_tensor_overhead;
  decltype(&::ggml_set_name) ggml_set_name;
  decltype(&::ggml_new_tensor_4d) ggml_new_tensor_4d;
  decltype(&::ggml_flash_attn_ext) ggml_flash_attn_ext;
  decltype(&::ggml_flash_attn_ext_add_sinks) ggml_flash_attn_ext_add_sinks;
  decltype(&::ggml_new_graph) ggml_new_graph;
  decltype(&::ggml_graph_overhead) ggml_graph_overhead;
  decltype(&::ggml_build_forward_expand) ggml_build_forward_expand;
  decltype(&::ggml_graph_n_nodes) ggml_graph_n_nodes;
  decltype(&::ggml_graph_node) ggml_graph_node;
  decltype(&::ggml_backend_buft_is_host) ggml_backend_buft_is_host;
  decltype(&::ggml_backend_cpu_buffer_type) ggml_backend_cpu_buffer_type;
  decltype(&::ggml_backend_cpu_buffer_from_ptr) ggml_backend_cpu_buffer_from_ptr;
  decltype(&::ggml_backend_name) ggml_backend_name;
  decltype(&::ggml_backend_free) ggml_backend_free;
  decltype(&::ggml_backend_graph_compute_async) ggml_backend_graph_compute_async;
  decltype(&::ggml_backend_dev_name) ggml_backend_dev_name;
  decltype(&::ggml_backend_dev_description) ggml_backend_dev_description;
  decltype(&::ggml_backend_dev_memory) ggml_backend_dev_memory;
  decltype(&::ggml_backend_dev_type) ggml_backend_dev_type;
  decltype(&::ggml_backend_dev_get_props) ggml_backend_dev_get_props;
  decltype(&::ggml_backend_dev_init) ggml_backend_dev_init;
  decltype(&::ggml_backend_dev_buffer_type) ggml_backend_dev_buffer_type;
  decltype(&::ggml_backend_dev_buffer_from_host_ptr) ggml_backend_dev_buffer_from_host_ptr;
  decltype(&::ggml_backend_dev_supports_op) ggml_backend_dev_supports_op;
  decltype(&::ggml_backend_dev_supports_buft) ggml_backend_dev_supports_buft;
  decltype(&::ggml_backend_reg_name) ggml_backend_reg_name;
  decltype(&::ggml_backend_reg_dev_count) ggml_backend_reg_dev_count;
  decltype(&::ggml_backend_reg_dev_get) ggml_backend_reg_dev_get;
  decltype(&::ggml_backend_reg_get_proc_address) ggml_backend_reg_get_proc_address;
  bool marks_nodes;  // those of a graph that are to be computed, by a flag; since December 2025
};

// The functions, which ggml_backend_init finds before all else here is called.
Host &host();

// Fills *host with the functions of the library, or the program, that holds the address `caller`. Returns "", or the
// problem.
std::string find_host(const void *caller, Host *host);

// Compares the headers that this backend was built with, with the ggml that runs: numbers of operations and types by
// their names, sizes of types, a tensor of GGML_OP_FLASH_ATTN_EXT that ggml makes, field by field, and the places of
// the functions of a backend, its device and its registration. Returns "", or the first difference.
std::string compare_with_headers(const Host &host);

// The bit of a tensor's flags, in a ggml that marks nodes.
constexpr int computed = 16;  // GGML_TENSOR_FLAG_COMPUTE, which older headers lack

// Whether this ggml marks the nodes of a graph.
bool marks_nodes(const Host &host);

}  // namespace fa_ggml
