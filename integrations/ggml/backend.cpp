#include "backend.h"

#include <cstring>
#include <exception>
#include <fa.hpp>
#include <memory>
#include <string>

#include "attention.h"
#include "host.h"
#include "plugin/log.h"

namespace fa_ggml {
namespace {

// ---- a backend

State *state_of(ggml_backend_t backend) {
  return static_cast<State *>(backend->context);
}

const char *backend_name(ggml_backend_t) {
  return "FA";
}

void backend_free(ggml_backend_t backend) {
  delete state_of(backend);
  delete backend;
}

bool left_out(const ggml_tensor &node) {
  return host().marks_nodes && (node.flags & computed) == 0;
}

ggml_status backend_compute(ggml_backend_t backend, ggml_cgraph *graph) try {
  for (int i = 0; i < host().ggml_graph_n_nodes(graph); ++i) {
    const ggml_tensor &node = *host().ggml_graph_node(graph, i);
    if (node.op == GGML_OP_FLASH_ATTN_EXT && !left_out(node)) compute(node, state_of(backend));
  }
  return GGML_STATUS_SUCCESS;
} catch (const std::bad_alloc &) {
  fa_plugin::print("memory is short");
  return GGML_STATUS_ALLOC_FAILED;
} catch (const fa::Error &error) {
  fa_plugin::print(error.what());
  return error.status() == FA_ERROR_OUT_OF_MEMORY ? GGML_STATUS_ALLOC_FAILED : GGML_STATUS_FAILED;
} catch (const std::exception &error) {
  fa_plugin::print(error.what());
  return GGML_STATUS_FAILED;
}

ggml_guid_t guid() {
  static ggml_guid value = {0xFA, 0x6C, 0x69, 0x62, 0x66, 0x61, 0x41, 0x7E,
                            0x92, 0x0D, 0x53, 0xB8, 0x1C, 0xE4, 0x70, 0x35};
  return &value;
}

void set_threads(ggml_backend_t backend, int threads) {
  if (threads > 0) state_of(backend)->threads = threads;
}

// ---- the device

const char *device_name(ggml_backend_dev_t) {
  return "FA";
}

const char *device_description(ggml_backend_dev_t) {
  return "libfa " FA_VERSION_STRING ": attention on the CPU";
}

void device_memory(ggml_backend_dev_t, size_t *free, size_t *total) {
  *free = *total = 0;
}

enum ggml_backend_dev_type device_type(ggml_backend_dev_t) {
  return GGML_BACKEND_DEVICE_TYPE_ACCEL;
}

// ggml cleared *props, and newer versions have more fields than older ones.
void device_props(ggml_backend_dev_t device, ggml_backend_dev_props *props) {
  props->name = device_name(device);
  props->description = device_description(device);
  props->type = device_type(device);
  props->caps.buffer_from_host_ptr = true;
  const auto allow_mmap = [](auto &caps) {
    if constexpr (requires { caps.mmap_support; }) caps.mmap_support = true;
  };
  allow_mmap(props->caps);
}

ggml_backend_t device_init(ggml_backend_dev_t device, const char *) try {
  ggml_backend_i functions = {};
  functions.get_name = backend_name;
  functions.free = backend_free;
  functions.graph_compute = backend_compute;
  auto state = std::make_unique<State>();
  return new ggml_backend{guid(), functions, device, state.release()};
} catch (const std::bad_alloc &) {
  return nullptr;
}

ggml_backend_buffer_type_t device_buffer_type(ggml_backend_dev_t) {
  return host().ggml_backend_cpu_buffer_type();
}

ggml_backend_buffer_t device_buffer(ggml_backend_dev_t, void *data, size_t size, size_t) {
  return host().ggml_backend_cpu_buffer_from_ptr(data, size);
}

bool device_supports(ggml_backend_dev_t, const ggml_tensor *op) try {
  switch (op->op) {
    case GGML_OP_NONE:
    case GGML_OP_RESHAPE:
    case GGML_OP_VIEW:
    case GGML_OP_PERMUTE:
    case GGML_OP_TRANSPOSE:
      return true;
    case GGML_OP_FLASH_ATTN_EXT: {
      const std::string reason = refusal(*op);
      if (!reason.empty()) fa_plugin::print_once("attention is left to ggml: " + reason);
      return reason.empty();
    }
    default:
      return false;
  }
} catch (const std::exception &) {  // memory is short
  return false;
}

bool device_supports_buffers(ggml_backend_dev_t, ggml_backend_buffer_type_t type) {
  return host().ggml_backend_buft_is_host(type);
}

// ---- the registration

const char *registration_name(ggml_backend_reg_t) {
  return "FA";
}

size_t registration_devices(ggml_backend_reg_t) {
  return 1;
}

ggml_backend_dev_t registration_device(ggml_backend_reg_t registration, size_t) {
  static ggml_backend_device device = [&] {
    ggml_backend_device_i functions = {};
    functions.get_name = device_name;
    functions.get_description = device_description;
    functions.get_memory = device_memory;
    functions.get_type = device_type;
    functions.get_props = device_props;
    functions.init_backend = device_init;
    functions.get_buffer_type = device_buffer_type;
    functions.buffer_from_host_ptr = device_buffer;
    functions.supports_op = device_supports;
    functions.supports_buft = device_supports_buffers;
    return ggml_backend_device{functions, registration, nullptr};
  }();
  return &device;
}

void *registration_function(ggml_backend_reg_t, const char *name) {
  return std::strcmp(name, "ggml_backend_set_n_threads") == 0 ? reinterpret_cast<void *>(set_threads) : nullptr;
}

}  // namespace

ggml_backend_reg_t registration() {
  static ggml_backend_reg registration = {
      GGML_BACKEND_API_VERSION,
      {registration_name, registration_devices, registration_device, registration_function},
      nullptr};
  return &registration;
}

}  // namespace fa_ggml
