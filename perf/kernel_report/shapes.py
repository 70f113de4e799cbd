"""The times of common calls by the model, on the boards that they run on: prefills by the loop of the entry point
that supports them, or by the bytes that they move, decodes by latency.py's rules. Nothing here was measured on hardware."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from . import executed, images, latency, model
from .analysis import LATENCY, analyse
from .calls import Call, Plan, plans
from .rates import GPUS, RATES, Gpu, card
from .render import predicted, table
from .sass import Function

PACKED = (8192, 1000, 5000, 512, 3800, 77, 1900, 4096, 6000, 2500, 300, 8000)

PREFILLS = [
    Call(4, 16, 16, 4096, 4096, 128),
    Call(4, 16, 16, 4096, 4096, 128, causal=True),
    Call(4, 32, 32, 4096, 4096, 64),
    Call(8, 16, 16, 2048, 2048, 128, causal=True),
    Call(2, 64, 8, 8192, 8192, 128),
    Call(2, 64, 8, 8192, 8192, 128, causal=True),
    Call(1, 32, 8, 8192, 8192, 128, causal=True),
    Call(1, 64, 8, 16384, 16384, 128, causal=True),
    Call(1, 64, 8, 32768, 32768, 128),
    Call(1, 64, 8, 32768, 32768, 128, causal=True),
    Call(2, 64, 8, 8192, 8192, 96),
    Call(2, 64, 8, 8192, 8192, 192),
    Call(1, 128, 128, 8192, 8192, 192, causal=True, dim_v=128),
    Call(2, 64, 8, 8192, 8192, 256),
    Call(0, 32, 8, 0, 0, 128, causal=True, lengths=PACKED),
    Call(1, 32, 8, 2048, 16384, 128, causal=True, page=16),
    Call(1, 32, 16, 8192, 8192, 128, causal=True, softcap=50),
    Call(4, 32, 32, 2048, 2048, 128, causal=True, alibi=True),
    Call(4, 16, 16, 2048, 2048, 64, bias=True),
]
DECODES = [
    Call(1, 32, 8, 1, 8192, 128),
    Call(16, 32, 8, 1, 8192, 128),
    Call(1, 64, 8, 1, 8192, 128, page=16),
    Call(64, 32, 8, 1, 4096, 128, page=16),
]

# Few queries on a GPU whose warpgroups multiply, each after the same of one query; and their goals.
FEW = [
    (Call(1, 64, 8, 1, 1024, 128), "7 us"),
    (Call(8, 64, 8, 1, 8192, 128), "90 %"),
    (Call(1, 64, 8, 8, 1024, 128), "1.15 times one's"),
    (Call(8, 64, 8, 8, 8192, 128), "1.15 times one's"),
    (Call(1, 64, 8, 1, 8192, 128), ""),
    (Call(1, 64, 8, 8, 8192, 128), "1.15 times one's"),
]
FEW_ON = "H200 wgmma"

# cuDNN 9.27's decode on an H200, us: NVIDIA's cudnn-frontend, benchmark/attention_inference/results/decode_sweep, file of 28
# September 2026. They took no part in any fit, and the kernels are not at hand.
PUBLISHED = {Call(1, 64, 8, 1, 2048, 128, page=16): 6.4, Call(1, 64, 8, 1, 8192, 128, page=16): 14.6,
             Call(1, 64, 8, 1, 131072, 128, page=16): 131}  # fmt: skip
PUBLISHED_ON = "H200 mma.sync"

# cuDNN 9.27's and FlashAttention-4's forward pass on an H200, TFLOP/s, full and causal, by rows of 2 sequences with 64 heads, 8 of
# keys, head dimension 128: NVIDIA's cudnn-frontend, benchmark/attention_training/results/llama3.1, file of 28 September 2026. And
# our goal in terms of cuDNN's; it should also be as fast as FlashAttention-4 from 8192 rows on.
PREFILLED = {2048: ((660, 534), (671, 522)), 4096: ((687, 616), (734, 619)), 8192: ((701, 655), (756, 675)),
             16384: ((640, 633), (686, 702)), 32768: ((622, 619), (679, 638))}  # fmt: skip
OVER_CUDNN = {(2048, True): 1.2, **{(rows, causal): 1.08 for rows in (8192, 16384, 32768) for causal in (False, True)}}

PLAIN, FEATURED, DECODE = "fa_forward_plain", "fa_forward_score_mod", "fa_forward_decode"

# By the names of rates.py; their images.
BOARDS = {"T4": "75", "A10": "86", "L4": "89", "RTX 4090": "89", "A100": "80", "H100 mma.sync": "90a", "H200 mma.sync": "90a",
          "H200 wgmma": "90a", "RTX PRO 6000": "120"}  # fmt: skip


@dataclass(frozen=True)
class Made:
    """A call on a board."""

    call: Call
    board: str
    plan: Plan
    seconds: float
    by_memory: bool  # which decides

    @property
    def teraflops(self) -> float:
        return self.call.operations / self.seconds / 1e12

    @property
    def of_rate(self) -> float:
        """The part of the memory's rate at which keys and values come in."""
        return self.plan.read / self.seconds / (GPUS[self.board].dram * 1e9)


def dtype_of(arch: str) -> str:
    return "f16" if arch == "75" else "bf16"


@dataclass(frozen=True)
class Turn:
    entry: str
    a_score: float  # instructions of the machine code that a lane issues; but for plain, as far as is known
    turn: model.Turn


class Turns:
    """Turns of the kernels of a build, each found once."""

    def __init__(self, build: Path, tools: Path, compiler: str) -> None:
        self.build, self.tools, self.compiler = build, tools, compiler
        self.tiles = images.tiles(compiler)
        self.functions: dict[tuple[str, str, int], tuple[images.Image, dict[str, Function]]] = {}
        self.found: dict[tuple[str, str, int, str], Turn] = {}  # by architecture, family, head dimension and feature
        self.counted: dict[tuple[str, int], latency.Counts] = {}

    def image(self, arch: str, dim: int, family: str = "mma") -> tuple[images.Image, dict[str, Function]]:
        if (arch, family, dim) not in self.functions:
            image = images.Image.of(self.build / "kernels" / f"sm_{arch}.{family}.{dtype_of(arch)}.{dim}.fatbin")
            assert image is not None
            self.functions[arch, family, dim] = image, {f.name: f for f in images.functions(image.path, self.tools)}
        return self.functions[arch, family, dim]

    def warpgroups(self, arch: str, call: Call, entry: str) -> Turn:
        """Turn of kernels whose warpgroups multiply: all by their machine code, in which the code of each feature is known."""
        feature = call.features if entry == FEATURED else ""
        key = (arch, "wgmma", call.dim, feature or ("values of 128" if call.dim_v else ""))
        if key not in self.found:
            image, functions = self.image(arch, call.dim, "wgmma")
            found = analyse(image, functions[entry], self.tiles["wgmma", image.sm, call.dim, entry], feature=feature)
            assert found is not None and found.turn is not None
            self.found[key] = Turn(entry, found.per_score, found.turn)
        return self.found[key]

    def tile(self, arch: str, dim: int, entry: str) -> images.Tile:
        return self.tiles["mma", self.image(arch, dim)[0].sm, dim, entry]

    def plain(self, arch: str, dim: int) -> tuple[model.Turn, int]:
        """And how many instructions a warp issues in it."""
        image, functions = self.image(arch, dim)
        entry = analyse(image, functions[PLAIN], self.tile(arch, dim, PLAIN))
        assert entry is not None and entry.turn is not None
        return entry.turn, entry.issued

    def of_machine(self, arch: str, dim: int) -> float:
        tile = self.tile(arch, dim, PLAIN)
        _, of = executed.executed(self.build, arch, dtype_of(arch), Call(1, 1, 1, 0, 0, dim), tile)
        return of.of_machine(self.plain(arch, dim)[1])

    def turn(self, arch: str, call: Call, entry: str) -> Turn:
        key = (arch, "mma", call.dim, call.features)
        if key in self.found:
            return self.found[key]
        tile = self.tile(arch, call.dim, entry)
        scores = tile.rows * tile.keys / tile.threads
        if entry == PLAIN:
            turn, issued = self.plain(arch, call.dim)
            self.found[key] = Turn(entry, issued / scores, turn)
        else:
            image, functions = self.image(arch, call.dim)
            served_by, of = executed.executed(self.build, arch, dtype_of(arch), call, tile)
            if served_by != entry:
                raise SystemExit(f"{image.path}: got {served_by} for {call.text}, expected {entry}")
            of_machine = self.of_machine(arch, call.dim)
            turn = executed.turn(of, RATES[image.sm], functions[entry].registers, tile, call.dim, of_machine)
            self.found[key] = Turn(entry, of.issued_by(of_machine) / scores, turn)
        return self.found[key]

    def counts(self, arch: str, page: int) -> latency.Counts:
        if (arch, page) not in self.counted:
            self.counted[arch, page] = latency.counts(self.build, arch, self.tools, self.compiler, dtype_of(arch), page)
        return self.counted[arch, page]


def on_board(turn: model.Turn, gpu: Gpu) -> model.Turn:
    """With the rate of the board's tensor cores."""
    units = {name: t * (gpu.mma_factor if name == "tensor" else 1) for name, t in turn.units.items()}
    return replace(turn, units=units, ideal=turn.ideal * gpu.mma_factor)


def prefill(turns: Turns, call: Call, board: str, plan: Plan) -> Made:
    gpu = GPUS[board]
    arch = BOARDS[board]
    turn = (
        turns.warpgroups(arch, call, plan.entry).turn if gpu.wgmma else on_board(turns.turn(arch, call, plan.entry).turn, gpu)
    )
    even = call.causal or bool(call.lengths)
    columns = (call.dim + call.columns) // 2
    by_units = model.seconds(turn, gpu, call.tiles(turn.rows, turn.keys), call.heads, columns, even)
    by_memory = plan.memory_seconds(gpu)
    return Made(call, board, plan, max(by_units, by_memory), by_memory > by_units)


def few(turns: Turns, call: Call, board: str, plan: Plan) -> Made:
    """Few queries, whose heads share a tile, over keys in splits: as decodes, with turns of the loop of prefills."""
    gpu, of = GPUS[board], turns.counts(BOARDS[board], call.page)
    turn = turns.warpgroups(BOARDS[board], call, plan.entry).turn
    clock, rows = gpu.clock * 1e9, call.queries * call.heads // call.heads_kv
    each = -(-(-(-call.keys // plan.keys)) // plan.splits)
    (cycles,) = model.tile_cycles(replace(turn, rows=rows), [(0, 0)], call.dim)
    moved = plan.read / (gpu.dram * 1e9)
    both = latency.LAUNCH + LATENCY + max(-(-plan.tiles * plan.splits // plan.slots) * each * turn.cycles / clock, moved)
    both += cycles / clock + latency.combine_seconds(gpu, of.combine, plan.tiles * rows, plan.splits)
    return Made(call, board, plan, both, moved > both / 2)


def decode(turns: Turns, call: Call, board: str, plan: Plan) -> Made:
    gpu, of = GPUS[board], turns.counts(BOARDS[board], call.page)
    each = -(-call.keys // plan.keys // plan.splits)
    both, _ = latency.seconds_of(gpu, of, plan.tiles, plan.splits, each, plan.slots, plan.read)
    return Made(call, board, plan, both, plan.memory_seconds(gpu) > both / 2)


def made(turns: Turns, calls: list[Call], boards: list[str]) -> Iterator[Made]:
    wanted = [(call, board) for call in calls for board in boards]
    planned = plans(turns.build, wanted)
    for (call, board), plan in zip(wanted, planned, strict=True):
        if GPUS[board].wgmma != (plan.family == "wgmma") or (call.dim_v and plan.family != "wgmma"):
            continue  # of other families: in separate columns, and as wide as their queries
        yield (decode if plan.entry == DECODE else prefill)(turns, call, board, plan)


def few_rows(turns: Turns) -> list[list[str]]:
    """Calls of few queries by the family that supports them, next to their goals."""
    result: list[list[str]] = []
    planned = plans(turns.build, [(call, FEW_ON) for call, _ in FEW])
    known: dict[tuple[int, int], float] = {}  # of one query, by sequences and keys
    for (call, goal), plan in zip(FEW, planned, strict=True):
        of = (decode if plan.entry == DECODE else few)(turns, call, FEW_ON, plan)
        one = known.setdefault((call.batch, call.keys), of.seconds)
        by = f"{plan.family}, {plan.entry.removeprefix('fa_forward_')}, {plan.splits} splits"
        result.append([call.text, by, f"{1e6 * of.seconds:.1f}", f"{100 * of.of_rate:.0f} %", f"{of.seconds / one:.2f}", goal])
    return result


def prefilled_rows(turns: Turns) -> list[list[str]]:
    """Next to the published figures of others. The verdict is the model's."""
    result = []
    for (rows, of), causal in ((figures, causal) for causal in (False, True) for figures in PREFILLED.items()):
        cudnn, flash = (both[causal] for both in of)
        (ours,) = made(turns, [Call(2, 64, 8, rows, rows, 128, causal=causal)], [FEW_ON])
        goal = OVER_CUDNN.get((rows, causal))
        times = ours.teraflops / cudnn, ours.teraflops / flash
        met = goal and times[0] >= goal and (rows < 8192 or times[1] >= 1)
        asked = f"{goal:g}" + ("; 1 of FlashAttention-4" if rows >= 8192 else "") if goal else ""
        result.append([str(rows), "causal" if causal else "full", f"{ours.teraflops:.0f}", f"{cudnn}", f"{times[0]:.2f}", f"{flash}",
                       f"{times[1]:.2f}", asked, ("reached in the model" if met else "**missed**") if goal else ""])  # fmt: skip
    return result


def rows(found: list[Made], boards: list[str], of: str) -> list[list[str]]:
    """A call a row, a board a column. of: "TFLOP/s", or "us"."""
    result = []
    for call in dict.fromkeys(m.call for m in found):
        its = {m.board: m for m in found if m.call == call}
        entry = " / ".join(dict.fromkeys(m.plan.entry.removeprefix("fa_forward_") for m in its.values()))
        cells = []
        for board in boards:
            one = its.get(board)
            if one is None:
                cells.append("")
            elif of == "us":
                cells.append(f"{1e6 * one.seconds:.3g}, {100 * one.of_rate:.0f} %")
            else:
                cells.append(f"{one.teraflops:.0f}" + (" (memory)" if one.by_memory else ""))
        result.append([call.text, entry, *cells])
    return result


def dq_semaphore_rows(turns: Turns) -> list[list[str]]:
    """The turns that calls were modelled by: a line for each architecture, head dimension and set of features."""
    result = []
    for (arch, family, dim, features), of in sorted(
        turns.found.items(), key=lambda item: (int(item[0][0].rstrip("a")), item[0][1:])
    ):
        plain = turns.found.get((arch, family, dim, ""))
        gpu = GPUS[next(board for board, its in BOARDS.items() if its == arch and GPUS[board].wgmma == (family == "wgmma"))]
        cost = of.turn.cycles / of.turn.blocks / of.turn.rows / of.turn.keys
        times = f"{cost / (plain.turn.cycles / plain.turn.blocks / plain.turn.rows / plain.turn.keys):.2f}" if plain else ""
        result.append([f"sm_{arch} {family} hd{dim}", features or "none", of.entry.removeprefix("fa_forward_"), f"{of.a_score:.1f}",
                       f"{of.turn.cycles:.0f}", of.turn.limit, f"{100 * of.turn.of_peak(gpu):.0f} %", times])  # fmt: skip
    return result


def published_rows(turns: Turns) -> list[list[str]]:
    """Published figures of others, this library's decode, and the bytes alone."""
    rows = []
    for one in made(turns, list(PUBLISHED), [PUBLISHED_ON]):
        figures = [1e6 * one.seconds, PUBLISHED[one.call], 1e6 * one.plan.memory_seconds(GPUS[PUBLISHED_ON])]
        rows.append([one.call.text, *(f"{us:.1f}" for us in figures), f"{100 * (figures[0] / figures[1] - 1):+.0f} %"])
    return rows


def text(build: Path, tools: Path, compiler: str) -> str:
    boards, turns = list(BOARDS), Turns(build, tools, compiler)
    small = [board for board in boards if not GPUS[board].wgmma]  # on which few rows run
    names, cards = [board.removesuffix(" mma.sync") for board in boards], [card(board) for board in small]
    prefills, decodes = list(made(turns, PREFILLS, boards)), list(made(turns, DECODES, small))
    head = ["kernel", "features", "entry point", "a score", "turn, cycles", "limit", "of the peak", "time, in plain's"]
    return "\n".join([
        predicted(head, dq_semaphore_rows(turns)),
        predicted(["call", "entry point", *(f"{name}, TFLOP/s" for name in names)], rows(prefills, boards, "TFLOP/s")),
        predicted(["decode", "entry point", *(f"{name}, us, of the memory's rate" for name in cards)], rows(decodes, small, "us")),
        predicted([f"few queries on an {card(FEW_ON)}", "by", "us", "of the memory's rate", "times one query", "goal"], few_rows(turns)),
        table([f"rows, on an {card(FEW_ON)}", "mask", "predicted TFLOP/s", "cuDNN 9.27", "times it", "FlashAttention-4", "times it",
               "goal", "verdict"], prefilled_rows(turns)),
        table(["decode on an H200", "predicted, us", "cuDNN, us", "bytes alone, us", "difference"], published_rows(turns)),
    ])  # fmt: skip
