"""A token's decode over few key/value heads: the predicted time of both launches, next to a goal in terms of the bytes that
have to be read. From machine code: instructions, their stalls and scoreboards (phases.py); counted: splits (the engine's
rule), bytes. Assumed: the constants below."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from . import images, loops, phases, schedule
from .analysis import LATENCY
from .emulator import case
from .nest import L2_LATENCY
from .phases import Part
from .rates import GPUS, RATES, SUB_CORES, Gpu
from .render import predicted

LAUNCH = 1.0e-6  # seconds from one kernel's end to the next one's first instruction, launched long before: an assumption
ALONE = 4  # cycles for which a warp's instruction keeps the next one waiting, where only the PTX is counted
DEPENDENT = 0.5e-6  # where that one is on the multiprocessors already and waits (programmatic dependent launch): as above
GROUP, DIM = 8, 128  # query heads of a key/value head; head dimension
HEADS, KEYS = (1, 2, 8), (2048, 8192, 32768, 131072)
MOST_ROWS, MOST_SPLITS = 64, 296  # of the combination's goal

CARDS = {"A100": "80", "H100 mma.sync": "90a", "H200 mma.sync": "90a"}


@dataclass(frozen=True)
class Counts:
    """The counts of one architecture."""

    decode: phases.Decode
    combine: phases.Combine


@dataclass(frozen=True)
class Row:
    card: str
    heads: int
    keys: int
    blocks: int  # of threads
    splits: int
    each: int  # blocks of keys of a split
    seconds: float  # both launches
    combine: float
    bytes: int

    @property
    def goal(self) -> float:
        return 1.3 * self.bytes / (GPUS[self.card].dram * 1e9) + 5e-6


def counts(build: Path, arch: str, tools: Path, compiler: str, dtype: str = "bf16", page: int = 0) -> Counts:
    """page: keys of a page, which an iteration takes as much longer for as the emulator executes more; 0: not paged."""

    def function(name: str, entry: str) -> tuple[images.Image, phases.Function]:
        image = images.Image.of(build / "kernels" / f"sm_{arch}.{name}.fatbin")
        assert image is not None
        return image, next(f for f in images.functions(image.path, tools) if f.name == entry)

    image, decode = function(f"mma.{dtype}.{DIM}", "fa_forward_decode")
    tile = images.tiles(compiler)[("mma", image.sm, DIM, "fa_forward_decode")]

    def of_warp(blocks_of_keys: int, splits: int, kernel: int, heads: int = GROUP, pages: int = page) -> float:
        text = f"sq=1 sk={blocks_of_keys * splits * tile.keys} hq={heads} hkv=1 d={DIM} q={dtype} splits={splits} page={pages}"
        launch = case(build, arch, text)[kernel]
        threads: int = math.prod(launch["grid"]) * math.prod(launch["block"])
        return float(launch["warp_instructions"]) / (threads / 32)

    more = 1.0
    if page:
        more = (of_warp(4, 8, 0) - of_warp(1, 8, 0)) / (of_warp(4, 8, 0, pages=0) - of_warp(1, 8, 0, pages=0))
    if image.sm in phases.PARAMETERS:
        _, combine = function("combine.f32.576", "fa_combine")
        known = phases.decode(decode, image.sm, DIM, tile, rows_q(compiler))
        iterations = {n: cycles * more for n, cycles in known.iterations.items()}
        return Counts(replace(known, iterations=iterations), phases.combine(combine, image.sm))

    loop, warps = loops.steady_loop(decode), tile.threads // 32
    assert loop is not None
    iterations = {
        n: more * schedule.cycles_per_iteration(loop.steady, RATES[image.sm], n * warps // SUB_CORES, n) for n in (1, 2)
    }
    one, four = of_warp(1, 8, 0), of_warp(4, 8, 0)
    splits, further = (of_warp(1, n, 1, tile.rows) for n in (256, 257))  # all rows of the tile exist
    iteration, none = Part(0, iterations[1]), Part(0, 0)
    fixed = one - (four - one) / 3
    return Counts(
        phases.Decode(tile.keys, by_ptx(fixed), none, iteration, iterations, iteration, none),
        phases.Combine(none, by_ptx(splits, 1), by_ptx(splits, 1), by_ptx(further - splits, 1)),
    )


def by_ptx(instructions: float, waits: int = 0) -> Part:
    return Part(round(instructions), instructions * ALONE + waits * L2_LATENCY)


def combine_seconds(gpu: Gpu, of: phases.Combine, rows: int, splits: int) -> float:
    """From the first kernel's end on."""
    rates, clock = RATES[gpu.sm], gpu.clock * 1e9
    groups = min(32, 1 << max(0, math.ceil(math.log2(splits / phases.DEPTH))))  # forward/combine/tiles.h
    blocks = math.ceil(rows / (32 // groups)) * (DIM // 32)
    resident = math.ceil(blocks / gpu.sms)  # of an SM
    further = math.ceil(splits / 256) - 1
    warps = resident * 8 / SUB_CORES
    dependent = gpu.sm >= 90  # and before the wait while the first kernel runs
    parts = ([] if dependent else [of.before]) + [of.few if splits <= 32 else of.many] + [of.round] * further
    busy = max(sum(p.cycles for p in parts), warps * sum(p.instructions for p in parts))
    bytes_of_sm = resident * (32 // groups) * splits * (4 * 32 + 8)
    return (DEPENDENT if dependent else LAUNCH) + (busy + bytes_of_sm / rates.l2_bytes) / clock


def seconds_of(gpu: Gpu, of: Counts, tiles: int, splits: int, each: int, slots: int, kv_bytes: int) -> tuple[float, float]:
    """The time of both launches, and of the second."""
    clock, decode = gpu.clock * 1e9, of.decode
    blocks = tiles * splits
    resident = 2 if slots > gpu.sms and blocks > gpu.sms else 1
    iterations = (decode.first.cycles + (math.ceil(blocks / slots) * each - 1) * decode.iterations[resident]) / clock
    split = LAUNCH + decode.asks.cycles / clock + max(LATENCY, decode.readies.cycles / clock)
    split += max(iterations, kv_bytes / (gpu.dram * 1e9)) + decode.ends.cycles / clock
    if splits == 1:
        return split, 0
    combine = combine_seconds(gpu, of.combine, tiles * GROUP, splits)
    return split + combine, combine


def engine(compiler: str, text: str) -> list[list[int]]:
    """The numbers of each line that splits.cpp prints."""
    with tempfile.TemporaryDirectory() as folder:
        program, source = Path(folder) / "splits", Path(__file__).with_name("splits.cpp")
        include = [word for path in ("kernels", "src", "include", "") for word in ("-I", images.ROOT / path)]
        images.run(compiler, "-std=c++20", *include, source, "-o", program)
        return [[int(n) for n in line.split()] for line in images.run(program, text=text).splitlines()]


def rows_q(compiler: str) -> int:
    return engine(compiler, "")[0][0]


def plans(gpu: Gpu, compiler: str, wanted: list[tuple[int, int]]) -> list[list[int]]:
    """Slots, splits and blocks of keys of a split, for tiles and keys."""
    rate = gpu.dram / gpu.clock / gpu.sms
    return engine(compiler, "".join(f"{gpu.sm} {DIM} {gpu.sms} {rate} {tiles} {keys}\n" for tiles, keys in wanted))[1:]


def rows(known: dict[str, Counts], compiler: str) -> Iterator[tuple[Row, Row]]:
    """Each as it is planned, and with four blocks of keys a split at least."""
    wanted = [(heads, keys) for heads in HEADS for keys in KEYS]
    for card, arch in CARDS.items():
        gpu, of = GPUS[card], known[arch]
        for (heads, keys), (slots, splits, each) in zip(wanted, plans(gpu, compiler, wanted), strict=True):
            kv_bytes = 2 * 2 * heads * keys * DIM

            def row(splits: int, each: int) -> Row:
                both, second = seconds_of(gpu, of, heads, splits, each, slots, kv_bytes)
                return Row(card, heads, keys, heads * splits, splits, each, both, second, kv_bytes)

            four = max(each, 4)
            yield row(splits, each), row(math.ceil(keys / of.decode.keys / four), four)


def text(build: Path, tools: Path, compiler: str) -> str:
    known = {arch: counts(build, arch, tools, compiler) for arch in dict.fromkeys(CARDS.values())}
    head = ["GPU", "key/value heads", "keys", "splits", "blocks of keys each", "combine, us", "both launches, us",
            "goal, us", "", "with four blocks each, us"]  # fmt: skip
    lines = [
        [r.card, str(r.heads), str(r.keys), str(r.splits), str(r.each), f"{1e6 * r.combine:.1f}", f"{1e6 * r.seconds:.1f}",
         f"{1e6 * r.goal:.1f}", "reached" if r.seconds <= r.goal else "**missed**", f"{1e6 * four.seconds:.1f}"]
        for r, four in rows(known, compiler)
    ]  # fmt: skip
    most = [
        [card, f"{1e6 * combine_seconds(GPUS[card], known[arch].combine, MOST_ROWS, MOST_SPLITS):.1f}",
         f"{1e6 * combine_seconds(GPUS[card], known[arch].combine, MOST_ROWS, 128):.1f}", "4"]
        for card, arch in CARDS.items()
    ]  # fmt: skip
    parts: dict[str, dict[str, phases.Part]] = {}
    for arch, of in known.items():
        d, c = of.decode, of.combine
        parts[arch] = {
            "decode: until the first keys are asked for": d.asks, "until they are waited for": d.readies,
            "first iteration": d.first, "further iteration": d.iteration, "from the last iteration to the end": d.ends,
            "combine: until it waits for the splits": c.before, "from then on, up to 32 splits": c.few,
            "up to 256 splits": c.many, "256 more": c.round,
        }  # fmt: skip
    steps = [
        [name, *(f"{of[name].instructions}, {of[name].cycles:.0f}" for of in parts.values())] for name in parts[CARDS["A100"]]
    ]
    two = ["further iteration, two blocks an SM", *(f"{of.decode.iterations[2]:.0f}" for of in known.values())]
    return "\n".join([
        predicted(head, lines),
        predicted(["GPU", f"combine of {MOST_ROWS} rows, {MOST_SPLITS} splits, us", "128 splits, us", "goal, us"], most),
        predicted(["instructions of a warp, cycles", *(f"sm_{arch}" for arch in known)], [*steps, two]),
    ])  # fmt: skip
