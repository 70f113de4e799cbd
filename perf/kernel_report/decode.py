"""Decode: the bytes of one query over a long cache, its launches, and whether the bytes under way hide the memory's
latency (Little's law)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from . import model
from .analysis import LATENCY, Entry
from .emulator import DECODE, Shape, call
from .rates import GPUS


@dataclass(frozen=True)
class Decode:
    entry: Entry  # of the kernel that reads keys and values
    shape: Shape
    kernels: list[str]  # of the call's launches, in order
    grid: int  # blocks of the first launch
    read: int  # bytes by the first launch: keys, values and, in each block, queries
    partial: int  # bytes of unfinished sums, written by the first launch and read once by the second

    @property
    def ratio(self) -> float:
        """Bytes read over those of keys and values."""
        return (self.read + (self.partial if len(self.kernels) > 1 else 0)) / self.shape.kv_bytes

    @property
    def resident(self) -> float:
        """Blocks an SM that work at once, on the average."""
        assert self.entry.gpu
        return min(self.entry.blocks, self.grid / GPUS[self.entry.gpu].sms)

    @property
    def in_flight(self) -> float:
        """Bytes of keys and values that are asked for in advance, an SM."""
        tile = self.entry.tile
        return (tile.stages - 1) * tile.keys * self.shape.dim * 2 * self.resident

    @property
    def cycles(self) -> float:
        """For which a block alone works on 64 keys."""
        return self.entry.alone / self.entry.tile.keys * 64

    @property
    def memory_cycles(self) -> float:
        """In which an SM's share of the memory's rate brings 64 keys and values."""
        assert self.entry.gpu
        gpu = GPUS[self.entry.gpu]
        return model.tile_bytes(64, self.shape.dim) / (gpu.dram / gpu.sms) * gpu.clock

    @property
    def needed(self) -> float:
        """Bytes an SM that must be under way for the memory to be busy all the time: rate x latency."""
        assert self.entry.gpu
        gpu = GPUS[self.entry.gpu]
        return gpu.dram * 1e9 / gpu.sms * LATENCY


def decode(build: Path, entry: Entry) -> Decode:
    shape = DECODE[entry.image.dim]
    launches = call(build, entry.image.kernel, entry.image.dtype, shape)
    first = launches[0]
    if first["kernel"] != entry.name:
        raise SystemExit(f"{entry.label}: got a decode by {first['kernel']}, expected {entry.name}")
    blocks = first["grid"][0] * first["grid"][1] * first["grid"][2]
    return Decode(entry, shape, [launch["kernel"] for launch in launches], blocks, first["global_bytes_read"],
                  first["global_bytes_written"] if len(launches) > 1 else 0)  # fmt: skip
