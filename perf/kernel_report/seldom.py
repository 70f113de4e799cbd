"""How often kernels/forward/wgmma scales a warp's weights, which most iterations skip: counted by the emulator on given inputs, and the
instructions a score to be expected from it."""

from __future__ import annotations

import ast
import random
import struct
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from . import emulator, images
from .analysis import Entry, analyse
from .render import table

# max.f32 of a warp, which it executes nowhere else in plain: for the first scores of its rows, and at most each time that it
# scales weights.
FIRST, AGAIN = 66, 70
ROWS, KEYS = 16, 128  # of a warp; of a tile up to head dimension 128
DATA = images.ROOT / "examples" / "data"
LAYERS, HEADS, WIDTH = (0, 5), 12, 32  # MiniLM's
DEVIATIONS, LENGTH = (1, 2, 4), 4096


def file_of(path: Path, shape: tuple[int, ...], data: bytes) -> None:
    header = f"{{'descr': '<f2', 'fortran_order': False, 'shape': {shape}, }}"
    header += " " * (-(len(header) + 11) % 64) + "\n"
    path.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + data)


def numbers(path: Path) -> tuple[tuple[int, ...], bytes]:
    """Shape and data of a file of version 1."""
    whole = path.read_bytes()
    end = 10 + int.from_bytes(whole[8:10], "little")
    return ast.literal_eval(whole[10:end].decode())["shape"], whole[end:]


def widened(data: bytes, width: int, to: int) -> bytes:
    """Rows of 16-bit numbers with zeros behind them."""
    row, zeros = 2 * width, bytes(2 * (to - width))
    return b"".join(data[at : at + row] + zeros for at in range(0, len(data), row))


@dataclass(frozen=True)
class Counted:
    what: str
    dim: int
    dtype: str
    tiles: int  # of a warp, of all of them, but for each one's first
    maxima: float  # executed
    firsts: int  # warps

    @property
    def part(self) -> float:
        """The part of the tiles whose weights are scaled."""
        return (self.maxima - FIRST * self.firsts) / AGAIN / self.tiles


def warps_and_tiles(lengths: list[int]) -> tuple[int, int]:
    """The warps and the tiles of a head."""
    warps = [-(-n // ROWS) for n in lengths]
    return sum(warps), sum(w * (-(-n // KEYS) - 1) for w, n in zip(warps, lengths, strict=True))


def count(build: Path, folder: Path, what: str, dim: int, dtype: str, lengths: list[int], heads: int, *words: str) -> Counted:
    """Counts in a call of q, k and v in a folder."""
    tensors = [word for name in "qkv" for word in (f"--{name}", f"{name}.npy")]
    options = ("--device", "cuda", "--dtype", dtype, "--num-splits", "1", "-o", "out.npy")
    launch = emulator.run(build, "sm_90a.wgmma", folder, *options, *tensors, *words)[0]
    if launch["kernel"] != "fa_forward_plain":
        raise SystemExit(f"{what}: got {launch['kernel']}, expected fa_forward_plain")
    warps, tiles = warps_and_tiles(lengths)
    maxima = sum(times for opcode, times in launch["mix"].items() if opcode.startswith("max.f32"))
    return Counted(what, dim, dtype, heads * tiles, maxima, heads * warps)


def normal(build: Path, dim: int, dtype: str, deviation: int) -> Counted:
    """Numbers of a normal distribution, scores of a deviation by the scale."""
    with tempfile.TemporaryDirectory() as name:
        for tensor in "qkv":
            chosen = random.Random(tensor)
            data = struct.pack(f"<{LENGTH * dim}e", *(chosen.gauss(0, 1) for _ in range(LENGTH * dim)))
            file_of(Path(name) / f"{tensor}.npy", (1, LENGTH, 1, dim), data)
        words = ("--layout", "bshd", "--scale", str(deviation / dim**0.5))
        return count(build, Path(name), f"normal numbers, scores of deviation {deviation}", dim, dtype, [LENGTH], 1, *words)


def layer(build: Path, number: int, dim: int, dtype: str, packed: bool) -> Counted:
    """MiniLM's, of 32 columns, with zeros up to those of a tile. packed: its three texts, or all as one."""
    with tempfile.TemporaryDirectory() as name:
        rows = 0
        for tensor in "qkv":
            (rows, *_), data = numbers(DATA / f"layer{number}_{tensor}.npy")
            shape = (rows, HEADS, dim) if packed else (1, rows, HEADS, dim)
            file_of(Path(name) / f"{tensor}.npy", shape, widened(data, WIDTH, dim))
        words = ["--scale", str(WIDTH**-0.5), "--layout", "bshd"]
        _, starts = numbers(DATA / "cu_seqlens.npy")
        begins = struct.unpack(f"<{len(starts) // 4}i", starts)
        lengths = [b - a for a, b in zip(begins, begins[1:], strict=False)] if packed else [rows]
        if packed:
            words += ["--cu-seqlens", str(DATA / "cu_seqlens.npy")]
        what = f"MiniLM's layer {number}" + ("" if packed else ", one sequence")
        return count(build, Path(name), what, dim, dtype, lengths, HEADS, *words)


def all_counted(build: Path, dim: int, dtype: str) -> Iterator[Counted]:
    for deviation in DEVIATIONS:
        yield normal(build, dim, dtype, deviation)
    for number in LAYERS:
        for packed in (True, False):
            yield layer(build, number, dim, dtype, packed)


def row(of: Counted, entry: Entry) -> list[str]:
    seldom = entry.per_score / entry.issued * entry.seldom
    return [of.what, str(of.dim), of.dtype, str(of.tiles), f"{100 * of.part:.1f} %", f"{entry.per_score:.2f}",
            f"{entry.per_score + of.part * seldom:.2f}"]  # fmt: skip


def text(build: Path, tools: Path, compiler: str) -> str:
    rows, tiles = [], images.tiles(compiler)
    for dim in (64, 128):
        for dtype in ("bf16", "f16"):
            image = images.Image.of(build / "kernels" / f"sm_90a.wgmma.{dtype}.{dim}.fatbin")
            assert image is not None
            plain = next(f for f in images.functions(image.path, tools) if f.name == "fa_forward_plain")
            entry = analyse(image, plain, tiles["wgmma", image.sm, dim, plain.name])
            assert entry is not None
            rows += [row(of, entry) for of in all_counted(build, dim, dtype)]
    head = ["q, k, v", "head dimension", "type", "further tiles of warps", "rescaled", "a score, without", "with"]
    return table(head, rows)
