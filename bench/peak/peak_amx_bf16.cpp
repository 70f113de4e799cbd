// Peak loop for products of bf16 tiles.
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "peak_loops.h"

namespace fa::bench {

bool permits_amx_bf16() {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  constexpr unsigned bf16 = 1u << 22, tiles = 1u << 24;
  if (__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) == 0 || (edx & bf16) == 0 || (edx & tiles) == 0) return false;
  constexpr long request = 0x1023, tile_data = 18;  // ARCH_REQ_XCOMP_PERM, which Linux answers for the whole process
  return syscall(SYS_arch_prctl, request, tile_data) == 0;
}

double dot_bf16_amx(int64_t rounds) {
  struct alignas(64) {
    uint8_t palette = 1, start_row = 0, reserved[14] = {};
    uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
    uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
  } const shape;
  asm volatile("ldtilecfg %0" ::"m"(shape));  // all tiles are 0
  for (int64_t k = 0; k < rounds; ++k)
    asm volatile(
        "tdpbf16ps %tmm6, %tmm4, %tmm0\n\ttdpbf16ps %tmm7, %tmm4, %tmm1\n\t"
        "tdpbf16ps %tmm6, %tmm5, %tmm2\n\ttdpbf16ps %tmm7, %tmm5, %tmm3");
  asm volatile("tilerelease");
  return 4.0 * 2 * 16 * 16 * 32 * static_cast<double>(rounds);
}

}  // namespace fa::bench
