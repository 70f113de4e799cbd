#!/usr/bin/env python3
"""Compares libfa's decode step on the CPU with ggml, ONNX Runtime and torch, next to a plain read of as many bytes.

    bench/decode_peers.py build/release [--threads N] [--types f32,f16,bf16] [--keys 2048,8192,32768] [--heads N] [--group N]
                          [--rounds N] [--json FILE] [--environment FOLDER]

One query token of each head; keys and values are (1, heads, keys, 128), every head's rows consecutive, as each of these libraries
has them fastest. They are read from memory: calls alternate between caches that together exceed the processor's. A round
times each subject once. Figures are medians of the rounds, on one thread of the process's CPU time and else of the wall clock.

Makes its own environment on the first run: torch (torch_environment.py), ONNX Runtime from PyPI, and from npm the package of
node-llama-cpp, which has ggml as its authors compile it (npm is needed). Never part of the tests.
"""
import argparse
import ctypes as c
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

HEAD_DIM = 128
BYTES = {"f32": 4, "f16": 2, "bf16": 2}


def listed(kind):
    return lambda text: [kind(each) for each in text.split(",")]


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build", type=Path, help="folder of a release build with FA_BUILD_BENCH=ON")
    parser.add_argument("--threads", type=int, default=1, help="of every subject")
    parser.add_argument("--types", type=listed(str), default=list(BYTES), help="of keys and values, with commas between")
    parser.add_argument("--keys", type=listed(int), default=[2048, 8192, 32768], help="with commas between")
    parser.add_argument("--heads", type=int, default=8, help="of keys and values")
    parser.add_argument("--group", type=int, default=4, help="query heads of each")
    parser.add_argument("--rounds", type=int, default=31, help="timed calls of each subject in every row of the table")
    parser.add_argument("--json", type=Path, help="also write the medians to this file")
    parser.add_argument("--environment", type=Path, default=Path("build-decode-peers"), help="its folder (made if missing)")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args()


def measure(subjects, caches, options):
    """{name: median seconds}: every subject works on every cache, the subjects alternating."""
    clock = time.process_time if options.threads == 1 else time.perf_counter
    times = {name: [] for name in subjects}
    names = list(subjects)
    for round_ in range(options.rounds + 1):  # the first one is not counted
        for i, name in enumerate(names):
            cache = (round_ + i) % caches
            start = clock()
            subjects[name](cache)
            if round_:
                times[name].append(clock() - start)
    return {name: statistics.median(each) for name, each in times.items()}


def compare(peers, dtype, keys, options):
    """{name: (median seconds, largest difference from libfa)} of one row of the table."""
    import numpy

    from decode_subjects import Caches, Shape

    shape = Shape(dtype, options.heads, options.group, keys, HEAD_DIM, options.threads)
    caches = Caches(shape, peers.read.cold_bytes())
    subjects, results = {}, {}
    for name, peer in peers.items():
        subject = peer(caches)
        if subject is not None:
            subjects[name] = subject
            results[name] = numpy.asarray(subject(0)).astype(numpy.float64) if name != "read" else None
    times = measure(subjects, len(caches), options)
    different = {name: abs(result - results["libfa"]).max() for name, result in results.items() if result is not None}
    return {name: (seconds, different.get(name)) for name, seconds in times.items()}, caches.bytes


def main():
    options = parse()
    if not options.inside:
        import decode_environment

        python = decode_environment.create(options.environment)
        environment = os.environ | {"OMP_NUM_THREADS": str(options.threads), "OMP_WAIT_POLICY": "active"}
        sys.exit(subprocess.run([python, *sys.argv, "--inside"], env=environment).returncode)

    from decode_subjects import Peers

    peers = Peers(options.build, options.environment, options.threads)
    print(f"{peers.description}; threads: {options.threads}; heads: {options.heads * options.group} of q, {options.heads} of k and v")
    print("\n| type, keys | plain read | " + " | ".join(f"{name}, % of it" for name in peers if name != "read") + " | libfa against the fastest peer |")
    print("|---|---|" + "---|" * len(peers))
    rows = []
    for dtype in options.types:
        for keys in options.keys:
            found, size = compare(peers, dtype, keys, options)
            read, ours = found["read"][0], found["libfa"][0]
            best = min((seconds, name) for name, (seconds, _) in found.items() if name not in ("read", "libfa"))
            cells = [f"{100 * read / found[name][0]:.0f}" if name in found else "-" for name in peers if name != "read"]
            print(f"| {dtype}, {keys} | {size / read * 1e-9:.1f} GB/s | {' | '.join(cells)} | {best[0] / ours:.2f} ({best[1]}) |", flush=True)
            rows.append({"dtype": dtype, "keys": keys, "bytes": size, "seconds": {name: each[0] for name, each in found.items()},
                         "difference": {name: each[1] for name, each in found.items() if each[1] is not None}})
    if options.json:
        options.json.write_text(json.dumps({"machine": peers.description, "threads": options.threads, "heads": options.heads,
                                            "group": options.group, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
