"""A token's decode over few key/value heads: what both launches take by the model, beside a goal in terms of the bytes that
have to be read. Counted: instructions (emulator), splits (the engine's rule), bytes, rounds of loads that wait for each
other. Assumed: the constants below."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from . import images, loops, schedule
from .analysis import LATENCY
from .emulator import case
from .nest import L2_LATENCY
from .rates import GPUS, RATES, SUB_CORES, Gpu
from .render import table

LAUNCH = 1.0e-6  # seconds from one kernel's end to the next one's first instruction, launched long before: an assumption
DEPENDENT = 0.5e-6  # where that one is on the multiprocessors already and waits (programmatic dependent launch): as above
ALONE = 4  # cycles for which a warp's instruction keeps the next one waiting: dependent arithmetic
GROUP, DIM = 8, 128  # query heads of a key/value head; head dimension
HEADS, KEYS = (1, 2, 8), (2048, 8192, 32768, 131072)
MOST_ROWS, MOST_SPLITS = 64, 296  # of the combination's own goal

CARDS = {"A100": "80", "H100 mma.sync": "90a", "H200 mma.sync": "90a"}


@dataclass(frozen=True)
class Counts:
    """Of one architecture's kernels. Instructions are those of the PTX, of a warp."""

    turns: dict[int, float]  # cycles of a turn over a block of keys, by blocks an SM
    keys: int  # of a block of keys
    beside: float  # instructions of a warp of the decode kernel beside its turns
    combine: float  # of a warp of the combination with up to 256 splits
    round: float  # of it with 256 more


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
    """page: keys of a page, of the emulator's counts; 0: not paged."""
    image = images.Image.of(build / "kernels" / f"sm_{arch}.mma.{dtype}.{DIM}.fatbin")
    assert image is not None
    tile = images.tiles(compiler)[("mma", image.sm, DIM, "fa_forward_decode")]
    function = next(f for f in images.functions(image.path, tools) if f.name == "fa_forward_decode")
    loop = loops.steady_loop(function)
    assert loop is not None
    warps = tile.threads // 32
    turns = {n: schedule.cycles_a_turn(loop.steady, RATES[image.sm], n * warps // SUB_CORES, n) for n in (1, 2)}

    def of_warp(blocks_of_keys: int, splits: int, kernel: int, heads: int = GROUP, pages: int = page) -> float:
        text = f"sq=1 sk={blocks_of_keys * splits * tile.keys} hq={heads} hkv=1 d={DIM} q={dtype} splits={splits} page={pages}"
        launch = case(build, arch, text)[kernel]
        threads: int = math.prod(launch["grid"]) * math.prod(launch["block"])
        return float(launch["warp_instructions"]) / (threads / 32)

    one, four = of_warp(1, 8, 0), of_warp(4, 8, 0)
    if page:  # its loop is the same, and executes more of it
        more = (four - one) / (of_warp(4, 8, 0, pages=0) - of_warp(1, 8, 0, pages=0))
        turns = {n: cycles * more for n, cycles in turns.items()}
    combine, further = (of_warp(1, splits, 1, tile.rows) for splits in (256, 257))  # all rows of the tile exist
    return Counts(turns, tile.keys, one - (four - one) / 3, combine, further - combine)


def combine_seconds(gpu: Gpu, of: Counts, rows: int, splits: int, first: float) -> float:
    """From the first kernel's end on; first: until the second one's first instruction."""
    rates, clock = RATES[gpu.sm], gpu.clock * 1e9
    groups = min(32, 1 << max(0, math.ceil(math.log2(splits / 8))))  # combine/tiles.h
    blocks = math.ceil(rows / (32 // groups)) * (DIM // 32)
    resident = math.ceil(blocks / gpu.sms)  # of an SM
    rounds = math.ceil(splits / 256)
    waits = rounds + (rounds > 1)  # further maxima first
    warps = resident * 8 / SUB_CORES
    busy = (of.combine + (rounds - 1) * of.round) * max(ALONE, warps)
    bytes_of_sm = resident * (32 // groups) * splits * (4 * 32 + 8)
    return first + (busy + waits * L2_LATENCY + bytes_of_sm / rates.l2_bytes) / clock


def seconds_of(gpu: Gpu, of: Counts, tiles: int, splits: int, each: int, slots: int, kv_bytes: int) -> tuple[float, float]:
    """Of both launches, and of the second."""
    clock = gpu.clock * 1e9
    blocks = tiles * splits
    resident = 2 if slots > gpu.sms and blocks > gpu.sms else 1
    turns = math.ceil(blocks / slots) * each * of.turns[resident] / clock
    split = LAUNCH + LATENCY + max(turns, kv_bytes / (gpu.dram * 1e9)) + of.beside * ALONE / clock
    if splits == 1:
        return split, 0
    combine = combine_seconds(gpu, of, tiles * GROUP, splits, DEPENDENT if gpu.sm >= 90 else LAUNCH)
    return split + combine, combine


def plans(gpu: Gpu, compiler: str, wanted: list[tuple[int, int]]) -> list[tuple[int, int, int]]:
    """Slots, splits and blocks of keys of a split, for tiles and keys."""
    with tempfile.TemporaryDirectory() as folder:
        program, source = Path(folder) / "splits", Path(__file__).with_name("splits.cpp")
        include = [word for path in ("kernels", "src", "include") for word in ("-I", images.ROOT / path)]
        images.run(compiler, "-std=c++20", *include, source, "-o", program)
        rate = gpu.dram / gpu.clock / gpu.sms
        text = "".join(f"{gpu.sm} {DIM} {gpu.sms} {rate} {tiles} {keys}\n" for tiles, keys in wanted)
        lines = images.run(program, text=text).splitlines()
    return [tuple(map(int, line.split())) for line in lines]  # type: ignore[misc]


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
            yield row(splits, each), row(math.ceil(keys / of.keys / four), four)


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
        [card, f"{1e6 * combine_seconds(GPUS[card], known[arch], MOST_ROWS, MOST_SPLITS, LAUNCH):.1f}",
         f"{1e6 * combine_seconds(GPUS[card], known[arch], MOST_ROWS, 128, LAUNCH):.1f}", "4"]
        for card, arch in CARDS.items()
    ]  # fmt: skip
    counted = [
        [f"sm_{arch}", f"{of.turns[1]:.0f}", f"{of.turns[2]:.0f}", f"{of.beside:.0f}", f"{of.combine:.0f}", f"{of.round:.0f}"]
        for arch, of in known.items()
    ]
    return "\n".join([
        table(head, lines),
        table(["GPU", f"combine of {MOST_ROWS} rows, {MOST_SPLITS} splits, us", "128 splits, us", "goal, us"], most),
        table(["", "cycles of a turn, one block an SM", "two blocks", "instructions of a warp beside its turns",
               "of a warp of the combination", "of a further round"], counted),
    ])  # fmt: skip
