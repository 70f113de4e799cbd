#include "provider.h"

#include <exception>
#include <fa.hpp>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "host.h"
#include "operator.h"
#include "plugin/log.h"

namespace fa_ort {
namespace {

constexpr const char *provider_name = "FaExecutionProvider";
constexpr ONNXTensorElementDataType floats[] = {
    ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT16, ONNX_TENSOR_ELEMENT_DATA_TYPE_BFLOAT16};

struct Entry {
  const char *domain, *op;
  int first, last;                        // versions
  std::vector<const char *> constraints;  // of floats, by the operator's names
  std::unique_ptr<Operator> (*make)(const Attributes &);
};

const std::vector<Entry> &entries() {
  static const std::vector<Entry> all = {
      {"com.microsoft", "GroupQueryAttention", 1, 1, {"T"}, make_group_query_attention},
      {"com.microsoft", "MultiHeadAttention", 1, 1, {"T"}, make_multi_head_attention},
      {"", "Attention", 23, 25, {"T1", "T2"}, make_attention}};
  return all;
}

// ---- kernels

// Runs `work`, and turns its exceptions into errors of ONNX Runtime.
template <class Work>
OrtStatus *guard(const Work &work) noexcept try {
  work();
  return nullptr;
} catch (const BadInput &bad) {
  return error(ORT_INVALID_ARGUMENT, bad.what());
} catch (const fa::Error &failed) {
  return error(failed.status() == FA_ERROR_INVALID_ARGUMENT ? ORT_INVALID_ARGUMENT : ORT_FAIL, failed.what());
} catch (const std::bad_alloc &) {
  return error(ORT_FAIL, "memory is short");
} catch (const std::exception &other) {
  return error(ORT_FAIL, other.what());
}

struct Kernel : OrtKernelImpl {
  std::unique_ptr<Operator> op;
  Resources resources;
};

OrtStatus *compute(OrtKernelImpl *impl, OrtKernelContext *context) {
  Kernel &kernel = *static_cast<Kernel *>(impl);
  return guard([&] {
    Call call(context, &kernel.resources);
    kernel.op->compute(&call);
  });
}

OrtStatus *create_kernel(void *state, const OrtKernelInfo *info, OrtKernelImpl **created) {
  *created = nullptr;
  return guard([&] {
    auto kernel = std::make_unique<Kernel>();
    static_cast<OrtKernelImpl &>(*kernel) = {};
    kernel->ort_version_supported = api_version;
    kernel->Compute = compute;
    kernel->Release = [](OrtKernelImpl *impl) { delete static_cast<Kernel *>(impl); };
    kernel->op = static_cast<const Entry *>(state)->make(KernelAttributes(info));
    *created = kernel.release();
  });
}

// Handles of ONNX Runtime that are released at the end of a block.
template <class T>
using Owned = std::unique_ptr<T, void (*)(T *)>;

void add_kernel(OrtKernelRegistry *registry, const Entry &entry) {
  OrtKernelDefBuilder *made = nullptr;
  check(host().CreateKernelDefBuilder(&made));
  const Owned<OrtKernelDefBuilder> builder(made, host().ReleaseKernelDefBuilder);
  check(host().KernelDefBuilder_SetOperatorType(made, entry.op));
  check(host().KernelDefBuilder_SetDomain(made, entry.domain));
  check(host().KernelDefBuilder_SetSinceVersion(made, entry.first, entry.last));
  check(host().KernelDefBuilder_SetExecutionProvider(made, provider_name));
  std::vector<const OrtDataType *> types;
  for (const ONNXTensorElementDataType type : floats) check(host().GetTensorDataType(type, &types.emplace_back()));
  for (const char *constraint : entry.constraints) {
    check(host().KernelDefBuilder_AddTypeConstraint(made, constraint, types.data(), types.size()));
  }
  OrtKernelDef *def = nullptr;
  check(host().KernelDefBuilder_Build(made, &def));
  const Owned<OrtKernelDef> definition(def, host().ReleaseKernelDef);
  check(host().KernelRegistry_AddKernel(registry, def, create_kernel, const_cast<Entry *>(&entry)));
}

// ---- a session's provider

struct Factory : OrtEpFactory {
  ~Factory() {
    if (registry) host().ReleaseKernelRegistry(registry);
  }
  OrtKernelRegistry *registry = nullptr;
};

struct Provider : OrtEp {
  Factory *factory;
};

std::string refusal(const Node &node, const OrtNode *handle, const Entry &entry) {
  if (node.version < entry.first || node.version > entry.last) {
    return "its version is " + std::to_string(node.version) + "; libfa knows " + std::to_string(entry.first) + " to " +
           std::to_string(entry.last);
  }
  return entry.make(NodeAttributes(handle))->refusal(node);
}

bool claims(const Node &node, const OrtNode *handle) {
  for (const Entry &entry : entries()) {
    if (node.op != entry.op || (node.domain != entry.domain && !(node.domain == "ai.onnx" && !*entry.domain))) continue;
    if (!node.provider.empty() && node.provider != provider_name) return false;
    const std::string reason = refusal(node, handle, entry);
    if (!reason.empty()) fa_plugin::print_once(node.op + " \"" + node.name + "\" is left to ONNX Runtime: " + reason);
    return reason.empty();
  }
  return false;
}

OrtStatus *get_capability(OrtEp *, const OrtGraph *graph, OrtEpGraphSupportInfo *info) {
  return guard([&] {
    size_t count = 0;
    check(host().Graph_GetNumNodes(graph, &count));
    std::vector<const OrtNode *> nodes(count);
    check(host().Graph_GetNodes(graph, nodes.data(), count));
    for (const OrtNode *handle : nodes) {
      const char *op = nullptr;
      check(host().Node_GetOperatorType(handle, &op));
      bool known = false;
      for (const Entry &entry : entries()) known = known || std::string(op) == entry.op;
      if (known && claims(read_node(handle), handle)) check(host().EpGraphSupportInfo_AddSingleNode(info, handle));
    }
  });
}

OrtStatus *create_provider(OrtEpFactory *factory, const OrtHardwareDevice *const *, const OrtKeyValuePairs *const *,
                           size_t, const OrtSessionOptions *, const OrtLogger *, OrtEp **created) {
  *created = nullptr;
  return guard([&] {
    auto provider = std::make_unique<Provider>();
    *provider = {};
    provider->ort_version_supported = api_version;
    provider->factory = static_cast<Factory *>(factory);
    provider->GetName = [](const OrtEp *) { return provider_name; };
    provider->GetCapability = get_capability;
    provider->GetKernelRegistry = [](OrtEp *ep, const OrtKernelRegistry **registry) -> OrtStatus * {
      *registry = static_cast<Provider *>(ep)->factory->registry;
      return nullptr;
    };
    *created = provider.release();
  });
}

// ---- the factory

OrtStatus *supported_devices(OrtEpFactory *factory, const OrtHardwareDevice *const *devices, size_t count,
                             OrtEpDevice **ep_devices, size_t max_ep_devices, size_t *num_ep_devices) {
  *num_ep_devices = 0;
  return guard([&] {
    for (size_t i = 0; i < count && *num_ep_devices < max_ep_devices; ++i) {
      if (host().HardwareDevice_Type(devices[i]) != OrtHardwareDeviceType_CPU) continue;
      check(host().CreateEpDevice(factory, devices[i], nullptr, nullptr, &ep_devices[*num_ep_devices]));
      ++*num_ep_devices;
    }
  });
}

}  // namespace

OrtEpFactory *make_factory() {
  auto factory = std::make_unique<Factory>();
  static_cast<OrtEpFactory &>(*factory) = {};
  factory->ort_version_supported = api_version;
  factory->GetName = [](const OrtEpFactory *) { return provider_name; };
  factory->GetVendor = [](const OrtEpFactory *) { return "libfa"; };
  factory->GetVendorId = [](const OrtEpFactory *) { return uint32_t(0); };  // no vendor of PCI devices
  factory->GetVersion = [](const OrtEpFactory *) { return FA_VERSION_STRING; };
  factory->GetSupportedDevices = supported_devices;
  factory->CreateEp = create_provider;
  factory->ReleaseEp = [](OrtEpFactory *, OrtEp *ep) { delete static_cast<Provider *>(ep); };
  // Tensors are in ONNX Runtime's own memory of the CPU.
  factory->CreateAllocator = [](OrtEpFactory *, const OrtMemoryInfo *, const OrtKeyValuePairs *,
                                OrtAllocator **allocator) -> OrtStatus * {
    *allocator = nullptr;
    return nullptr;
  };
  factory->ReleaseAllocator = [](OrtEpFactory *, OrtAllocator *) {};
  factory->CreateDataTransfer = [](OrtEpFactory *, OrtDataTransferImpl **transfer) -> OrtStatus * {
    *transfer = nullptr;
    return nullptr;
  };
  factory->IsStreamAware = [](const OrtEpFactory *) { return false; };
  check(host().CreateKernelRegistry(&factory->registry));
  for (const Entry &entry : entries()) add_kernel(factory->registry, entry);
  return factory.release();
}

void release_factory(OrtEpFactory *factory) {
  delete static_cast<Factory *>(factory);
}

std::string refusal_of_op(const fa_desc &desc) {
  fa_desc known = desc;
  if (known.head_dim < 1) return "its head dimension is not known before it runs";
  try {
    const fa::Op op(known);
    return "";
  } catch (const fa::Error &refused) {
    return refused.what();
  }
}

}  // namespace fa_ort
