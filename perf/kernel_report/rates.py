"""The rates of an SM in a clock, and the numbers of SMs of GPUs: the one table of the model. All of it is published; nothing
here was measured by this project.

Sources: [P] CUDA programming guide, arithmetic instructions' throughput by compute capability; [W] the architectures'
white papers (T4, A100, GA102, AD102, H100, H200, RTX Blackwell); [J] Jia et al. 2019, Dissecting the Turing T4 by
microbenchmarking; [L] Luo et al. 2024, Benchmarking and dissecting the Hopper GPU: mma.sync reaches 63 % of wgmma's
rate; [B] Bekman, Machine learning engineering: matrix products, the best of all shapes: 267.9 of 312 TFLOP/s on an A100
SXM, 792.1 of 989 on an H100 SXM; [M] main-horse.github.io/posts/5090-mm-perf: a product of bf16 matrices by torch at 224.3 of
209.5 TFLOP/s on an RTX 5090, whose clock goes above the one that its peak is given for; [C] cuBLAS on a T4 of 70 W: about 24
of 65 TFLOP/s for as long as one likes. An attention kernel is reported at 43 for short.
"""

from __future__ import annotations

from dataclasses import dataclass

SUB_CORES = 4  # of an SM, from SM 75 on [W]


@dataclass(frozen=True)
class Rates:
    """Cycles for which a warp's instruction holds a unit of its sub-core; bytes a clock of an SM."""

    mma: float  # HMMA.16816 with f32 sums (HMMA.1688 on SM 75) [W]
    fp32: float  # FFMA, FADD, FMUL, IMAD [P]
    wgmma: float = 0  # HGMMA with a depth of 16, for each of its columns: 64 x 128 x 16 in 64 cycles [W]
    alu: float = 2  # maxima, integers, logic, conversions: 16 lanes [P]
    mufu: float = 8  # 4 lanes [P]
    shared_bytes: float = 128  # [W]; 32 banks of 4 bytes
    l2_bytes: float = 32  # a clock and SM: half a sector port [J]; A100: 5120 bytes a clock over 108 SMs [W]
    registers: int = 65536
    warps: int = 48
    shared_memory: int = 100 << 10
    blocks: int = 24


RATES = {
    75: Rates(mma=8, fp32=2, shared_memory=64 << 10, warps=32, blocks=16),
    80: Rates(mma=8, fp32=2, l2_bytes=47, shared_memory=164 << 10, warps=64, blocks=32),
    86: Rates(mma=16, fp32=1, blocks=16),
    89: Rates(mma=16, fp32=1),
    90: Rates(mma=4 / 0.63, fp32=1, wgmma=0.5, l2_bytes=42, shared_memory=228 << 10, warps=64, blocks=32),  # [L]
    120: Rates(mma=16, fp32=1),
}


@dataclass(frozen=True)
class Gpu:
    sm: int
    sms: int
    clock: float  # GHz, to which the peak belongs
    dram: float  # GB/s
    sustained: float = 1.0  # of the peak, by the best matrix product [B, M]; 1: no independent figure
    capped: float = 0  # the same where work lasts for seconds and the board's power limits the clock [C]; 0: no figure
    mma_factor: float = 1.0  # 2 where sums in f32 run at half the rate (GeForce, L20); 4 where tensor cores do (H20)
    wgmma: bool = False
    l2: int = 0  # MB; 0: not needed of this GPU

    @property
    def sustained_hertz(self) -> float:
        return self.clock * 1e9 * self.sustained

    @property
    def peak(self) -> float:
        """TFLOP/s, dense, f16 or bf16 with sums in f32."""
        if self.wgmma:
            return 2 * 2048 * self.sms * self.clock / self.mma_factor / 1000
        flops = 2 * 16 * 8 * (8 if self.sm == 75 else 16)
        return flops / (RATES[self.sm].mma * self.mma_factor) * SUB_CORES * self.sms * self.clock / 1000


GPUS = {
    "T4": Gpu(75, 40, 1.59, 320, capped=24 / 65, l2=4),
    "A100": Gpu(80, 108, 1.41, 1555, sustained=267.9 / 312, l2=40),
    "A10": Gpu(86, 72, 1.695, 600),
    "L4": Gpu(89, 58, 2.04, 300, l2=48),
    "L20": Gpu(89, 92, 2.52, 864, mma_factor=2),
    "RTX 4090": Gpu(89, 128, 2.52, 1008, mma_factor=2),
    "H100 wgmma": Gpu(90, 132, 1.83, 3350, sustained=792.1 / 989, wgmma=True),
    "H200 wgmma": Gpu(90, 132, 1.83, 4800, sustained=792.1 / 989, wgmma=True),
    "H20 wgmma": Gpu(90, 78, 1.853, 4000, mma_factor=4, wgmma=True),  # 148 TFLOP/s
    "H100 mma.sync": Gpu(90, 132, 1.83, 3350, sustained=792.1 / 989, l2=50),
    "H200 mma.sync": Gpu(90, 132, 1.83, 4800, sustained=792.1 / 989, l2=50),
    "RTX PRO 6000": Gpu(120, 188, 2.6, 1792, l2=128),
    "RTX 5090": Gpu(120, 170, 2.41, 1792, sustained=224.3 / 209.5, mma_factor=2),
}


def card(gpu: str) -> str:
    """The name of the board alone, without the instruction of its tensor cores."""
    return gpu.removesuffix(" mma.sync").removesuffix(" wgmma")


FP32 = {"FFMA", "FADD", "FMUL", "IMAD", "FSWZADD"}
ALU = {
    "FMNMX", "FMNMX3", "FSETP", "FSEL", "FSET", "FCHK", "IADD3", "IABS", "IMNMX", "VIMNMX", "ISETP", "LOP3", "LEA", "SHF",
    "SEL", "PRMT", "MOV", "PLOP3", "F2FP", "POPC", "FLO", "BMSK", "SGXT", "LOP", "VIADD", "VOTE", "IADD", "P2R", "R2P",
}  # fmt: skip
MUFU = {"MUFU", "F2I", "I2F", "F2F", "I2FP", "FRND"}
SHARED = {"LDSM", "LDS", "STS", "LDGSTS", "SHFL", "STSM", "LDL", "STL", "ATOMS", "REDUX", "RED", "REDG"}


def shared_cycles(opcode: str, modifiers: str) -> float:
    """Clocks for which a warp's access without bank conflicts holds the SM's 128 bytes of shared memory."""
    if opcode == "SHFL":
        return 1
    if opcode == "LDGSTS" and ".128" not in modifiers and "BYPASS" not in modifiers:
        return 1
    if opcode in ("LDSM", "STSM"):
        return 4 if modifiers.endswith(".4") else 2 if modifiers.endswith(".2") else 1
    return 4 if ".128" in modifiers or "x4" in modifiers or opcode == "LDGSTS" else 2 if ".64" in modifiers else 1


def unit(opcode: str) -> str:
    """The units that an instruction occupies in addition to its issue slot."""
    if opcode in ("HMMA", "IMMA", "QMMA", "HGMMA", "QGMMA"):
        return "tensor"
    if opcode in MUFU:
        return "MUFU"
    if opcode in FP32:
        return "FP32"
    if opcode in ALU:
        return "ALU"
    return "shared" if opcode in SHARED else "issue"


def cycles(rates: Rates, opcode: str, modifiers: str, mma_factor: float = 1) -> float:
    """For which a warp's instruction holds its unit of a sub-core. Shared memory is the SM's: a sub-core has a quarter."""
    of = unit(opcode)
    if opcode == "HGMMA":
        return rates.wgmma * mma_factor * int(modifiers.split("x")[1])
    if of == "tensor":
        half = 2 if opcode == "HMMA" and ".1688" in modifiers and rates is not RATES[75] else 1
        return rates.mma * mma_factor / half
    if of == "shared":
        return shared_cycles(opcode, modifiers) * SUB_CORES * 128 / rates.shared_bytes
    return {"MUFU": rates.mufu, "FP32": rates.fp32, "ALU": rates.alu, "issue": 1}[of]
