"""The optimisation ladder of perf/gpu-instruction-counts.md: the same attention by ever better kernels, each a row of the model.
perf/ladder/ladder compiles them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from . import images, model
from .analysis import analyse
from .nest import L2_LATENCY, nest
from .rates import GPUS, RATES, SUB_CORES
from .render import predicted
from .sass import Function

GPU, SEQUENCE, BATCH_HEADS = "A100", 4096, 64


@dataclass(frozen=True)
class Step:
    folder: str
    what: str
    tile_of: int = 80  # whose tile it has
    preset: str = "standard"


STEPS = [
    Step("scalar", "f32, a number a load"),
    Step("vector", "loads of 16 bytes"),
    Step("tensor", "tensor cores; copies through registers, as on SM 75", tile_of=75),
    Step("pipeline", "asynchronous copies, three tiles in a ring; m16n8k16", preset="even"),
    Step("rows", "32 rows a warp, two blocks an SM: as built", preset="standard"),
]


@dataclass
class Row:
    step: Step
    tile: images.Tile
    registers: int
    per_score: float  # instructions a lane issues
    loads_per_score: float  # of them from shared memory
    iteration: model.Iteration

    @property
    def of_peak(self) -> float:
        return self.iteration.of_peak(GPUS[GPU])

    @property
    def teraflops(self) -> float:
        return model.teraflops(self.iteration, GPUS[GPU], SEQUENCE, 128, BATCH_HEADS, False)


def scalar_iteration(function: Function, image: images.Image, tile: images.Tile) -> tuple[model.Iteration, float, float] | None:
    """The iteration, instructions and loads from shared memory a score. Nothing comes in while a block works: an iteration takes no
    less than a block alone with its waits for the L2 cache."""
    found = nest(function, tile, image.dim)
    if found is None:
        return None
    rates, warps = RATES[image.sm], tile.threads // 32
    blocks = model.min_blocks_per_sm(rates, function.registers, tile.threads, tile.shared_bytes)
    alone = {unit: warps / SUB_CORES * t for unit, t in found.unit_cycles(rates).items()}
    ideal = 2 * tile.rows * tile.keys * image.dim / (16 * 8 * 16) / SUB_CORES * rates.mma
    one = model.Iteration(alone, ideal, 1, tile.rows, tile.keys)
    units = {unit: blocks * t for unit, t in alone.items()}
    units["L2"] = blocks * model.tile_bytes(tile.keys, image.dim) / rates.l2_bytes
    iteration = model.Iteration(units, blocks * ideal, blocks, tile.rows, tile.keys, one.cycles + found.waits * L2_LATENCY)
    scores = tile.rows * tile.keys / tile.threads
    return iteration, found.issued / scores, found.count("LDS") / scores


def row(step: Step, folder: Path, tools: Path, compiler: str) -> Row:
    """The row of the one cubin in the step's folder."""
    paths = sorted((folder / step.folder).glob("*.cubin"))
    image = images.Image.of(paths[0]) if paths else None
    if image is None:
        raise SystemExit(f"{folder / step.folder}: got no cubin, expected one as perf/ladder/ladder makes it")
    tiles = images.tiles(compiler, step.preset)
    for function in images.functions(image.path, tools):
        tile = tiles.get((image.family, step.tile_of, image.dim, function.name))
        if tile is None or function.name != ("fa_forward_plain" if image.family == "mma" else "fa_forward_split"):
            continue
        if image.family == "simt":
            if scalar := scalar_iteration(function, image, tile):
                return Row(step, tile, function.registers, scalar[1], scalar[2], scalar[0])
        elif (entry := analyse(image, function, tile)) and entry.iteration:
            scores = tile.rows * tile.keys / tile.threads
            return Row(step, tile, function.registers, entry.per_score, entry.counts.get("LDSM", 0) / scores, entry.iteration)
    raise SystemExit(f"{image.path}: got no loop over tiles of keys")


def text(folder: Path, tools: Path, compiler: str) -> str:
    rows = [row(step, folder, tools, compiler) for step in STEPS]
    head = ["step", "what is new", "tile, threads", "registers", "blocks an SM", "instructions a score", "of them shared loads",
            "limit", "of the peak", "TFLOP/s", "times as fast"]  # fmt: skip
    lines = []
    for n, r in enumerate(rows):
        gain = f"{r.teraflops / rows[n - 1].teraflops:.1f}" if n else ""
        lines.append([r.step.folder, r.step.what, f"{r.tile.rows}x{r.tile.keys}, {r.tile.threads}", str(r.registers),
                      str(r.iteration.blocks), f"{r.per_score:.1f}", f"{r.loads_per_score:.2f}", r.iteration.limit,
                      f"{100 * r.of_peak:.1f} %", f"{r.teraflops:.3g}", gain])  # fmt: skip
    return predicted(head, lines)
