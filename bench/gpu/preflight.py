#!/usr/bin/env python3
"""Says within a minute the parts that a GPU session would miss: before a GPU is paid for, and again in front of it.

    scripts/preflight.sh [--pack FOLDER] [--on-gpu]
"""
import argparse
import ctypes
import os
import struct
import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from gpu import tools
from gpu.tools import ROOT

MOST_BYTES = 64 << 20  # that travel: the checkout's files and the pack
LEAST_FREE = 20 << 30  # bytes of the GPU's memory: the largest shapes take several sets of inputs
SOURCES = ["include/fa.h", "bench/libfa.py", "bindings/header.py", "bench/gpu_sdpa.py", "bench/gpu/ceilings.py",
           "examples/data/layer0_q.npy", "examples/data/cu_seqlens.npy"]
FATBIN = 0xBA55ED50


def fatbin_problem(file):
    """None for a whole fatbin; its header says how long it is."""
    if not file.exists():
        return f"{file} is missing"
    data = file.read_bytes()
    if len(data) < 16 or struct.unpack_from("<I", data)[0] != FATBIN:
        return f"{file} is no fatbin"
    _, _, header, size = struct.unpack_from("<IHHQ", data)
    return None if len(data) >= header + size else f"{file} is cut off: {len(data)} bytes of {header + size}"


def tree_bytes():
    """The bytes of the checkout's files, new ones included; 0 where there is no repository."""
    files = tools.git("ls-files", "--cached", "--others", "--exclude-standard", "-z") or ""
    paths = (ROOT / file for file in files.split("\0") if file)
    return sum(path.lstat().st_size for path in paths if path.is_file())


def luggage(pack):
    """The files that have to travel, in a line."""
    mib = 1 << 20
    return (f"take along the checkout ({tree_bytes() / mib:.1f} MiB) and {os.path.relpath(pack.folder, ROOT)} "
            f"({pack.bytes() / mib:.1f} MiB), of {MOST_BYTES // mib} MiB")


def pack_problems(pack):
    facts = pack.facts
    if not facts:
        return [f"{pack.folder} has no pack.json: scripts/gpu-session.sh prepare --sm 90 makes it"]
    found = [f"{name} of the pack is missing" for name in facts["files"] if not (pack.folder / name).exists()]
    found += filter(None, (fatbin_problem(pack.ported / name) for name in facts["ported"]))
    if f"sm_{facts['sm']}" not in {arch.rstrip("af") for arch in facts["archs"]}:
        found.append(f"the library has no kernels for sm_{facts['sm']}: it has {', '.join(facts['archs'])}")
    head = tools.git("rev-parse", "HEAD")
    if head and head != facts["commit"]:
        found.append(f"the pack is of commit {facts['commit'][:10]}, the checkout is at {head[:10]}: prepare it again")
    if pack.bytes() + tree_bytes() > MOST_BYTES:
        found.append(f"{luggage(pack)}: too much")
    return found


def load_problems(pack):
    """Whether the library and the programs start on this machine, which may have another C library."""
    found = []
    try:
        ctypes.CDLL(str(pack.library)).fa_version()
    except (OSError, AttributeError) as error:
        found.append(f"libfa does not load: {error}")
    outcome = tools.run([pack.program("fa"), "info", "--json"], 30, pack.environment())
    if outcome.code != 0:
        found.append(f"the tool does not run: {outcome.tail(2)}")
    return found


def gpu_problems(pack):
    """The problems of the machine with the GPU: the driver, kernels that run there, memory."""
    _, why = pack.kernels()
    found = [f"no kernel runs here: {why}"] if why else []
    outcome = tools.run(["nvidia-smi", "--query-gpu=memory.free", "--format=csv,noheader,nounits"], 20)
    if outcome.code != 0:
        return found + [f"nvidia-smi: {outcome.tail(1)}"]
    free = int(outcome.output.split()[0]) << 20
    return found + ([f"{free >> 20} MiB of the GPU's memory are free, expected {LEAST_FREE >> 20}"] if free < LEAST_FREE else [])


def problems(pack, on_gpu=False):
    found = [f"{name} is missing from the checkout" for name in SOURCES if not (ROOT / name).exists()]
    found += pack_problems(pack)
    if pack.facts:
        found += load_problems(pack) + (gpu_problems(pack) if on_gpu else [])
    return found


def main():
    parser = argparse.ArgumentParser(prog="scripts/preflight.sh", description=__doc__.splitlines()[0])
    parser.add_argument("--pack", default=ROOT / "build" / "session", help="the output of scripts/gpu-session.sh prepare")
    parser.add_argument("--on-gpu", action="store_true", help="this is the machine with the GPU: driver, kernels, free memory")
    options = parser.parse_args()
    pack = tools.Pack(options.pack)
    found = problems(pack, options.on_gpu or os.path.exists("/dev/nvidiactl"))
    for problem in found:
        print(f"missing: {problem}")
    if not found:
        print(f"complete: sm_{pack.facts['sm']}, {len(pack.facts['ported'])} images made from older PTX, "
              f"commit {pack.facts['commit'][:10]}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
