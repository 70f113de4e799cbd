// The functions by which the runtime starts: the context of each device, before anybody uses it, and that a context is
// no other API's (the emulator has no other).
#include "driver/export_table.h"
#include "driver/state.h"

using namespace fa::emu::driver;

namespace {

/// The handle alone: the context comes to life when it is retained.
CUresult get_primary_context(CUcontext *handle, CUdevice ordinal) {
  return api_value("cudart: get the primary context", handle, "context",
                   [&] { return handle_of<CUcontext>(&primary_of(device_at(ordinal))); });
}

/// Makes the driver's compiler of PTX ready, which is not apart from the rest here.
CUresult load_compiler() {
  return CUDA_SUCCESS;
}

struct Interface {
  static constexpr const char *name = "CUDART_INTERFACE";
  static constexpr ExportId id = {0x6b, 0xd5, 0xfb, 0x6c, 0x5b, 0xf4, 0xe7, 0x4a,
                                  0x89, 0x87, 0xd9, 0x39, 0x12, 0xfd, 0x9d, 0xf9};
  static constexpr size_t words = 13;
  static constexpr bool sized = true;
};
const ExportTable<Interface> interface({{2, address_of(get_primary_context)}, {12, address_of(load_compiler)}});

/// Whether a context wraps one of another API, and which; none does.
CUresult unwrap(CUcontext, uint32_t *wrapped, void **) {
  if (wrapped) *wrapped = 0;
  return CUDA_SUCCESS;
}
uint32_t get_wrappers() {
  return 0;
}

struct Wrappers {
  static constexpr const char *name = "CONTEXT_CHECKS";
  static constexpr ExportId id = {0x26, 0x3e, 0x88, 0x60, 0x7c, 0xd2, 0x61, 0x43,
                                  0x92, 0xf6, 0xbb, 0xd5, 0x00, 0x6d, 0xfa, 0x7e};
  static constexpr size_t words = 4;
  static constexpr bool sized = true;
};
const ExportTable<Wrappers> wrappers({{2, address_of(unwrap)}, {3, address_of(get_wrappers)}});

/// Functions of contexts. The runtimes of CUDA 13.4 and later want it to be there, and were not seen to call any.
struct Contexts {
  static constexpr const char *name = "CONTEXT_INTERFACE";
  static constexpr ExportId id = {0x21, 0x31, 0x8c, 0x60, 0x97, 0x14, 0x32, 0x48,
                                  0x8c, 0xa6, 0x41, 0xff, 0x73, 0x24, 0xc8, 0xf2};
  static constexpr size_t words = 95;
  static constexpr bool sized = true;
};
const ExportTable<Contexts> contexts({});

}  // namespace
