"""The operation alone, 32 heads over 8 of 64 elements with a causal mask, by ggml's CPU backend and by libfa in turns: medians.

Usage: speed_operation.py LIBGGML_FA [TURNS]; one thread, seconds of the processor, which other programs change little
"""
import os
import statistics
import sys
import time

import masks
import stock

SIZES = [(1, 512), (1, 2048), (1, 8192), (512, 512), (512, 2048), (512, 8192)]  # queries, keys


def seconds(case, backend, repeat):
    start = time.process_time()
    for _ in range(repeat):
        case(backend)
    return (time.process_time() - start) / repeat


def main(library, turns="5"):
    os.environ["GGML_BACKEND_PATH"] = library
    ggml = stock.Ggml(stock.fetch()[1])
    devices = [ggml.ggml_backend_dev_by_name(name) for name in (b"CPU", b"FA")]
    backends = [ggml.ggml_backend_dev_init(device, None) for device in devices]
    for device, backend in zip(devices, backends):
        masks.thread_setter(ggml, device)(backend, 1)
    for kind in "f16", "q8_0", "q4_0":
        for queries, keys in SIZES:
            case = masks.Case(ggml, masks.causal(queries, keys, keys - queries), (kind, kind), heads=(32, 8))
            taken = [[], []]
            for _ in range(int(turns)):
                for times, backend in zip(taken, backends):
                    times.append(seconds(case, backend, 20 if queries == 1 else 1))
            plain, ours = (1e3 * statistics.median(times) for times in taken)
            print(f"{kind}, {queries} x {keys}: ggml {plain:.2f} ms, libfa {ours:.2f} ms, {plain / ours:.1f}x", flush=True)
            ggml.ggml_free(case.context)


if __name__ == "__main__":
    main(*sys.argv[1:])
