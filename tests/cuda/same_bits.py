"""The same bits whatever order blocks and warps run in: calls by `fa run` under several seeds of the emulator.

same_bits.py FA FOLDER TYPES
FA: the tool; FOLDER: to work in; TYPES: those whose gradients have a fixed order in one loop on this GPU, with commas

Split calls, and gradients whose blocks of keys add to dq in a fixed order.
"""

import os
import random
import struct
import subprocess
import sys
from pathlib import Path

KEYS, HEADS, DIM = 1500, 4, 24
SPLITS = (2, 7, 12, 40)
QUERIES, KEYS_IN_ORDER, HEADS_IN_ORDER = 260, 500, 8
SEEDS = ((1, 1), (2, 2), (3, 2))  # and threads of the host


def write_npy(path, shape, seed):
    """Normally distributed f32."""
    header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}"
    header += " " * (-(len(header) + 11) % 64) + "\n"
    chosen, count = random.Random(seed), 1
    for n in shape:
        count *= n
    data = struct.pack(f"<{count}f", *(chosen.gauss(0, 2) for _ in range(count)))
    path.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + data)


def write_inputs(folder, queries, keys, heads):
    folder.mkdir(parents=True, exist_ok=True)
    for tensor, of_heads, rows in (("q", heads, queries), ("k", 1, keys), ("v", 1, keys), ("dout", heads, queries)):
        write_npy(folder / f"{tensor}.npy", (1, of_heads, rows, DIM), ord(tensor[0]))


def results(fa, folder, words, files, chosen=""):
    """The contents of the files after a call, once for each different result; the log of the call must have the text `chosen`."""
    command = [fa, "run", "--layout", "bhsd", "--device", "cuda", *words]
    command += [word for tensor in "qkv" for word in (f"--{tensor}", f"{tensor}.npy")]
    found = set()
    for seed, threads in SEEDS:
        for file in files:
            (folder / file).unlink(missing_ok=True)
        environment = os.environ | {"FA_EMU_SEED": str(seed), "FA_EMU_THREADS": str(threads), "FA_VERBOSE": "dispatch"}
        done = subprocess.run(command, cwd=folder, env=environment, check=True, capture_output=True, text=True)
        if chosen not in done.stderr:
            sys.exit(f"same_bits: expected '{chosen}' in the log, got\n{done.stderr}")
        found.add(b"".join((folder / file).read_bytes() for file in files))
    return found


def judge(text, found):
    print(f"{text}: {len(found)} different results under seeds {[seed for seed, _ in SEEDS]}")
    return len(found) == 1


def main(fa, folder, types):
    splits, in_order = Path(folder) / "splits", Path(folder) / "in_order"
    write_inputs(splits, 1, KEYS, HEADS)
    write_inputs(in_order, QUERIES, KEYS_IN_ORDER, HEADS_IN_ORDER)
    right = True
    for dtype in ("f32", "f16"):
        for count in SPLITS:
            words = ["--dtype", dtype, "--num-splits", str(count), "-o", "out.npy"]
            right &= judge(f"{dtype}, {count} splits", results(fa, splits, words, ["out.npy"]))
    files = ["dq.npy", "dk.npy", "dv.npy"]
    for dtype in types.split(","):
        words = ["--dtype", dtype, "--dout", "dout.npy"] + [word for file in files for word in (f"--{file[:2]}", file)]
        right &= judge(f"{dtype}, gradients in a fixed order", results(fa, in_order, words, files, "in a fixed order"))
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
