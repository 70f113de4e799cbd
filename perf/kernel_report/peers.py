"""The model held to other kernels: FlashAttention-2 and 3 by the machine code of their steady loops, against the speeds that
their authors and users published. perf/peers/peers compiles them; the load of an iteration is kept in peers.json, their code is not.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path

from . import images, loops, model
from .rates import GPUS, RATES, SUB_CORES

FILE = Path(__file__).with_name("peers.json")


@dataclass(frozen=True)
class Loop:
    """A kernel by the name that perf/peers/peers gives it, and the GPUs on which its speed is published."""

    name: str
    title: str
    dim: int
    rows: int  # of a block
    keys: int
    warps: int  # of a block that compute
    blocks: int  # of an SM
    gpus: tuple[str, ...]

    @property
    def backward(self) -> bool:
        """Rows are then those of an iteration, keys the block's."""
        return self.name.startswith("fa2_backward")

    @property
    def bytes_per_iteration(self) -> int:
        """That a block brings in; backward also adds to a tile of dQ in f32."""
        if self.backward:
            return model.tile_bytes(self.rows, self.dim) + 4 * self.rows * self.dim
        return model.tile_bytes(self.keys, self.dim)


LOOPS = [
    Loop("fa2.sm_80.128x64.128.full", "FA2 hd128 128x64", 128, 128, 64, 4, 2, ("A100",)),
    Loop("fa2.sm_80.128x64.128.causal", "FA2 hd128 128x64", 128, 128, 64, 4, 2, ("A100",)),
    Loop("fa2.sm_80.128x32.128.full", "FA2 hd128 128x32", 128, 128, 32, 4, 2, ("L20", "RTX 4090")),
    Loop("fa2.sm_90.128x64.128.full", "FA2 hd128 128x64", 128, 128, 64, 4, 2, ("H100 mma.sync",)),
    Loop("fa2.sm_120.128x32.128.full", "FA2 hd128 128x32", 128, 128, 32, 4, 2, ("RTX 5090",)),
    Loop("fa3.sm_90a.128x176.128.full", "FA3 hd128 128x176", 128, 128, 176, 8, 1, ("H100 wgmma",)),
    Loop("fa3.sm_90a.128x128.128.causal", "FA3 hd128 128x128", 128, 128, 128, 8, 1, ("H100 wgmma",)),
    Loop("fa3.sm_90a.192x192.64.full", "FA3 hd64 192x192", 64, 192, 192, 12, 1, ("H100 wgmma",)),
    Loop("fa3.sm_90a.192x128.64.full", "FA3 hd64 192x128", 64, 192, 128, 12, 1, ("H100 wgmma",)),
    Loop("fa3.sm_90a.192x128.64.causal", "FA3 hd64 192x128", 64, 192, 128, 12, 1, ("H100 wgmma",)),
    Loop("fa3.sm_90a.128x80.256.full", "FA3 hd256 128x80", 256, 128, 80, 8, 1, ("H100 wgmma",)),
    Loop("fa3.sm_90a.128x80.256.causal", "FA3 hd256 128x80", 256, 128, 80, 8, 1, ("H100 wgmma",)),
    Loop("fa2.sm_80.128x128.64.full", "FA2 hd64 128x128", 64, 128, 128, 4, 2, ("A100",)),
    Loop("fa2.sm_80.128x128.64.causal", "FA2 hd64 128x128", 64, 128, 128, 4, 2, ("A100",)),
    Loop("fa2_backward.sm_80.64x128.128.full", "FA2 hd128 64x128", 128, 64, 128, 8, 1, ("A100",)),
    Loop("fa2_backward.sm_80.64x128.128.causal", "FA2 hd128 64x128", 128, 64, 128, 8, 1, ("A100",)),
    Loop("fa2_backward.sm_80.128x128.64.full", "FA2 hd64 128x128", 64, 128, 128, 8, 1, ("A100",)),
    Loop("fa2_backward.sm_80.128x128.64.causal", "FA2 hd64 128x128", 64, 128, 128, 8, 1, ("A100",)),
    Loop("fa2_backward.sm_90.64x128.128.full", "FA2 hd128 64x128", 128, 64, 128, 8, 1, ("H100 mma.sync",)),
    Loop("fa2_backward.sm_120.64x64.128.full", "FA2 hd128 64x64", 128, 64, 64, 8, 1, ("RTX PRO 6000",)),
]


@dataclass(frozen=True)
class Reading:
    """The load of an SM of a GPU in an iteration of a loop: cycles of a sub-core, for all its warps."""

    loop: str
    gpu: str
    issued: int  # instructions of a warp
    spills: int  # of them accesses of local memory
    units: dict[str, float] = field(default_factory=dict)


def read(folder: Path, tools: Path) -> list[Reading]:
    """Reads the cubins in a folder of perf/peers/peers."""
    result = []
    for of in LOOPS:
        path = folder / f"{of.name}.cubin"
        if not path.exists():
            raise SystemExit(f"{path}: not there; perf/peers/peers compiles it")
        found = [loops.steady_loop(f) for f in images.functions(path, tools)]
        (loop,) = [one for one in found if one]
        warps = of.warps * of.blocks // SUB_CORES  # of a sub-core
        for name in of.gpus:
            gpu, rates = GPUS[name], RATES[GPUS[name].sm]
            units = {unit: warps * t for unit, t in model.unit_cycles(loop.steady, rates, gpu.mma_factor).items()}
            moved = of.blocks * of.bytes_per_iteration
            if not any(i.opcode == "LDGSTS" for i in loop.steady):
                units["shared"] += moved / rates.shared_bytes  # brought by TMA, of which the loop holds nothing
            units["L2"] = moved / rates.l2_bytes
            result.append(Reading(of.name, name, len(loop.steady), loop.local, units))
    return result


def write(readings: list[Reading]) -> None:
    FILE.write_text(json.dumps([asdict(r) for r in readings], indent=1) + "\n")


READINGS = [Reading(**r) for r in json.loads(FILE.read_text())]


def units_on(loop: Loop, gpu: str) -> dict[str, float]:
    """The load of a GPU in an iteration, from a reading for one of the same SM: their tensor cores' rates may differ."""
    same = [r for r in READINGS if r.loop == loop.name and GPUS[r.gpu].sm == GPUS[gpu].sm]
    reading = next((r for r in same if r.gpu == gpu), same[0])
    factor = GPUS[gpu].mma_factor / GPUS[reading.gpu].mma_factor
    return {unit: t * (factor if unit == "tensor" else 1) for unit, t in reading.units.items()}


@dataclass(frozen=True)
class Published:
    loop: Loop
    gpu: str
    sequence: int
    causal: bool
    teraflops: float

    heads: int = 0  # of all sequences; 0: 16384 tokens in all (one sequence where it is longer), 2048 columns
    of: str = ""  # the kernel that was measured, where its code is not at hand and the loop replaces it

    @property
    def family(self) -> str:
        """Kernels of one source and head dimension: "FA3 hd64"."""
        return self.loop.title.rsplit(" ", 1)[0]

    def by(self, fit: model.Fit) -> float:
        gpu, of = GPUS[self.gpu], self.loop
        units = units_on(of, self.gpu)
        iteration = model.Iteration(units, units["tensor"], of.blocks, of.rows, of.keys, fit=fit)
        heads = self.heads or max(1, 16384 // self.sequence) * 2048 // of.dim
        return model.teraflops(iteration, gpu, self.sequence, of.dim, heads, self.causal)

    @property
    def modelled(self) -> float:
        return self.by(model.FITTED)

    @property
    def error(self) -> float:
        return self.modelled / self.teraflops - 1


def loop(name: str) -> Loop:
    (found,) = [one for one in LOOPS if one.name == name]
    return found


def rows(name: str, gpu: str, figures: dict[int, float]) -> list[Published]:
    return [Published(loop(name), gpu, sequence, name.endswith("causal"), figure) for sequence, figure in figures.items()]


PUBLISHED = [
    *rows("fa2.sm_80.128x64.128.full", "A100", {32768: 204}),
    *rows("fa2.sm_80.128x64.128.causal", "A100", {32768: 193}),
    *rows("fa2.sm_80.128x32.128.full", "L20", {32768: 111}),
    *rows("fa2.sm_80.128x32.128.full", "RTX 4090", {32768: 164}),
    *rows("fa2.sm_120.128x32.128.full", "RTX 5090", {32768: 214}),
    *rows("fa3.sm_90a.128x176.128.full", "H100 wgmma", {1024: 565, 4096: 638, 16384: 648}),
    *rows("fa3.sm_90a.128x128.128.causal", "H100 wgmma", {1024: 423, 4096: 579, 16384: 616}),
    *rows("fa3.sm_90a.192x128.64.full", "H100 wgmma", {1024: 392, 4096: 476, 16384: 497}),
    *rows("fa3.sm_90a.192x128.64.causal", "H100 wgmma", {1024: 265, 4096: 420, 16384: 473}),
    *rows("fa3.sm_90a.128x80.256.full", "H100 wgmma", {1024: 639, 4096: 736, 16384: 756}),
    *rows("fa3.sm_90a.128x80.256.causal", "H100 wgmma", {1024: 427, 4096: 612, 16384: 642}),
]

FA3_FULL, FA3_CAUSAL = loop("fa3.sm_90a.128x176.128.full"), loop("fa3.sm_90a.128x128.128.causal")
FA3_NARROW, FA3_NARROW_CAUSAL = loop("fa3.sm_90a.192x128.64.full"), loop("fa3.sm_90a.192x128.64.causal")
FA2_HOPPER, FA2_SMALL = loop("fa2.sm_90.128x64.128.full"), loop("fa2.sm_120.128x32.128.full")

# Figures that took no part in the fit, of others' machines. FlashAttention-3's on an H100 are pytorch/benchmark's, pull request
# 2391, and FlashAttention's issue 1438; on an H20 its issue 1310. FlashAttention-2's on an H100: issue 1051. Those of 128 heads
# and 8192 rows are NVIDIA's: cudnn-frontend, benchmark/attention_training/results/llama3.1, files of 28 September 2026. Where a
# kernel's code is not at hand, a loop of the same instructions replaces it.
HELD_OUT = [
    Published(PUBLISHED[0].loop, "A100", 8192, False, 213, heads=128),
    Published(PUBLISHED[1].loop, "A100", 8192, True, 217, heads=128),
    *rows("fa3.sm_90a.128x176.128.full", "H100 wgmma",
          {512: 430.3, 1024: 517.1, 2048: 565.5, 4096: 590.2, 8192: 614.2, 16384: 620.7}),
    Published(FA2_HOPPER, "H100 mma.sync", 32768, False, 355, heads=8),
    Published(FA3_NARROW, "H100 wgmma", 32768, False, 514, heads=8),
    Published(FA3_NARROW, "H200 wgmma", 32768, False, 487, heads=8),
    Published(FA3_FULL, "H20 wgmma", 2048, False, 126.2, heads=32),
    Published(FA3_CAUSAL, "H20 wgmma", 2048, True, 107.8, heads=32),
    Published(FA3_NARROW, "H20 wgmma", 2048, False, 120.1, heads=64),
    Published(FA3_NARROW_CAUSAL, "H20 wgmma", 2048, True, 100.3, heads=64),
    Published(FA3_FULL, "H200 wgmma", 8192, False, 701, heads=128, of="cuDNN 9.27"),
    Published(FA3_CAUSAL, "H200 wgmma", 8192, True, 655, heads=128, of="cuDNN 9.27"),
    Published(FA3_FULL, "H200 wgmma", 8192, False, 756, heads=128, of="FlashAttention-4"),
    Published(FA3_CAUSAL, "H200 wgmma", 8192, True, 675, heads=128, of="FlashAttention-4"),
    Published(FA2_SMALL, "RTX PRO 6000", 8192, False, 424, heads=128, of="open source"),
    Published(FA2_SMALL, "RTX PRO 6000", 8192, True, 407, heads=128, of="open source"),
]  # fmt: skip


def fa3(dim: int, causal: bool, gpu: str, sequence: int, heads: int) -> float:
    """TFLOP/s of FlashAttention-3 by the model, with the faster of its loops."""
    its = [one for one in LOOPS if one.name.startswith("fa3.") and one.dim == dim and one.name.endswith("causal") == causal]
    return max(Published(one, gpu, sequence, causal, 1, heads).modelled for one in its)
