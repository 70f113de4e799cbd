// Values that streams write to memory, and wait for there: cuStreamWriteValue, cuStreamWaitValue and batches of them.
#include <cstring>

#include "driver/memory_table.h"
#include "driver/state.h"
#include "driver/submit.h"

using namespace fa::emu::driver;

namespace {

enum BatchType : int { wait_32 = 1, write_32 = 2, flush = 3, wait_64 = 4, write_64 = 5, barrier = 6 };

ValueWork value_work(int type, CUdeviceptr address, uint64_t value, unsigned flags) {
  constexpr unsigned max_wait_flags = 3, flush_flag = 1u << 30, no_barrier = 1;
  ValueWork work;
  work.waits = type == wait_32 || type == wait_64;
  work.address = address;
  work.value = value;
  work.bytes = type == wait_32 || type == write_32 ? 4 : 8;
  if (work.waits) {
    require((flags & ~flush_flag) <= max_wait_flags, "unknown flags");
    work.comparison = static_cast<ValueWork::Comparison>(flags & ~flush_flag);
  } else {
    require(flags <= no_barrier, "unknown flags");
  }
  return work;
}

CUresult submit_value(const char *name, CUstream stream, int type, CUdeviceptr address, uint64_t value,
                      unsigned flags) {
  return api(name, [&] {
    Lock lock(process().mutex);
    submit(stream_of(stream), value_work(type, address, value, flags));
    return CUDA_SUCCESS;
  });
}

}  // namespace

namespace fa::emu::driver {

bool ValueWork::is_there() const {
  uint64_t found = 0;
  std::memcpy(&found, reinterpret_cast<const void *>(address), bytes);
  uint64_t mask = bytes == 4 ? UINT32_MAX : UINT64_MAX;
  uint64_t difference = (found - value) & mask;
  switch (comparison) {
    case greater_or_equal:  // by the sign of the difference, so that counters may wrap
      return difference <= mask / 2;
    case equal:
      return difference == 0;
    case any_bit:
      return (found & value & mask) != 0;
    case none_of_bits:
      return (~(found | value) & mask) != 0;
  }
  return true;
}

void ValueWork::write() const {
  std::memcpy(reinterpret_cast<void *>(address), &value, bytes);
}

}  // namespace fa::emu::driver

EMU_API CUresult cuStreamWriteValue32_v2(CUstream stream, CUdeviceptr address, uint32_t value, unsigned flags) {
  return submit_value("cuStreamWriteValue32", stream, write_32, address, value, flags);
}
EMU_API CUresult cuStreamWriteValue64_v2(CUstream stream, CUdeviceptr address, uint64_t value, unsigned flags) {
  return submit_value("cuStreamWriteValue64", stream, write_64, address, value, flags);
}
EMU_API CUresult cuStreamWaitValue32_v2(CUstream stream, CUdeviceptr address, uint32_t value, unsigned flags) {
  return submit_value("cuStreamWaitValue32", stream, wait_32, address, value, flags);
}
EMU_API CUresult cuStreamWaitValue64_v2(CUstream stream, CUdeviceptr address, uint64_t value, unsigned flags) {
  return submit_value("cuStreamWaitValue64", stream, wait_64, address, value, flags);
}

/// Entries are checked before any is enqueued.
EMU_API CUresult cuStreamBatchMemOp_v2(CUstream handle, unsigned count, CudaBatchEntry *entries, unsigned flags) {
  return api("cuStreamBatchMemOp", [&] {
    Lock lock(process().mutex);
    require(entries != nullptr && count >= 1 && count <= 256 && flags == 0, "1 to 256 entries, and no flags");
    Stream &stream = stream_of(handle);
    std::vector<ValueWork> works;
    for (unsigned i = 0; i < count; i++) {
      const CudaBatchEntry &entry = entries[i];
      require(entry.type >= wait_32 && entry.type <= barrier, "no such operation");
      if (entry.type == flush || entry.type == barrier) continue;
      works.push_back(value_work(entry.type, entry.address, entry.value, entry.flags));
      check(*stream.context, works.back());
    }
    for (const ValueWork &work : works) submit(stream, work);
    return CUDA_SUCCESS;
  });
}
