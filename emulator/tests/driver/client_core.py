"""A program on NVIDIA's cuda-core: devices, PTX, launches, buffers, streams, events, graphs."""
import numpy as np
from client_kernel import PTX, check_device
from cuda.core import Device, EventOptions, LaunchConfig, LegacyPinnedMemoryResource, ObjectCode, launch


def main():
    device = Device()
    device.set_current()
    check_device(device.name, *device.compute_capability)
    assert device.properties.multiprocessor_count > 0
    stream = device.create_stream()
    kernel = ObjectCode.from_ptx(PTX).get_kernel("change")

    n = 500
    memory = device.allocate(4 * n, stream=stream)
    pinned = LegacyPinnedMemoryResource().allocate(4 * n)
    host = np.from_dlpack(pinned).view(np.float32)
    host[:] = np.arange(n)
    memory.copy_from(pinned, stream=stream)
    begin, end = (device.create_event(EventOptions(timing_enabled=True)) for _ in range(2))
    config = LaunchConfig(grid=(n + 63) // 64, block=64)
    stream.record(begin)
    launch(stream, config, kernel, memory, np.uint32(n), np.float32(1), np.float32(7))
    stream.record(end)
    memory.copy_to(pinned, stream=stream)
    stream.sync()
    assert np.array_equal(host, np.arange(n) + 7)
    assert end - begin >= 0

    builder = stream.create_graph_builder()
    builder.begin_building()
    launch(builder, config, kernel, memory, np.uint32(n), np.float32(2), np.float32(1))
    launch(builder, config, kernel, memory, np.uint32(n), np.float32(1), np.float32(-5))
    graph = builder.end_building().complete()
    for _ in range(2):
        graph.launch(stream)
    memory.copy_to(pinned, stream=stream)
    stream.sync()
    assert np.array_equal(host, (np.arange(n) + 7) * 4 - 12)
    memory.close(stream)
    stream.sync()
    print("cuda-core: all right")


main()
