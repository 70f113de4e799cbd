// Which addresses are memory that kernels and copies may touch, on any device, and the properties of each allocation.
#pragma once

#include <cstdint>

#include "driver/state.h"

namespace fa::emu::driver {

/// Whether a range is in one allocation, or in adjacent mappings; where device_only is false, memory of the host
/// that nobody has registered counts too.
bool is_accessible(uint64_t address, uint64_t bytes, bool device_only);
/// Whether an address is memory that the driver knows: of a device, pinned, registered or managed.
bool is_known(uint64_t address);
/// The allocation that holds an address, or null. Hold the process's lock.
Allocation *find_allocation(uint64_t address);
/// Allocates on a device and enters it in the table; refuses where memory does not suffice.
uint64_t make_allocation(Context &context, Device &device, uint64_t bytes, memory::RangeKind kind,
                         Pool *pool = nullptr);
/// Gives an allocation's memory back; false where none begins there.
bool release_allocation(uint64_t address);

}  // namespace fa::emu::driver
