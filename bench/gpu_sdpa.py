#!/usr/bin/env python3
"""Compares libfa with torch's scaled_dot_product_attention on a GPU: its cuDNN, flash and efficient backends, in alternation.

    bench/gpu_sdpa.py build/ci/src/libfa.so [--sweep goals|forward|decode|host ...] [--seconds N] [--json FILE]

The torch of this Python is used. Results are written after every shape; shapes beyond the seconds are named.
"""
import argparse
import json
import math
import statistics
import sys
import time
from pathlib import Path

import libfa
from gpu import calls, capture, ceilings, goals, gradients
from gpu.calls import CONTENDERS, Device, Failed, Shape, contenders, inputs

TOKENS = 16384  # of a batch of the forward sweep
WIDTH = 2048    # heads times head dimension there
TOLERANCE = {"bf16": 1e-2, "f16": 2e-3}  # of |out - reference| / |reference|


def forward_shapes():
    """The most telling shapes first."""
    for dtype, dim in [("bf16", 128), ("bf16", 64), ("f16", 128), ("f16", 64), ("bf16", 256), ("f16", 256)]:
        for rows in (4096, 16384, 1024, 512):
            for causal in (False, True):
                yield Shape(TOKENS // rows, WIDTH // dim, WIDTH // dim, rows, rows, dim, dtype, causal)
    yield Shape(1, 64, 8, 8192, 8192, 128, "bf16", False)
    yield Shape(1, 64, 8, 8192, 8192, 128, "bf16", True)


def decode_shapes():
    for batch, keys in [(1, 8192), (1, 1024), (1, 65536), (16, 8192), (128, 1024), (64, 8192), (16, 1024)]:
        yield Shape(batch, 32, 8, 1, keys, 128, "bf16", False)
    for batch, keys in [(1, 8192), (16, 8192)]:
        yield Shape(batch, 32, 32, 1, keys, 128, "bf16", False)
        yield Shape(batch, 32, 8, 1, keys, 64, "f16", False)


def work(shape):
    """Floating-point operations, and the least bytes that are moved, of a call."""
    pairs = shape.Sq * shape.Sk / 2 if shape.causal else shape.Sq * shape.Sk
    dims = shape.D + shape.columns_v
    elements = shape.B * dims * (shape.Hkv * shape.Sk + shape.Hq * shape.Sq)
    if shape.gradients:  # five products, three of them as wide as q; each input has a gradient
        return 2 * shape.B * shape.Hq * pairs * (dims * 2 + shape.D), 2 * elements * 2
    return 2 * shape.B * shape.Hq * pairs * dims, 2 * elements


def spread(times):
    """Half of the times are in this part of the median."""
    low, _, high = statistics.quantiles(times, n=4)
    return (high - low) / statistics.median(times)


def compare(device, library, shape, rounds, ceiling, stream):
    """All contenders on one shape: correct first, then medians of alternating rounds."""
    operations, least_bytes = work(shape)
    kind, tolerance = (gradients, gradients.TOLERANCE) if shape.gradients else (calls, TOLERANCE)
    if shape.gradients:
        stream = CONTENDERS  # torch's run where their forward calls did, and no call is short
    sets = kind.inputs(device, shape, least_bytes)
    entry = {**shape._asdict(), "shape": str(shape), "input_sets": len(sets), "contenders": {}}
    timed = {}
    for name, make in kind.contenders(device, library, shape).items():
        facts = entry["contenders"][name] = {}
        try:
            call = make(sets)
            facts["error"] = kind.error_of(device, call, sets, shape)
            if not facts["error"] <= tolerance[shape.dtype]:
                raise Failed(f"wrong: error {facts['error']:.2g}, allowed is {tolerance[shape.dtype]:.2g}")
            timed[name] = device.prepare(call, len(sets), name not in stream)
            facts.update(call.facts, timing=timed[name].kind)
        except (RuntimeError, Failed) as failure:
            facts["not_measured"] = str(failure).strip().splitlines()[0][:300]
    names = list(timed)
    times = {name: [] for name in names}
    for i in range(rounds):
        for name in names[i % len(names):] + names[: i % len(names)]:
            times[name].append(timed[name]())
    for name in names:
        median = statistics.median(times[name])
        facts = entry["contenders"][name]
        facts.update(ms=median, spread=spread(times[name]), TFLOPs=operations / median / 1e9, TBs=least_bytes / median / 1e9)
        if shape.Sq > 8 and ceiling.get("bf16_TFLOPs"):
            facts["of_product"] = facts["TFLOPs"] / ceiling[f"{shape.dtype}_TFLOPs"]
        elif ceiling.get("copy_TBs"):
            facts["of_copy"] = facts["TBs"] / ceiling["copy_TBs"]
    peers = {name: entry["contenders"][name]["ms"] for name in names if name != "libfa"}
    if peers and "libfa" in timed:
        entry["best_peer"] = min(peers, key=peers.get)
        entry["ratio"] = peers[entry["best_peer"]] / entry["contenders"]["libfa"]["ms"]
    return entry


def host_overhead(device, library):
    """Microseconds that the host spends in a call: the least of bursts, each shorter than the device's queue."""
    shape = Shape(1, 1, 1, 1, 64, 64, "f16", False)
    sets = inputs(device, shape, 1 << 40)
    calls = {"ctypes alone": lambda _: library.handle.fa_version()}
    result = {}
    for name, make in contenders(device, library, shape).items():
        try:
            call = make(sets)
            call(0)
            calls[name] = call
        except (RuntimeError, Failed) as failure:
            result[name] = {"not_measured": str(failure).strip().splitlines()[0][:300]}
    for name, call in calls.items():
        bursts = []
        for _ in range(20):
            device.wait()
            start = time.perf_counter()
            for _ in range(200):
                call(0)
            bursts.append((time.perf_counter() - start) / 200 * 1e6)
        result[name] = {"us": min(bursts), "median_us": statistics.median(bursts)}
    return result


def line(entry):
    """A shape as a line of a table: its milliseconds, and the best peer over libfa."""
    ms = " ".join(f"{name} {facts['ms']:.4f}" if "ms" in facts else f"{name} -" for name, facts in entry["contenders"].items())
    best = f"; {entry['ratio']:.2f} times as fast as {entry['best_peer']}" if "ratio" in entry else ""
    return f"{entry['shape']}: {ms} ms{best}"


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("library", help="path of libfa.so")
    parser.add_argument("--sweep", nargs="+", choices=["host", "goals", "forward", "decode"], default=["host", "forward", "decode"])
    parser.add_argument("--seconds", type=float, default=180, help="no shape is begun after them")
    parser.add_argument("--rounds", type=int, default=7, help="timed repetitions of each contender at every shape")
    parser.add_argument("--json", type=Path, help="also write the results to this file")
    parser.add_argument("--stream", nargs="*", choices=CONTENDERS, metavar="NAME",
                        help="contenders to time without CUDA graphs; by default those that fail in gpu/capture.py, run first")
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda", help="cpu: a trial of this program, at small sizes")
    return parser.parse_args()


def main():
    options = parse()
    end = time.monotonic() + options.seconds
    stream = options.stream
    if stream is None:
        stream = [] if options.device == "cpu" else [name for name in CONTENDERS if not capture.works(options.library, name)]
    device, library = Device(options.device), libfa.Library(options.library)
    ceiling = {}
    if options.device == "cuda":
        ceiling = {"copy_TBs": ceilings.copy(device.torch), **{
            f"{name}_TFLOPs": ceilings.product(device.torch, device.dtype(name)) for name in ("bf16", "f16")}}
    result = {**device.facts(), "library": library.handle.fa_build_info().decode(), "ceiling": ceiling, "host": {},
              "shapes": [], "not_begun": 0}
    sweeps = {"goals": [goal.shape for goal in goals.goals()], "forward": list(forward_shapes()), "decode": list(decode_shapes())}
    if options.device == "cpu":
        small = Shape(1, 2, 2, 64, 64, 64, "bf16", True)
        sweeps = {"goals": [small._replace(gradients="fixed"), small._replace(Hq=4, causal=False, gradients="any"), small._replace(Dv=32)],
                  "forward": [small], "decode": [Shape(2, 4, 2, 1, 128, 64, "f16", False, page=page) for page in (0, 16)]}
    if "host" in options.sweep:
        result["host"] = host_overhead(device, library)
    for shape in [shape for name in options.sweep for shape in sweeps.get(name, [])]:
        if time.monotonic() > end:
            result["not_begun"] += 1
            continue
        result["shapes"].append(compare(device, library, shape, options.rounds, ceiling, stream))
        device.release()
        print(line(result["shapes"][-1]), flush=True)
        if options.json:
            options.json.write_text(json.dumps(result, indent=1) + "\n")
    if "goals" in options.sweep:
        result["goals"] = goals.judged(result["shapes"], ceiling, result.get("gpu", ""))
        print("", *goals.table(result["goals"]), sep="\n")
    if options.json:
        options.json.write_text(json.dumps(result, indent=1) + "\n")
    ratios = [shape["ratio"] for shape in result["shapes"] if "ratio" in shape]
    if ratios:
        mean = math.exp(statistics.mean(math.log(ratio) for ratio in ratios))
        print(f"\n{mean:.2f} times as fast as the best of the others (geometric mean of {len(ratios)} shapes)")
    wrong = [entry for entry in result["shapes"] if "not_measured" in entry["contenders"]["libfa"]]
    for entry in wrong:
        print(f"libfa not measured at {line(entry)}: {entry['contenders']['libfa']['not_measured']}")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
