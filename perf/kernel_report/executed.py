"""An iteration of a kernel by the instructions that the emulator executes: for entry points whose machine code has features in it that a
call switches on or off as it runs. Instructions are those of the PTX; how many of the machine code they are follows from
fa_forward_plain, of which both are known."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from . import emulator, model
from .calls import Call
from .images import Tile
from .rates import SUB_CORES, Rates

MUFU = re.compile(r"(ex2|rcp|rsqrt|sqrt|lg2|tanh|sin|cos)\.|cvt\.(rn|rz|rm|rp|rni|rzi|rmi|rpi)\.(f32\.[su]|[su]\d+\.f32)")
FP32 = re.compile(r"(fma|add|sub|mul)\.(rn\.|rz\.|ftz\.)*f32|mul\.lo|mad\.lo")
SHARED = re.compile(r"(ld|st)\.shared|ldmatrix|stmatrix|cp\.async\.c[ag]|shfl|atom\.shared")
TENSOR = re.compile(r"mma\.sync|wgmma\.mma_async")
ONLY_ISSUED = re.compile(r"(ld|st)\.(global|param)|mov\.|cvt\.(u64|s64|u32)\.|cvta|bar\.|bra|ret")


def unit(opcode: str) -> str:
    """The units that a PTX instruction occupies in addition to its issue slot."""
    for name, pattern in (("tensor", TENSOR), ("MUFU", MUFU), ("FP32", FP32), ("shared", SHARED), ("issue", ONLY_ISSUED)):
        if pattern.match(opcode):
            return name
    return "ALU"


SAME = ("tensor", "MUFU", "shared")  # units whose instructions are the same in machine code


def kept(opcode: str, of_machine: float) -> float:
    """Instructions of the machine code for one of the PTX, where of_machine is that of those which are not the same."""
    return 1 if unit(opcode) in SAME else of_machine


def shared_cycles(opcode: str) -> float:
    """Clocks for which a warp's access holds the SM's 128 bytes of shared memory."""
    if opcode.startswith("shfl"):
        return 1
    if "matrix" in opcode:
        return 4 if ".x4" in opcode else 2 if ".x2" in opcode else 1
    width = re.search(r"\.v([24])", opcode)
    bits = re.search(r"[bsuf](8|16|32|64|128)$", opcode)
    return 4 if opcode.startswith("cp.async") else int(width[1]) if width else max(int(bits[1]) // 32 if bits else 1, 1)


@dataclass(frozen=True)
class Executed:
    """By a warp, in an iteration."""

    mix: Mapping[str, float]  # times of each opcode

    @property
    def issued(self) -> float:
        return sum(self.mix.values())

    @property
    def tensor(self) -> float:
        return sum(times for opcode, times in self.mix.items() if unit(opcode) == "tensor")

    def unit_cycles(self, rates: Rates, of_machine: float) -> dict[str, float]:
        """of_machine: instructions of the machine code for one of the PTX that is neither tensor-core nor shared memory's
        nor a special function's, which are the same in both."""
        units = {"tensor": 0.0, "MUFU": 0.0, "FP32": 0.0, "ALU": 0.0, "shared": 0.0, "issue": 0.0}
        for opcode, times in self.mix.items():
            name, times = unit(opcode), times * kept(opcode, of_machine)
            units["issue"] += times
            if name == "shared":
                units[name] += times * shared_cycles(opcode) * SUB_CORES * 128 / rates.shared_bytes
            elif name != "issue":
                each = {"tensor": rates.mma, "MUFU": rates.mufu, "FP32": rates.fp32, "ALU": rates.alu}[name]
                units[name] += times * each
        return units

    def issued_by(self, of_machine: float) -> float:
        """Instructions of the machine code."""
        return sum(times * kept(opcode, of_machine) for opcode, times in self.mix.items())

    def of_machine(self, issued: float) -> float:
        """unit_cycles' factor, where the machine code issues that number."""
        same = sum(times for opcode, times in self.mix.items() if unit(opcode) in SAME)
        return (issued - same) / (self.issued - same)


def executed(build: Path, arch: str, dtype: str, call: Call, tile: Tile) -> tuple[str, Executed]:
    """The entry point of the call, and its iteration: the difference of calls over four and over eight blocks of keys,
    of a block's rows."""
    shorter, longer = (emulator.case(build, arch, f"{call.case(tile.rows, n * tile.keys)} q={dtype}")[0] for n in (4, 8))
    warps = 4 * tile.threads // 32
    mix = {opcode: (times - shorter["mix"].get(opcode, 0)) / warps for opcode, times in longer["mix"].items()}
    return str(longer["kernel"]), Executed({opcode: times for opcode, times in mix.items() if times})


def iteration(of: Executed, rates: Rates, registers: int, tile: Tile, dim: int, of_machine: float) -> model.Iteration:
    blocks = model.min_blocks_per_sm(rates, registers, tile.threads, tile.shared_bytes)
    warps = blocks * tile.threads / 32 / SUB_CORES  # of a sub-core
    units = {name: warps * cycles for name, cycles in of.unit_cycles(rates, of_machine).items()}
    units["L2"] = blocks * model.tile_bytes(tile.keys, dim) / rates.l2_bytes
    return model.Iteration(units, units["tensor"], blocks, tile.rows, tile.keys)
