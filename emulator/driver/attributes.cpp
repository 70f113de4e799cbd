// Device attributes. The numbers are CU_DEVICE_ATTRIBUTE_s; those that the table does not name are features that the
// emulator has not: 0.
#include "driver/attributes.h"

namespace fa::emu::driver {
namespace {

constexpr int last_attribute = 147;

}  // namespace

std::optional<int> device_attribute(const DeviceLimits &limits, int attribute) {
  if (attribute < 1 || attribute > last_attribute) return {};
  switch (attribute) {
    case 1:
      return 1024;  // threads a block
    case 2:
    case 3:
      return 1024;  // block x, y
    case 4:
      return 64;  // block z
    case 5:
      return 0x7fffffff;  // grid x
    case 6:
    case 7:
      return 65535;  // grid y, z
    case 8:
      return 48 * 1024;  // shared memory a block, without opting in
    case 9:
      return 64 * 1024;  // constant memory
    case 10:
      return 32;  // warp size
    case 11:
      return 0x7fffffff;  // pitch
    case 12:
    case 82:
      return 65536;  // registers a block, a SM
    case 13:
      return limits.clock_khz;
    case 14:
      return 512;  // texture alignment
    case 15:
      return 1;  // copies during kernels
    case 16:
      return limits.sm_count;
    case 19:
      return 1;  // maps host memory
    case 31:
      return 1;  // concurrent kernels
    case 33:
      return 1;  // PCI bus, of the first device
    case 20:
      return limits.busy ? 3 : 0;  // compute mode: one process at a time, or as many as there are
    case 36:
      return limits.memory_clock_khz;
    case 37:
      return limits.bus_bits;
    case 38:
      return static_cast<int>(limits.l2_bytes);
    case 39:
      return limits.threads_per_sm;
    case 40:
      return 2;  // copy engines
    case 41:
      return 1;  // unified addressing
    case 75:
      return limits.major;
    case 76:
      return limits.minor;
    case 78:
    case 79:
    case 80:
      return 1;  // stream priorities, L1 of global and local memory
    case 81:
      return static_cast<int>(limits.shared_per_sm);
    case 51:
      return 32;  // alignment of rows
    case 87:
      return limits.minor == 0 && limits.major != 12 ? 2 : 32;  // float64 is slower by
    case 83:
    case 89:
    case 90:
      return 1;  // managed memory, concurrently; preemption
    case 88:
      return limits.pageable;
    case 95:
      return 1;  // cooperative launch
    case 97:
      return static_cast<int>(limits.shared_per_block_optin);
    case 91:
      return !limits.apart;  // registered memory has the host's addresses
    case 99:
      return 1;  // host memory can be registered
    case 92:
    case 93:
    case 94:
    case 122:
    case 123:
      return 1;  // streams wait for values of 32 and 64 bits, also if no bit matches (NOR)
    case 86:
    case 100:
    case 101:
      return limits.host_page_tables;  // with it: the host's own atomics, and its reads of managed memory in place
    case 102:
      return 1;  // virtual memory management
    case 108:
    case 109:
      return limits.major >= 8 ? static_cast<int>(limits.l2_bytes / 4 * 3) : 0;  // persisting L2
    case 106:
      return limits.blocks_per_sm;
    case 111:
      return static_cast<int>(limits.shared_reserved);
    case 115:
      return limits.pools;  // of memory
    case 120:
      return limits.has_clusters();
    case 126:
      return limits.has_clusters() ? 4 : 1;  // memory synchronisation domains
    case 129:
      return 1;  // unified function pointers
    case 130:
    case 131:
    case 134:
      return attribute == 130 ? 0 : -1;  // no NUMA
    case 127:
      return limits.has_clusters();  // tensor maps
    default:
      return 0;
  }
}

}  // namespace fa::emu::driver
