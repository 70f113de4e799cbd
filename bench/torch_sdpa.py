#!/usr/bin/env python3
"""Compares libfa with torch's scaled_dot_product_attention on the CPU, in alternating calls.

    bench/torch_sdpa.py build/src/libfa.so [--backward] [--threads N] [--heads N] [--rows N,N] [--rounds N] [--json FILE]
                                           [--environment FOLDER]

Makes its own environment with torch on the first run (see torch_environment.py). Never part of the tests.
"""
import argparse
import itertools
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

HEAD_DIMS = [64, 128]
MODES = [("f32", False), ("f32", True), ("f16", False), ("f16", True), ("bf16", False), ("bf16", True)]
# How many times as fast as torch libfa is to be, the median of the shapes, on one thread: gradients by the kernel, the forward
# pass by the machine.
BACKWARD_GOALS = {"cpu.avx2": 1.3, "cpu.avx512": 2.0, "cpu.avx512_bf16": 3.0}
GOALS = {"zen5": {"f32 full": 2.3, "f32 causal": 3.0, "bf16 full": 4.8}, "zen4": {"f32 full": 1.1, "f32 causal": 1.4, "bf16 full": 2.0}}


def machine():
    """The kind of CPU as far as goals depend on it, and its name."""
    text = Path("/proc/cpuinfo").read_text()
    flags = next(line for line in text.splitlines() if line.startswith("flags")).split()
    name = next(line for line in text.splitlines() if line.startswith("model name")).split(": ")[1]
    amd = "AuthenticAMD" in text
    kind = "zen5" if amd and "avx512_vp2intersect" in flags else "zen4" if amd and "avx512_bf16" in flags else "other"
    return kind, name


def lengths(text):
    return [int(number) for number in text.split(",")]


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("library", help="path of libfa.so")
    parser.add_argument("--backward", action="store_true", help="compare gradients")
    parser.add_argument("--environment", default="build-torch", help="folder of the environment with torch (made if missing)")
    parser.add_argument("--threads", type=int, default=1, help="of both; with more than one, time is the wall clock's")
    parser.add_argument("--heads", type=int, default=8, help="of a batch of one: 1 is a single long head")
    parser.add_argument("--rows", type=lengths, default=[1024, 4096], help="sequence lengths, with commas between")
    parser.add_argument("--rounds", type=int, default=7, help="timed calls of each at every shape")
    parser.add_argument("--json", help="also write the result to this file")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args()


def in_turn(theirs, ours, options):
    """Seconds of both, medians of alternating calls. On one thread they are the CPU's, so that other work on the machine does not
    count."""
    clock = time.process_time if options.threads == 1 else time.perf_counter
    times = ([], [])
    for _ in range(options.rounds):
        for call, seconds in zip((theirs, ours), times):
            start = clock()
            call()
            seconds.append(clock() - start)
    return statistics.median(times[0]), statistics.median(times[1])


def compare_gradients(library, dtype, causal, rows, head_dim, options):
    """compare, for the gradients of q, k and v."""
    import torch

    import libfa

    kind = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}[dtype]
    generator = torch.Generator().manual_seed(1)
    q, k, v, dout = (torch.randn(1, options.heads, rows, head_dim, generator=generator).to(kind) for _ in range(4))
    out, dq, dk, dv = (torch.empty_like(q) for _ in range(4))
    lse = torch.empty(1, options.heads, rows, 1)
    view = lambda t: (t.data_ptr(), t.transpose(1, 2).shape, t.transpose(1, 2).stride())
    attention = libfa.Attention(library, dtype, causal, options.threads, view(q), view(k), view(v), view(out))
    ours = libfa.Backward(attention, (lse.data_ptr(), lse.shape, lse.stride()), *map(view, (dout, dq, dk, dv)))
    inputs = [t.clone().requires_grad_() for t in (q, k, v)]
    with torch.enable_grad():
        result = torch.nn.functional.scaled_dot_product_attention(*inputs, is_causal=causal)
    theirs = lambda: torch.autograd.grad(result, inputs, dout, retain_graph=True)
    expected = theirs()
    ours()
    difference = max((a.float() - b.float()).abs().max().item() for a, b in zip(expected, (dq, dk, dv)))
    return *in_turn(theirs, ours, options), difference, attention.kernel


def compare(library, dtype, causal, rows, head_dim, options):
    """Seconds of torch and of libfa (medians of alternating calls), the largest difference, and libfa's kernel."""
    import torch

    import libfa

    kind = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}[dtype]
    generator = torch.Generator().manual_seed(1)
    q, k, v = (torch.randn(1, options.heads, rows, head_dim, generator=generator).to(kind) for _ in range(3))
    out = torch.empty_like(q)
    view = lambda t: (t.data_ptr(), t.transpose(1, 2).shape, t.transpose(1, 2).stride())
    ours = libfa.Attention(library, dtype, causal, options.threads, view(q), view(k), view(v), view(out))
    sdpa = torch.nn.functional.scaled_dot_product_attention
    theirs = lambda: sdpa(q, k, v, is_causal=causal)
    expected = theirs()
    ours()
    difference = (expected.float() - out.float()).abs().max().item()
    return *in_turn(theirs, ours, options), difference, ours.kernel


def main():
    options = parse()
    if not options.inside:
        import torch_environment

        python = torch_environment.create(options.environment)
        environment = dict(os.environ, OMP_NUM_THREADS=str(options.threads))
        sys.exit(subprocess.run([python, *sys.argv, "--inside"], env=environment).returncode)

    import torch

    import libfa

    torch.set_num_threads(options.threads)
    torch.set_grad_enabled(False)
    library = libfa.Library(options.library)
    measure = compare_gradients if options.backward else compare
    kind, name = machine()
    capability = torch.backends.cpu.get_cpu_capability()
    print(f"{name}; torch {torch.__version__} ({capability}); threads: {options.threads}; heads: {options.heads}")
    print(f"{library.handle.fa_build_info().decode()}\n")
    print("| | shape (S, D) | torch ms | libfa ms | times as fast | largest difference |")
    print("|---|---|---|---|---|---|")
    kernels = {}
    result = {"cpu": name, "torch": torch.__version__, "capability": capability, "threads": options.threads, "heads": options.heads}
    result.update(shapes=[], median={})
    for dtype, causal in MODES:
        mode = f"{dtype} {'causal' if causal else 'full'}"
        ratios = []
        for rows, head_dim in itertools.product(options.rows, HEAD_DIMS):
            theirs, ours, difference, kernel = measure(library, dtype, causal, rows, head_dim, options)
            ratios.append(theirs / ours)
            result["shapes"].append(
                {"mode": mode, "S": rows, "D": head_dim, "torch_ms": theirs * 1e3, "libfa_ms": ours * 1e3,
                 "ratio": theirs / ours, "difference": difference, "kernel": kernel}
            )
            print(f"| {mode} | {rows}, {head_dim} | {theirs * 1e3:.2f} | {ours * 1e3:.2f} | {theirs / ours:.2f} | {difference:.1e} |", flush=True)
        result["median"][mode] = statistics.median(ratios)
        kernels[mode] = kernel
    print("\n| median of the shapes | goal | measured | verdict |\n|---|---|---|---|")
    for mode, ratio in result["median"].items():
        goal = BACKWARD_GOALS.get(kernels[mode]) if options.backward else GOALS.get(kind, {}).get(mode)
        if options.threads > 1:
            goal = None
        verdict = "reported" if goal is None else "reached" if ratio >= goal else "MISSED"
        print(f"| {mode} | {goal or '-'} | {ratio:.2f} | {verdict} |")
    if options.json:
        Path(options.json).write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
