// Compares the declarations of ort.h and entries.inc with a header of ONNX Runtime, which is included first: places in
// tables, types of functions, fields of structures, and numbers of enumerations. All of it is checked while this
// compiles.
#include <onnxruntime_c_api.h>

#include <type_traits>

#include "../ort.h"

template <class T>
struct plain;  // a function without noexcept and attributes
template <class R, class... A>
struct plain<R (*)(A...)> {
  using type = R (*)(A...);
};
template <class R, class... A>
struct plain<R (*)(A...) noexcept> {
  using type = R (*)(A...);
};

#define FA_ORT_COMPARE(table, place, result, name, arguments)                              \
  static_assert(offsetof(table, name) == (place) * sizeof(void *), #name " is elsewhere"); \
  static_assert(std::is_same_v<plain<decltype(table::name)>::type, result(*) arguments>, #name " has another type");
#define FA_ORT_API(place, result, name, arguments) FA_ORT_COMPARE(OrtApi, place, result, name, arguments)
#define FA_ORT_EP_API(place, result, name, arguments) FA_ORT_COMPARE(OrtEpApi, place, result, name, arguments)
#include "../entries.inc"

static_assert(ORT_API_VERSION >= fa_ort::api_version);

#define FIELD(structure, field) static_assert(offsetof(structure, field) == offsetof(fa_ort::structure, field), #field)
#define SIZE(structure) static_assert(sizeof(structure) >= sizeof(fa_ort::structure), #structure)
SIZE(OrtApiBase);
FIELD(OrtApiBase, GetApi);
FIELD(OrtApiBase, GetVersionString);
SIZE(OrtKernelImpl);
FIELD(OrtKernelImpl, flags);
FIELD(OrtKernelImpl, Compute);
FIELD(OrtKernelImpl, Release);
SIZE(OrtEp);
FIELD(OrtEp, GetName);
FIELD(OrtEp, GetCapability);
FIELD(OrtEp, GetKernelRegistry);
FIELD(OrtEp, IsConcurrentRunSupported);
SIZE(OrtEpFactory);
FIELD(OrtEpFactory, GetName);
FIELD(OrtEpFactory, GetVendor);
FIELD(OrtEpFactory, GetSupportedDevices);
FIELD(OrtEpFactory, CreateEp);
FIELD(OrtEpFactory, ReleaseEp);
FIELD(OrtEpFactory, GetVendorId);
FIELD(OrtEpFactory, GetVersion);
FIELD(OrtEpFactory, CreateAllocator);
FIELD(OrtEpFactory, ReleaseAllocator);
FIELD(OrtEpFactory, CreateDataTransfer);
FIELD(OrtEpFactory, IsStreamAware);
FIELD(OrtEpFactory, GetCustomOpDomains);

#define NUMBER(name) static_assert(int(::name) == int(fa_ort::name), #name)
NUMBER(ORT_FAIL);
NUMBER(ORT_INVALID_ARGUMENT);
NUMBER(ORT_NOT_IMPLEMENTED);
NUMBER(ORT_OP_ATTR_INT);
NUMBER(ORT_OP_ATTR_FLOAT);
NUMBER(ORT_OP_ATTR_STRING);
NUMBER(OrtHardwareDeviceType_CPU);
NUMBER(ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT);
NUMBER(ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT8);
NUMBER(ONNX_TENSOR_ELEMENT_DATA_TYPE_INT8);
NUMBER(ONNX_TENSOR_ELEMENT_DATA_TYPE_INT32);
NUMBER(ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64);
NUMBER(ONNX_TENSOR_ELEMENT_DATA_TYPE_BOOL);
NUMBER(ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT16);
NUMBER(ONNX_TENSOR_ELEMENT_DATA_TYPE_BFLOAT16);
NUMBER(ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT8E4M3FN);
