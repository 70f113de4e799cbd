"""One entry point of an image: the instructions of its steady loop, and its speed by the model."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from . import loops, model, schedule, wgmma
from .images import Image, Tile, columns_of_values, columns_read
from .rates import GPUS, RATES, SUB_CORES
from .sass import Function

LATENCY = 700e-9  # seconds from asking memory to having it, under load: an assumption


@dataclass
class Entry:
    """Figures of the steady loop are a warp's, in one iteration."""

    image: Image
    name: str
    features: str  # that are switched on: "softcap"
    tile: Tile
    registers: int
    spills: int  # accesses of local memory in the steady loop
    tensor: int  # tensor-core instructions; columns of wgmma
    tensor_ideal: float
    issued: int
    seldom: int
    per_score: float  # instructions a lane issues for one of its scores
    per_score_rest: float  # but for tensor-core and ldmatrix instructions
    counts: dict[str, int]
    blocks: int  # of an SM
    masked: int = 0  # instructions issued in an iteration with masks; 0: not known
    iteration: model.Iteration | None = None
    products: wgmma.Products | None = None  # where warpgroups multiply
    warnings: int = 0  # of ptxas, that it made products wait for one another
    alone: float = 0  # cycles of an iteration by the simulated schedule; 0: not simulated
    speeds: dict[str, float] = field(default_factory=dict)  # TFLOP/s of shapes
    capped: dict[str, float] = field(default_factory=dict)  # at the board's power limit, where there is a figure of it
    emulated: dict[str, float] = field(default_factory=dict)

    @property
    def label(self) -> str:
        features = f", {self.features}" if self.features else ""
        return f"sm_{self.image.arch} {self.image.family} {self.image.dtype} hd{self.image.dim} {self.name}{features}"

    @property
    def gpu(self) -> str | None:
        return model.default_gpu(self.image.sm, self.products is not None)

    @property
    def peak(self) -> float:
        """TFLOP/s of the GPU that represents the SM."""
        assert self.gpu
        return GPUS[self.gpu].peak

    @property
    def of_peak(self) -> float | None:
        return self.iteration.of_peak(GPUS[self.gpu]) if self.iteration and self.gpu else None


def analyse(image: Image, function: Function, tile: Tile, simulate: bool = False, feature: str = "") -> Entry | None:
    """None where there is no tensor-core loop, or none with the feature, which is one of wgmma.FEATURES. simulate: also by the
    schedule, of a block alone."""
    loop = loops.steady_loop(function)
    if loop is None:
        return None
    masked = loops.masked_loop(function, loop)
    if feature:
        iteration = wgmma.with_feature(function, loop, feature)
        if iteration is None:
            return None
        loop, masked = replace(loop, steady=iteration, seldom=[]), None
    products = wgmma.products(loop.steady)
    dim_v = columns_of_values(image.dim, function.name)
    # A producer's warps have no scores; each warpgroup of the others has 64 rows, or shares them with others.
    of_rows = tile.rows * wgmma.THREADS // wgmma.ROWS
    threads = max(of_rows, tile.threads - wgmma.THREADS) if products else tile.threads
    warps = threads // 32
    depth = 8 if any(i.opcode == "HMMA" and ".1688" in i.modifiers for i in loop.steady) else 16
    ideal = 2 * tile.rows * tile.keys * image.dim / (16 * 8 * depth) / warps
    if products:
        ideal = tile.keys * (image.dim + dim_v) / 16 * of_rows / threads
    scores = tile.rows * tile.keys / threads
    moves = loop.tensor + loop.counts["LDSM"]
    issued = len(loop.steady)
    rates, gpu = RATES.get(image.sm), model.default_gpu(image.sm, products is not None)
    blocks = (
        model.min_blocks_per_sm(rates, function.registers, tile.threads, tile.shared_bytes) if rates and function.registers else 0
    )
    entry = Entry(
        image, function.name, feature, tile, function.registers, loop.local, products.columns if products else loop.tensor, ideal,
        issued, len(loop.seldom), issued / scores, (issued - moves) / scores, dict(loop.counts.most_common()), blocks,
        masked=len(masked.steady) if masked else 0, products=products, warnings=wgmma.warnings(image.path),
    )  # fmt: skip
    if rates is None or gpu is None or blocks == 0:
        return entry
    resident = blocks * warps / SUB_CORES  # warps of a sub-core
    units = {name: resident * t for name, t in model.unit_cycles(loop.steady, rates).items()}
    bytes_per_iteration = blocks * tile.keys * columns_read(image.dim, function.name) * 2
    units["L2"] = bytes_per_iteration / rates.l2_bytes
    if products:
        units["shared"] += bytes_per_iteration / rates.shared_bytes  # brought by TMA, of which a consumer's loop holds nothing
    cost = rates.wgmma if products else rates.mma * (0.5 if depth == 8 and image.sm != 75 else 1)
    entry.iteration = model.Iteration(units, resident * ideal * cost, blocks, tile.rows, tile.keys)
    if simulate:
        entry.alone = schedule.cycles_per_iteration(loop.steady, rates, max(warps // SUB_CORES, 1), 1)
    return entry
