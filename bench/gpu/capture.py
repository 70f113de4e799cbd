#!/usr/bin/env python3
"""Captures calls of one contender into CUDA graphs and replays them: exit status 0 where each result is right.

    bench/gpu/capture.py build/ci/src/libfa.so libfa|cudnn|flash|efficient

A separate process: a capture that fails may leave its context of no use.
"""
import argparse
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import libfa
from gpu.calls import CONTENDERS, Device, Failed, Shape, contenders, error_of, inputs

# Prefill, and a decode that is split.
SHAPES = [Shape(2, 8, 8, 512, 512, 128, "bf16", True), Shape(2, 32, 8, 1, 8192, 128, "bf16", False)]
TOLERANCE = 1e-2  # of |out - reference| / |reference|, as in gpu_sdpa.py


class Replayed:
    """A captured call in the place of the call."""

    def __init__(self, device, call):
        call(0)
        device.wait()
        self.graph = device.graph(lambda: setattr(self, "result", call(0)))

    def __call__(self, _):
        self.graph.replay()
        return self.result


def works(library, name):
    """Whether the contender's calls can be captured: seen in another process."""
    return subprocess.run([sys.executable, __file__, library, name], stdout=subprocess.DEVNULL).returncode == 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("library", help="path of libfa.so")
    parser.add_argument("contender", choices=CONTENDERS)
    options = parser.parse_args()
    device, library = Device("cuda"), libfa.Library(options.library)
    for shape in SHAPES:
        sets = inputs(device, shape, 1 << 40)
        try:
            error = error_of(device, Replayed(device, contenders(device, library, shape)[options.contender](sets)), sets, shape)
        except (RuntimeError, Failed) as failure:
            sys.exit(f"{shape}: {str(failure).strip().splitlines()[0]}")
        if not error <= TOLERANCE:
            sys.exit(f"{shape}: the replay is wrong: error {error:.2g}, allowed is {TOLERANCE:.2g}")
        print(f"{shape}: error {error:.2g}")


if __name__ == "__main__":
    main()
