// Tensor maps for programs: the arguments are checked and encoded in exec/tensor_map.h.
#include "exec/tensor_map.h"

#include "driver/state.h"

using namespace fa::emu::driver;

namespace {

CUresult status_of(const std::string &wrong) {
  if (!wrong.empty()) refuse(CUDA_ERROR_INVALID_VALUE, wrong);
  return CUDA_SUCCESS;
}

void require_tensor_maps() {
  for (const auto &device : process().devices)
    if (device->limits.has_clusters()) return;
  refuse(CUDA_ERROR_NOT_SUPPORTED, "tensor maps need a device of compute capability 9.0 or later");
}

}  // namespace

EMU_API CUresult cuTensorMapEncodeTiled(void *map, uint32_t type, uint32_t rank, void *address, const uint64_t *extents,
                                        const uint64_t *strides, const uint32_t *box, const uint32_t *steps,
                                        uint32_t interleave, uint32_t swizzle, uint32_t promotion, uint32_t fill) {
  return api("cuTensorMapEncodeTiled", [&] {
    require_tensor_maps();
    return status_of(fa::emu::encode_tiled(map, type, rank, address, extents, strides, box, steps, interleave, swizzle,
                                           promotion, fill));
  });
}

EMU_API CUresult cuTensorMapEncodeIm2col(void *map, uint32_t type, uint32_t rank, void *address,
                                         const uint64_t *extents, const uint64_t *strides, const int *lower,
                                         const int *upper, uint32_t channels, uint32_t pixels, const uint32_t *steps,
                                         uint32_t interleave, uint32_t swizzle, uint32_t promotion, uint32_t fill) {
  return api("cuTensorMapEncodeIm2col", [&] {
    require_tensor_maps();
    return status_of(fa::emu::encode_im2col(map, type, rank, address, extents, strides, lower, upper, channels, pixels,
                                            steps, interleave, swizzle, promotion, fill));
  });
}

EMU_API CUresult cuTensorMapReplaceAddress(void *map, void *address) {
  return api("cuTensorMapReplaceAddress", [&] {
    require_tensor_maps();
    return status_of(fa::emu::replace_address(map, address));
  });
}
