// Functions that the emulator has only to say that it lacks what they do: programs that link them load, and those that
// call them are told why it fails. Arguments are not looked at.
#include "driver/api.h"

using namespace fa::emu::driver;

#define EMU_UNSUPPORTED(name, reason)                                                                                  \
  EMU_API CUresult name();                                                                                             \
  EMU_API CUresult name() {                                                                                            \
    return api(#name,                                                                                                  \
               [&]() -> CUresult { refuse(CUDA_ERROR_NOT_SUPPORTED, "the emulator has no " + std::string(reason)); }); \
  }

EMU_UNSUPPORTED(cuIpcGetMemHandle, "memory that processes share; copy through the host")
EMU_UNSUPPORTED(cuIpcOpenMemHandle_v2, "memory that processes share; copy through the host")
EMU_UNSUPPORTED(cuIpcOpenMemHandle, "memory that processes share; copy through the host")
EMU_UNSUPPORTED(cuIpcCloseMemHandle, "memory that processes share; copy through the host")
EMU_UNSUPPORTED(cuIpcGetEventHandle, "events that processes share; use a pipe or a socket")
EMU_UNSUPPORTED(cuIpcOpenEventHandle, "events that processes share; use a pipe or a socket")
EMU_UNSUPPORTED(cuMemExportToShareableHandle, "memory that processes share; copy through the host")
EMU_UNSUPPORTED(cuMemImportFromShareableHandle, "memory that processes share; copy through the host")
EMU_UNSUPPORTED(cuMemPoolExportToShareableHandle, "pools that processes share; copy through the host")
EMU_UNSUPPORTED(cuMemPoolImportFromShareableHandle, "pools that processes share; copy through the host")
EMU_UNSUPPORTED(cuMemPoolExportPointer, "pools that processes share; copy through the host")
EMU_UNSUPPORTED(cuMemPoolImportPointer, "pools that processes share; copy through the host")
EMU_UNSUPPORTED(cuMemGetHandleForAddressRange, "handles of memory for other devices (dma-buf)")
EMU_UNSUPPORTED(cuMulticastCreate, "multicast objects, as its devices do not see each other's memory")
EMU_UNSUPPORTED(cuMulticastAddDevice, "multicast objects, as its devices do not see each other's memory")
EMU_UNSUPPORTED(cuMulticastBindMem, "multicast objects, as its devices do not see each other's memory")
EMU_UNSUPPORTED(cuMulticastBindAddr, "multicast objects, as its devices do not see each other's memory")
EMU_UNSUPPORTED(cuMulticastUnbind, "multicast objects, as its devices do not see each other's memory")
EMU_UNSUPPORTED(cuMulticastGetGranularity, "multicast objects, as its devices do not see each other's memory")
EMU_UNSUPPORTED(cuLaunchCooperativeKernelMultiDevice, "cooperative launches over several devices")
EMU_UNSUPPORTED(cuGraphConditionalHandleCreate, "conditional nodes of graphs")
EMU_UNSUPPORTED(cuArrayCreate_v2, "arrays; tensor maps and linear memory are there")
EMU_UNSUPPORTED(cuArray3DCreate_v2, "arrays; tensor maps and linear memory are there")
EMU_UNSUPPORTED(cuArrayDestroy, "arrays; tensor maps and linear memory are there")
EMU_UNSUPPORTED(cuTexObjectCreate, "textures; global loads read the same memory")
EMU_UNSUPPORTED(cuTexObjectDestroy, "textures; global loads read the same memory")
EMU_UNSUPPORTED(cuSurfObjectCreate, "surfaces; global stores write the same memory")
EMU_UNSUPPORTED(cuSurfObjectDestroy, "surfaces; global stores write the same memory")
EMU_UNSUPPORTED(cuArray3DGetDescriptor_v2, "arrays; tensor maps and linear memory are there")
EMU_UNSUPPORTED(cuArrayGetDescriptor_v2, "arrays; tensor maps and linear memory are there")
EMU_UNSUPPORTED(cuArrayGetMemoryRequirements, "arrays; tensor maps and linear memory are there")
EMU_UNSUPPORTED(cuArrayGetPlane, "arrays; tensor maps and linear memory are there")
EMU_UNSUPPORTED(cuArrayGetSparseProperties, "arrays; tensor maps and linear memory are there")
EMU_UNSUPPORTED(cuDestroyExternalMemory, "memory or semaphores of other APIs")
EMU_UNSUPPORTED(cuDestroyExternalSemaphore, "memory or semaphores of other APIs")
EMU_UNSUPPORTED(cuDeviceGetTexture1DLinearMaxWidth, "textures; global loads read the same memory")
EMU_UNSUPPORTED(cuExternalMemoryGetMappedBuffer, "memory or semaphores of other APIs")
EMU_UNSUPPORTED(cuExternalMemoryGetMappedMipmappedArray, "memory or semaphores of other APIs")
EMU_UNSUPPORTED(cuImportExternalMemory, "memory or semaphores of other APIs")
EMU_UNSUPPORTED(cuImportExternalSemaphore, "memory or semaphores of other APIs")
EMU_UNSUPPORTED(cuLibraryGetUnifiedFunction, "unified functions; kernels call __device__ functions")
EMU_UNSUPPORTED(cuMipmappedArrayCreate, "arrays; tensor maps and linear memory are there")
EMU_UNSUPPORTED(cuMipmappedArrayDestroy, "arrays; tensor maps and linear memory are there")
EMU_UNSUPPORTED(cuMipmappedArrayGetLevel, "arrays; tensor maps and linear memory are there")
EMU_UNSUPPORTED(cuMipmappedArrayGetMemoryRequirements, "arrays; tensor maps and linear memory are there")
EMU_UNSUPPORTED(cuMipmappedArrayGetSparseProperties, "arrays; tensor maps and linear memory are there")
EMU_UNSUPPORTED(cuModuleGetSurfRef, "surfaces; global stores write the same memory")
EMU_UNSUPPORTED(cuModuleGetTexRef, "textures; global loads read the same memory")
EMU_UNSUPPORTED(cuSurfObjectGetResourceDesc, "surfaces; global stores write the same memory")
EMU_UNSUPPORTED(cuTexObjectGetResourceDesc, "textures; global loads read the same memory")
EMU_UNSUPPORTED(cuTexObjectGetResourceViewDesc, "textures; global loads read the same memory")
EMU_UNSUPPORTED(cuTexObjectGetTextureDesc, "textures; global loads read the same memory")
