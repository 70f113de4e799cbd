#!/usr/bin/env python3
"""The peaks of this GPU, measured through torch: copying its memory, and multiplying large random matrices.

    bench/gpu/ceilings.py       prints JSON: the GPU, versions, TB/s, TFLOP/s
"""
import json
import statistics


def milliseconds(torch, call, repeats=10, rounds=5):
    """The median over the rounds, by the device's clock."""
    for _ in range(3):
        call()
    times = []
    for _ in range(rounds):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        for _ in range(repeats):
            call()
        end.record()
        end.synchronize()
        times.append(start.elapsed_time(end) / repeats)
    return statistics.median(times)


def product(torch, dtype, size=8192):
    """TFLOP/s of a product of square matrices of normal random numbers (zeros would run faster)."""
    a, b = (torch.randn(size, size, device="cuda").to(dtype) for _ in range(2))
    out = torch.empty(size, size, device="cuda", dtype=dtype)
    return 2 * size**3 / milliseconds(torch, lambda: torch.matmul(a, b, out=out)) / 1e9


def copy(torch, gigabytes=2):
    """TB/s from memory of the device to memory of the device, bytes read and bytes written counted."""
    source = torch.randint(-128, 127, (int(gigabytes * 2**30),), dtype=torch.int8, device="cuda")
    target = torch.empty_like(source)
    return 2 * source.numel() / milliseconds(torch, lambda: target.copy_(source)) / 1e9


def describe(torch):
    properties = torch.cuda.get_device_properties(0)
    names = ["name", "major", "minor", "multi_processor_count", "total_memory", "L2_cache_size",
             "shared_memory_per_block_optin", "shared_memory_per_multiprocessor", "regs_per_multiprocessor",
             "max_threads_per_multi_processor", "warp_size"]
    device = {name: getattr(properties, name) for name in names if hasattr(properties, name)}
    return {"device": device, "torch": torch.__version__, "cuda": torch.version.cuda,
            "cudnn": torch.backends.cudnn.version()}


def main():
    import torch

    result = describe(torch)
    free = torch.cuda.mem_get_info()[0] / 2**30
    result["copy_TBs"] = copy(torch, min(4, free / 4))
    result["bf16_TFLOPs"] = product(torch, torch.bfloat16)
    result["f16_TFLOPs"] = product(torch, torch.float16)
    torch.backends.cuda.matmul.allow_tf32 = False
    result["f32_TFLOPs"] = product(torch, torch.float32, 4096)
    print(json.dumps(result))


if __name__ == "__main__":
    main()
