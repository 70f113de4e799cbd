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

/// The tables behind this are private to NVIDIA's own runtime, which therefore does not start on the emulator.
EMU_API CUresult cuGetExportTable(const void **table, const CUuuid *) {
  return api(
      "cuGetExportTable",
      [&]() -> CUresult {
        require(table != nullptr, "no place for the table");
        *table = nullptr;
        refuse(CUDA_ERROR_NOT_FOUND,
               "the emulator has no private tables, which libcudart needs: use the driver API, which is complete "
               "without (cuLibraryLoadData, cuLaunchKernelEx)");
      },
      true);
}
