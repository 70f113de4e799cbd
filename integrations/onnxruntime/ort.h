// The part of ONNX Runtime's C interface that the provider uses, declared from its public reference: no registry
// carries the headers of each version, and tables and structures of the interface only ever grow at their end. As
// of 1.24, the first version with kernels of plug-in providers. tests/headers_test.cpp compares every line with a
// header of ONNX Runtime.
#pragma once
#include <cstddef>
#include <cstdint>

namespace fa_ort {

constexpr uint32_t api_version = 24;  // the N of ONNX Runtime 1.N

struct OrtApi;  // tables of functions, read by place
struct OrtEpApi;
struct OrtStatus;
struct OrtValue;
struct OrtTypeInfo;
struct OrtTensorTypeAndShapeInfo;
struct OrtKernelInfo;
struct OrtKernelContext;
struct OrtOpAttr;
struct OrtValueInfo;
struct OrtHardwareDevice;
struct OrtGraph;
struct OrtNode;
struct OrtKeyValuePairs;
struct OrtEpDevice;
struct OrtEpGraphSupportInfo;
struct OrtKernelRegistry;
struct OrtKernelDef;
struct OrtKernelDefBuilder;
struct OrtDataType;
struct OrtLogger;
struct OrtSessionOptions;
struct OrtMemoryInfo;
struct OrtAllocator;
struct OrtDataTransferImpl;

enum OrtErrorCode { ORT_FAIL = 1, ORT_INVALID_ARGUMENT = 2, ORT_NOT_IMPLEMENTED = 9 };
enum OrtOpAttrType { ORT_OP_ATTR_INT = 1, ORT_OP_ATTR_FLOAT = 3, ORT_OP_ATTR_STRING = 5 };
enum OrtHardwareDeviceType { OrtHardwareDeviceType_CPU = 0 };
enum ONNXTensorElementDataType {
  ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED = 0,
  ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT = 1,
  ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT8 = 2,
  ONNX_TENSOR_ELEMENT_DATA_TYPE_INT8 = 3,
  ONNX_TENSOR_ELEMENT_DATA_TYPE_INT32 = 6,
  ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64 = 7,
  ONNX_TENSOR_ELEMENT_DATA_TYPE_BOOL = 9,
  ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT16 = 10,
  ONNX_TENSOR_ELEMENT_DATA_TYPE_BFLOAT16 = 16,
  ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT8E4M3FN = 17
};

struct OrtApiBase {
  const OrtApi *(*GetApi)(uint32_t version);  // null where the version is newer than the library
  const char *(*GetVersionString)();
};

// Structures that the provider implements. A function that it leaves out is null, and so are the fields of type void *.
struct OrtKernelImpl {
  uint32_t ort_version_supported;
  uint32_t flags;
  OrtStatus *(*Compute)(OrtKernelImpl *, OrtKernelContext *);
  void (*Release)(OrtKernelImpl *);
  void *PrePackWeight;
  void *SetSharedPrePackedWeight;
};

using OrtKernelCreateFunc = OrtStatus *(*)(void *state, const OrtKernelInfo *, OrtKernelImpl **);

struct OrtEp {
  uint32_t ort_version_supported;
  const char *(*GetName)(const OrtEp *);
  OrtStatus *(*GetCapability)(OrtEp *, const OrtGraph *, OrtEpGraphSupportInfo *);
  void *Compile;
  void *ReleaseNodeComputeInfos;
  void *GetPreferredDataLayout;
  void *ShouldConvertDataLayoutForOp;
  void *SetDynamicOptions;
  void *OnRunStart;
  void *OnRunEnd;
  void *CreateAllocator;
  void *CreateSyncStreamForDevice;
  void *GetCompiledModelCompatibilityInfo;
  OrtStatus *(*GetKernelRegistry)(OrtEp *, const OrtKernelRegistry **);
  void *IsConcurrentRunSupported;
};

struct OrtEpFactory {
  uint32_t ort_version_supported;
  const char *(*GetName)(const OrtEpFactory *);
  const char *(*GetVendor)(const OrtEpFactory *);
  OrtStatus *(*GetSupportedDevices)(OrtEpFactory *, const OrtHardwareDevice *const *devices, size_t num_devices,
                                    OrtEpDevice **ep_devices, size_t max_ep_devices, size_t *num_ep_devices);
  OrtStatus *(*CreateEp)(OrtEpFactory *, const OrtHardwareDevice *const *, const OrtKeyValuePairs *const *, size_t,
                         const OrtSessionOptions *, const OrtLogger *, OrtEp **);
  void (*ReleaseEp)(OrtEpFactory *, OrtEp *);
  uint32_t (*GetVendorId)(const OrtEpFactory *);
  const char *(*GetVersion)(const OrtEpFactory *);
  void *ValidateCompiledModelCompatibilityInfo;
  OrtStatus *(*CreateAllocator)(OrtEpFactory *, const OrtMemoryInfo *, const OrtKeyValuePairs *, OrtAllocator **);
  void (*ReleaseAllocator)(OrtEpFactory *, OrtAllocator *);
  OrtStatus *(*CreateDataTransfer)(OrtEpFactory *, OrtDataTransferImpl **);
  bool (*IsStreamAware)(const OrtEpFactory *);
  void *CreateSyncStreamForDevice;
  void *GetHardwareDeviceIncompatibilityDetails;
  void *CreateExternalResourceImporterForDevice;
  void *GetNumCustomOpDomains;
  void *GetCustomOpDomains;
};

}  // namespace fa_ort
