// The emulated GPUs: one row of limits a compute capability, taken from a typical board.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace fa::emu::driver {

struct DeviceLimits {
  int major, minor;
  const char *name;
  int sm_count;
  uint32_t shared_per_sm, shared_per_block_optin;  // bytes; 48 KB a block without opting in
  uint32_t shared_reserved;                        // bytes a block that the system takes
  int threads_per_sm, blocks_per_sm;
  uint64_t l2_bytes;
  int clock_khz, memory_clock_khz, bus_bits;
  uint64_t memory_bytes;

  int like = 0;  // of a capability that is not in the table: the one whose limits these are

  // Features that boards have or not, whatever their generation.
  bool pools = true;              // memory in the order of streams
  bool pageable = false;          // kernels reach all memory of the host
  bool host_page_tables = false;  // by the host's own page tables
  bool busy = false;              // another process has the device for itself
  bool apart = false;             // kernels see registered memory at other addresses than the host

  // Multiprocessors that are unlike the others.
  int taken_sms = 0;   // no block gets there
  int slow_sms = 0;    // half as fast
  bool paced = false;  // they run side by side, in the time of their instructions

  int capability() const { return major * 10 + minor; }
  bool has_clusters() const { return major >= 9; }
};

/// The limits of "sm_90", "sm_90a" or "90"; for a capability that is not in the table those of the nearest lower one
/// (of the first one, where none is lower), with `like` set. Nothing where the text is no such name.
std::optional<DeviceLimits> limits_of(std::string_view name);

/// The device's name for programs; one that is not in the table does not pass for a board that exists.
std::string name_of(const DeviceLimits &device);

/// "sm_75, sm_80, ...": all of the table, for messages.
std::string known_devices();

/// Whether code for a target ("sm_90a") may run on the device: the driver's rule for PTX.
bool runs_on(std::string_view target, const DeviceLimits &device);

}  // namespace fa::emu::driver
