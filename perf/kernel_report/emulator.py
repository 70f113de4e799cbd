"""The emulator's counts (FA_EMU_JSON, emulator/README.md): a file of lines that is there, or calls of a build's `fa`."""

from __future__ import annotations

import json
import os
import random
import struct
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FIGURES = ("bank_conflict_factor", "sectors_per_request", "global_bytes_read", "shared_bytes_read", "tensor_operations")


@dataclass(frozen=True)
class Shape:
    """The shape of a call: 16-bit q (batch, heads_q, queries, dim), k and v (batch, heads_kv, keys, dim)."""

    heads_q: int
    heads_kv: int
    queries: int
    keys: int
    dim: int

    @property
    def kv_bytes(self) -> int:
        return 2 * 2 * self.heads_kv * self.keys * self.dim


PREFILL = {dim: Shape(2, 2, 512, 512, dim) for dim in (64, 128)}
DECODE = {dim: Shape(32, 8, 1, 8192, dim) for dim in (64, 128)}


def figures(launch: dict[str, Any]) -> dict[str, float]:
    return {name: float(launch[name]) for name in FIGURES}


def launches(path: Path) -> list[dict[str, Any]]:
    result = []
    for number, line in enumerate(path.read_text().splitlines(), 1):
        try:
            launch = json.loads(line)
            figures(launch)
            result.append(launch)
        except (ValueError, KeyError, TypeError) as error:
            raise SystemExit(f"{path}:{number}: got {line[:60]!r}, expected a line of FA_EMU_JSON ({error})") from None
    return result


def counters(path: Path) -> dict[str, dict[str, float]]:
    """The counters of each kernel's last launch. A file is of launches of one image: its lines do not name it."""
    return {launch["kernel"]: figures(launch) for launch in launches(path)}


def write_npy(path: Path, shape: tuple[int, ...], seed: int) -> None:
    """Numbers of a normal distribution as f16; 4096 of them again and again."""
    header = f"{{'descr': '<f2', 'fortran_order': False, 'shape': {shape}, }}"
    header += " " * (-(len(header) + 11) % 64) + "\n"
    size = 2
    for n in shape:
        size *= n
    chosen = random.Random(seed)
    some = struct.pack("<4096e", *(chosen.gauss(0, 1) for _ in range(4096)))
    data = (some * (size // len(some) + 1))[:size]
    path.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + data)


def run(build: Path, kernel: str, folder: Path, *words: str) -> list[dict[str, Any]]:
    """The launches of `fa run` with a kernel such as sm_80.mma, on the emulated device that has it; paths are relative to
    the folder."""
    program = str((build / "tools" / "fa").resolve())
    device = kernel.partition(".")[0]
    environment = {**os.environ, "FA_EMU_DEVICE": device, "FA_EMU_JSON": "launches", "FA_FORCE_KERNEL": f"cuda.{kernel}",
                   "LD_LIBRARY_PATH": str((build / "emulator").resolve())}  # fmt: skip
    done = subprocess.run([program, "run", *words], cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{program} on an emulated {device} failed:\n{done.stderr.strip()}")
    return launches(folder / "launches")


def case(build: Path, arch: str, text: str) -> list[dict[str, Any]]:
    """The launches of a case of the test suite by an architecture's mma kernels."""
    with tempfile.TemporaryDirectory() as name:
        return run(build, f"sm_{arch}.mma", Path(name), "--device", "cuda", "--case", text)


def call(build: Path, kernel: str, dtype: str, shape: Shape, splits: int = 0) -> list[dict[str, Any]]:
    """The launches of one call of a build's library on an emulated device; splits: of the keys, 0: as it chooses."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for tensor, heads, rows in (("q", shape.heads_q, shape.queries), ("k", shape.heads_kv, shape.keys),
                                    ("v", shape.heads_kv, shape.keys)):  # fmt: skip
            write_npy(folder / f"{tensor}.npy", (1, heads, rows, shape.dim), ord(tensor))
        words = ["--layout", "bhsd", "--device", "cuda", "--dtype", dtype, "--num-splits", str(splits), "-o", "out.npy"]
        for tensor in "qkv":
            words += [f"--{tensor}", f"{tensor}.npy"]
        return run(build, kernel, folder, *words)
