"""A program on NVIDIA's cuda-core: devices, PTX, launches, buffers, streams, events, graphs."""
import os

import numpy as np
from cuda.core import Device, EventOptions, LaunchConfig, LegacyPinnedMemoryResource, ObjectCode, launch

PTX = b"""
.version 7.0
.target sm_75
.address_size 64
.visible .entry add(.param .u64 values, .param .u32 n, .param .u32 more)
{
  .reg .pred %p<2>;
  .reg .b64 %rd<4>;
  .reg .b32 %r<9>;
  ld.param.u64 %rd1, [values];
  ld.param.u32 %r1, [n];
  ld.param.u32 %r6, [more];
  mov.u32 %r2, %ctaid.x;
  mov.u32 %r3, %ntid.x;
  mov.u32 %r4, %tid.x;
  mad.lo.s32 %r5, %r2, %r3, %r4;
  setp.ge.u32 %p1, %r5, %r1;
  @%p1 bra end;
  mul.wide.u32 %rd2, %r5, 4;
  add.s64 %rd3, %rd1, %rd2;
  ld.global.u32 %r7, [%rd3];
  add.u32 %r8, %r7, %r6;
  st.global.u32 [%rd3], %r8;
end:
  ret;
}
"""


def main():
    device = Device()
    device.set_current()
    major, minor = device.compute_capability
    print(device.name, f"{major}.{minor}", device.properties.multiprocessor_count, "SMs")
    assert os.environ["FA_EMU_DEVICE"].rstrip("af") == f"sm_{major}{minor}"
    stream = device.create_stream()
    kernel = ObjectCode.from_ptx(PTX).get_kernel("add")

    n = 500
    memory = device.allocate(4 * n, stream=stream)
    pinned = LegacyPinnedMemoryResource().allocate(4 * n)
    host = np.from_dlpack(pinned).view(np.uint32)
    host[:] = np.arange(n)
    memory.copy_from(pinned, stream=stream)
    begin, end = (device.create_event(EventOptions(timing_enabled=True)) for _ in range(2))
    config = LaunchConfig(grid=(n + 63) // 64, block=64)
    stream.record(begin)
    launch(stream, config, kernel, memory, np.uint32(n), np.uint32(7))
    stream.record(end)
    memory.copy_to(pinned, stream=stream)
    stream.sync()
    assert np.array_equal(host, np.arange(n) + 7)
    assert end - begin >= 0

    builder = stream.create_graph_builder()
    builder.begin_building()
    launch(builder, config, kernel, memory, np.uint32(n), np.uint32(100))
    launch(builder, config, kernel, memory, np.uint32(n), np.uint32(1))
    graph = builder.end_building().complete()
    for _ in range(2):
        graph.launch(stream)
    memory.copy_to(pinned, stream=stream)
    stream.sync()
    assert np.array_equal(host, np.arange(n) + 7 + 202)
    memory.close(stream)
    stream.sync()
    print("cuda-core: all right")


main()
