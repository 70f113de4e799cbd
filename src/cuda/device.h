// The GPUs of this machine, as the driver describes them; found once a process.
#pragma once

#include <cstddef>

#include "cuda/driver.h"

namespace fa::cuda {

/// The attributes from which kernels are chosen and calls planned, never the name of a product.
struct Device {
  CUdevice handle;
  int index;
  char name[96];
  int capability;        // 80 for 8.0
  int sm_count;          // of a MIG slice: its own
  int shared_per_block;  // bytes that a block may opt in to
  int shared_per_sm;     // bytes; 0: not known
  int threads_per_sm;    // 0: not known
  int l2_bytes;          // of the cache that all multiprocessors share; 0: not known
  double memory_rate;    // bytes that memory delivers to each multiprocessor in a clock, all reading; 0: not known
  bool pools;            // memory may be allocated in the order of a stream
  bool pageable;         // reaches all memory of the host
  bool host_tables;      // by the host's own page tables: without moving pages
  char unavailable_reason[256];  // why it cannot be used, as the driver does not describe it; "" when it can

  bool usable() const { return *unavailable_reason == '\0'; }
  int major() const { return capability / 10; }
};

/// The most devices of a process: more than any machine has.
constexpr int max_devices = 64;

/// The driver and its devices, of which some may not be usable. Nothing of it is allocated, as it has to be found
/// whether or not memory is short, and it needs no destruction: calls may still run when the program ends.
struct Machine {
  Driver driver;
  Device devices[max_devices] = {};
  int device_count = 0;
  char why_none[512] = "";  // why there is no device; "" when there is one

  Machine();
};

/// Why a process may not use the driver that it has inherited: nullptr where it has not; else it was forked from one
/// that had started the driver, which CUDA does not survive.
const char *forked_reason();

/// Never fails: a machine without a usable driver has no devices, and a reason.
const Machine &machine();

}  // namespace fa::cuda
