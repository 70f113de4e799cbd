"""The model held to other kernels: FlashAttention-2 and 3 by the instructions of their steady loops (their published
sources, nvcc 13.0, -O3 --use_fast_math, bf16), against the speeds that their authors and users published.

Counted are totals, tensor-core instructions and LDSM of every loop. The parts that are MUFU, FP32 and ALU are counted for
FA2_128 and (but for F2FP) FA3_128, and estimated from a tile's scores for the others.
"""

from __future__ import annotations

from dataclasses import dataclass

from .model import Turn, teraflops, tile_bytes
from .rates import GPUS, RATES, SUB_CORES


@dataclass(frozen=True)
class Peer:
    """A warp's turn. Products of a warpgroup are given in cycles of its SM: 64 for 64 x 128 x 16."""

    name: str
    sm: int
    dim: int
    rows: int  # of a block
    keys: int
    warps: int  # of a block that compute
    blocks: int  # of an SM
    issued: int
    fp32: int  # FFMA + FADD + FMUL
    alu: int  # FMNMX + F2FP + MOV
    mufu: int
    mma: int = 0  # HMMA.16816
    wgmma: float = 0  # cycles
    ldsm: int = 0  # .x4

    def turn(self, mma_factor: float) -> Turn:
        rates = RATES[self.sm]
        warps = self.warps * self.blocks / SUB_CORES  # of a sub-core
        copied = self.blocks * tile_bytes(self.keys, self.dim) / rates.shared_bytes
        units = {
            "tensor": warps * (self.mma * rates.mma * mma_factor + self.wgmma),
            "MUFU": warps * self.mufu * rates.mufu,
            "FP32": warps * self.fp32 * rates.fp32,
            "ALU": warps * self.alu * rates.alu,
            "issue": warps * self.issued,
            # What wgmma reads of shared memory is part of its own cycles.
            "shared": warps * self.ldsm * 4 * SUB_CORES + copied,
            "L2": self.blocks * tile_bytes(self.keys, self.dim) / rates.l2_bytes,
        }
        return Turn(units, units["tensor"], self.blocks, self.rows, self.keys)


FA2_128 = Peer("FA2 hd128 128x64", 80, 128, 128, 64, 4, 2, 910, 268, 177, 68, mma=256, ldsm=80)
FA2_128_32 = Peer("FA2 hd128 128x32", 89, 128, 128, 32, 4, 2, 524, 236, 90, 36, mma=128, ldsm=48)
FA3_128 = Peer("FA3 hd128 128x176", 90, 128, 128, 176, 8, 1, 594, 246, 136, 90, wgmma=8 * 88 + 11 * 64)
FA3_128C = Peer("FA3 hd128 128x128", 90, 128, 128, 128, 8, 1, 469, 200, 100, 66, wgmma=16 * 64)
FA3_64 = Peer("FA3 hd64 192x192", 90, 64, 192, 192, 12, 1, 632, 232, 148, 98, wgmma=4 * 96 + 12 * 32)
FA3_64C = Peer("FA3 hd64 192x128", 90, 64, 192, 128, 12, 1, 431, 160, 100, 66, wgmma=4 * 64 + 8 * 32)


@dataclass(frozen=True)
class Published:
    peer: Peer
    gpu: str
    sequence: int
    causal: bool
    teraflops: float

    @property
    def modelled(self) -> float:
        """16384 tokens in all (one sequence where it is longer), 2048 columns of heads, as their benchmarks have it."""
        gpu = GPUS[self.gpu]
        batch = max(1, 16384 // self.sequence)
        turn = self.peer.turn(gpu.mma_factor)
        return teraflops(turn, gpu, self.sequence, self.peer.dim, batch * 2048 // self.peer.dim, self.causal)

    @property
    def error(self) -> float:
        return self.modelled / self.teraflops - 1


def rows(peer: Peer, gpu: str, causal: bool, figures: dict[int, float]) -> list[Published]:
    return [Published(peer, gpu, sequence, causal, figure) for sequence, figure in figures.items()]


PUBLISHED = [
    *rows(FA2_128, "A100", False, {32768: 204}),
    *rows(FA2_128, "A100", True, {32768: 193}),
    *rows(FA2_128_32, "L20", False, {32768: 111}),
    *rows(FA2_128_32, "RTX 4090", False, {32768: 164}),
    *rows(FA2_128_32, "RTX 5090", False, {32768: 214}),
    *rows(FA3_128, "H100 wgmma", False, {1024: 565, 4096: 638, 16384: 648}),
    *rows(FA3_128C, "H100 wgmma", True, {1024: 423, 4096: 579, 16384: 616}),
    *rows(FA3_64, "H100 wgmma", False, {1024: 392, 4096: 476, 16384: 497}),
    *rows(FA3_64C, "H100 wgmma", True, {1024: 265, 4096: 420, 16384: 473}),
]
