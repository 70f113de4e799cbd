"""The same bits whatever order blocks and warps run in: split calls by `fa run` under several seeds of the emulator.

same_bits.py FA FOLDER
FA: the tool; FOLDER: to work in
"""

import os
import random
import struct
import subprocess
import sys
from pathlib import Path

KEYS, HEADS, DIM = 1500, 4, 24
SPLITS = (2, 7, 12, 40)
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


def result_of(fa, folder, dtype, splits, seed, threads):
    out = folder / "out.npy"
    out.unlink(missing_ok=True)
    command = [fa, "run", "--layout", "bhsd", "--device", "cuda", "--dtype", dtype, "--num-splits", str(splits), "-o", out.name]
    command += [word for tensor in "qkv" for word in (f"--{tensor}", f"{tensor}.npy")]
    environment = os.environ | {"FA_EMU_SEED": str(seed), "FA_EMU_THREADS": str(threads)}
    subprocess.run(command, cwd=folder, env=environment, check=True, stdout=subprocess.DEVNULL)
    return out.read_bytes()


def main(fa, folder):
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    for tensor, heads, rows in (("q", HEADS, 1), ("k", 1, KEYS), ("v", 1, KEYS)):
        write_npy(folder / f"{tensor}.npy", (1, heads, rows, DIM), ord(tensor))
    problems = 0
    for dtype in ("f32", "f16"):
        for splits in SPLITS:
            results = {result_of(fa, folder, dtype, splits, *seed) for seed in SEEDS}
            problems += len(results) != 1
            print(f"{dtype}, {splits} splits: {len(results)} different results under seeds {[seed for seed, _ in SEEDS]}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
