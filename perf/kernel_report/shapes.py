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
class Iteration:
    entry: str
    a_score: float  # instructions of the machine code that a lane issues; but for plain, as far as is known
    iteration: model.Iteration


class Iterations:
    """Iterations of the kernels of a build, each found once."""

    def __init__(self, build: Path, tools: Path, compiler: str) -> None:
        self.build, self.tools, self.compiler = build, tools, compiler
        self.tiles = images.tiles(compiler)
        self.functions: dict[tuple[str, str, int], tuple[images.Image, dict[str, Function]]] = {}
        self.found: dict[tuple[str, str, int, str], Iteration] = {}  # by architecture, family, head dimension and feature
        self.counted: dict[tuple[str, int], latency.Counts] = {}

    def image(self, arch: str, dim: int, family: str = "mma") -> tuple[images.Image, dict[str, Function]]:
        if (arch, family, dim) not in self.functions:
            image = images.Image.of(self.build / "kernels" / f"sm_{arch}.{family}.{dtype_of(arch)}.{dim}.fatbin")
            assert image is not None
            self.functions[arch, family, dim] = image, {f.name: f for f in images.functions(image.path, self.tools)}
        return self.functions[arch, family, dim]

    def warpgroups(self, arch: str, call: Call, entry: str) -> Iteration:
        """Iteration of kernels whose warpgroups multiply: all by their machine code, in which the code of each feature is known."""
        feature = call.features if entry == FEATURED else ""
        key = (arch, "wgmma", call.dim, feature or ("values of 128" if call.dim_v else ""))
        if key not in self.found:
            image, functions = self.image(arch, call.dim, "wgmma")
            found = analyse(image, functions[entry], self.tiles["wgmma", image.sm, call.dim, entry], feature=feature)
            assert found is not None and found.iteration is not None
            self.found[key] = Iteration(entry, found.per_score, found.iteration)
        return self.found[key]

    def tile(self, arch: str, dim: int, entry: str) -> images.Tile:
        return self.tiles["mma", self.image(arch, dim)[0].sm, dim, entry]

    def plain(self, arch: str, dim: int) -> tuple[model.Iteration, int]:
        """And how many instructions a warp issues in it."""
        image, functions = self.image(arch, dim)
        entry = analyse(image, functions[PLAIN], self.tile(arch, dim, PLAIN))
        assert entry is not None and entry.iteration is not None
        return entry.iteration, entry.issued

    def of_machine(self, arch: str, dim: int) -> float:
        tile = self.tile(arch, dim, PLAIN)
        _, of = executed.executed(self.build, arch, dtype_of(arch), Call(1, 1, 1, 0, 0, dim), tile)
        return of.of_machine(self.plain(arch, dim)[1])

    def iteration(self, arch: str, call: Call, entry: str) -> Iteration:
        key = (arch, "mma", call.dim, call.features)
        if key in self.found:
            return self.found[key]
        tile = self.tile(arch, call.dim, entry)
        scores = tile.rows * tile.keys / tile.threads
        if entry == PLAIN:
            iteration, issued = self.plain(arch, call.dim)
            self.found[key] = Iteration(entry, issued / scores, iteration)
        else:
            image, functions = self.image(arch, call.dim)
            served_by, of = executed.executed(self.build, arch, dtype_of(arch), call, tile)
            if served_by != entry:
                raise SystemExit(f"{image.path}: got {served_by} for {call.text}, expected {entry}")
            of_machine = self.of_machine(arch, call.dim)
            iteration = executed.iteration(of, RATES[image.sm], functions[entry].registers, tile, call.dim, of_machine)
            self.found[key] = Iteration(entry, of.issued_by(of_machine) / scores, iteration)
        return self.found[key]

    def counts(self, arch: str, page: int) -> latency.Counts:
        if (arch, page) not in self.counted:
            self.counted[arch, page] = latency.counts(self.build, arch, self.tools, self.compiler, dtype_of(arch), page)
        return self.counted[arch, page]


def on_board(iteration: model.Iteration, gpu: Gpu) -> model.Iteration:
    """With the rate of the board's tensor cores."""
    units = {name: t * (gpu.mma_factor if name == "tensor" else 1) for name, t in iteration.units.items()}
    return replace(iteration, units=units, ideal=iteration.ideal * gpu.mma_factor)


def prefill(iterations: Iterations, call: Call, board: str, plan: Plan) -> Made:
    gpu = GPUS[board]
    arch = BOARDS[board]
    iteration = (
        iterations.warpgroups(arch, call, plan.entry).iteration
        if gpu.wgmma
        else on_board(iterations.iteration(arch, call, plan.entry).iteration, gpu)
    )
    even = call.causal or bool(call.lengths)
    columns = (call.dim + call.columns) // 2
    by_units = model.seconds(iteration, gpu, call.tiles(iteration.rows, iteration.keys), call.heads, columns, even)
    by_memory = plan.memory_seconds(gpu)
    return Made(call, board, plan, max(by_units, by_memory), by_memory > by_units)


def few(iterations: Iterations, call: Call, board: str, plan: Plan) -> Made:
    """Few queries, whose heads share a tile, over keys in splits: as decodes, with iterations of the loop of prefills."""
    gpu, of = GPUS[board], iterations.counts(BOARDS[board], call.page)
    iteration = iterations.warpgroups(BOARDS[board], call, plan.entry).iteration
    clock, rows = gpu.clock * 1e9, call.queries * call.heads // call.heads_kv
    each = -(-(-(-call.keys // plan.keys)) // plan.splits)
    (cycles,) = model.tile_cycles(replace(iteration, rows=rows), [(0, 0)], call.dim)
    moved = plan.read / (gpu.dram * 1e9)
    both = latency.LAUNCH + LATENCY + max(-(-plan.tiles * plan.splits // plan.slots) * each * iteration.cycles / clock, moved)
    both += cycles / clock + latency.combine_seconds(gpu, of.combine, plan.tiles * rows, plan.splits)
    return Made(call, board, plan, both, moved > both / 2)


def decode(iterations: Iterations, call: Call, board: str, plan: Plan) -> Made:
    gpu, of = GPUS[board], iterations.counts(BOARDS[board], call.page)
    each = -(-call.keys // plan.keys // plan.splits)
    both, _ = latency.seconds_of(gpu, of, plan.tiles, plan.splits, each, plan.slots, plan.read)
    return Made(call, board, plan, both, plan.memory_seconds(gpu) > both / 2)


def made(iterations: Iterations, calls: list[Call], boards: list[str]) -> Iterator[Made]:
    wanted = [(call, board) for call in calls for board in boards]
    planned = plans(iterations.build, wanted)
    for (call, board), plan in zip(wanted, planned, strict=True):
        if GPUS[board].wgmma != (plan.family == "wgmma") or (call.dim_v and plan.family != "wgmma"):
            continue  # of other families: in separate columns, and as wide as their queries
        yield (decode if plan.entry == DECODE else prefill)(iterations, call, board, plan)


def few_rows(iterations: Iterations) -> list[list[str]]:
    """Calls of few queries by the family that supports them, next to their goals."""
    result: list[list[str]] = []
    planned = plans(iterations.build, [(call, FEW_ON) for call, _ in FEW])
    known: dict[tuple[int, int], float] = {}  # of one query, by sequences and keys
    for (call, goal), plan in zip(FEW, planned, strict=True):
        of = (decode if plan.entry == DECODE else few)(iterations, call, FEW_ON, plan)
        one = known.setdefault((call.batch, call.keys), of.seconds)
        by = f"{plan.family}, {plan.entry.removeprefix('fa_forward_')}, {plan.splits} splits"
        result.append([call.text, by, f"{1e6 * of.seconds:.1f}", f"{100 * of.of_rate:.0f} %", f"{of.seconds / one:.2f}", goal])
    return result


def prefilled_rows(iterations: Iterations) -> list[list[str]]:
    """Next to the published figures of others. The verdict is the model's."""
    result = []
    for (rows, of), causal in ((figures, causal) for causal in (False, True) for figures in PREFILLED.items()):
        cudnn, flash = (both[causal] for both in of)
        (ours,) = made(iterations, [Call(2, 64, 8, rows, rows, 128, causal=causal)], [FEW_ON])
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


def iteration_rows(iterations: Iterations) -> list[list[str]]:
    """The iterations that calls were modelled by: a line for each architecture, head dimension and set of features."""
    result = []
    for (arch, family, dim, features), of in sorted(
        iterations.found.items(), key=lambda item: (int(item[0][0].rstrip("a")), item[0][1:])
    ):
        plain = iterations.found.get((arch, family, dim, ""))
        gpu = GPUS[next(board for board, its in BOARDS.items() if its == arch and GPUS[board].wgmma == (family == "wgmma"))]
        cost = of.iteration.cycles / of.iteration.blocks / of.iteration.rows / of.iteration.keys
        times = (
            f"{cost / (plain.iteration.cycles / plain.iteration.blocks / plain.iteration.rows / plain.iteration.keys):.2f}"
            if plain
            else ""
        )
        result.append([f"sm_{arch} {family} hd{dim}", features or "none", of.entry.removeprefix("fa_forward_"), f"{of.a_score:.1f}",
                       f"{of.iteration.cycles:.0f}", of.iteration.limit, f"{100 * of.iteration.of_peak(gpu):.0f} %", times])  # fmt: skip
    return result


def published_rows(iterations: Iterations) -> list[list[str]]:
    """Published figures of others, this library's decode, and the bytes alone."""
    rows = []
    for one in made(iterations, list(PUBLISHED), [PUBLISHED_ON]):
        figures = [1e6 * one.seconds, PUBLISHED[one.call], 1e6 * one.plan.memory_seconds(GPUS[PUBLISHED_ON])]
        rows.append([one.call.text, *(f"{us:.1f}" for us in figures), f"{100 * (figures[0] / figures[1] - 1):+.0f} %"])
    return rows


def text(build: Path, tools: Path, compiler: str) -> str:
    boards, iterations = list(BOARDS), Iterations(build, tools, compiler)
    small = [board for board in boards if not GPUS[board].wgmma]  # on which few rows run
    names, cards = [board.removesuffix(" mma.sync") for board in boards], [card(board) for board in small]
    prefills, decodes = list(made(iterations, PREFILLS, boards)), list(made(iterations, DECODES, small))
    head = ["kernel", "features", "entry point", "a score", "iteration, cycles", "limit", "of the peak", "time, in plain's"]
    return "\n".join([
        predicted(head, iteration_rows(iterations)),
        predicted(["call", "entry point", *(f"{name}, TFLOP/s" for name in names)], rows(prefills, boards, "TFLOP/s")),
        predicted(["decode", "entry point", *(f"{name}, us, of the memory's rate" for name in cards)], rows(decodes, small, "us")),
        predicted([f"few queries on an {card(FEW_ON)}", "by", "us", "of the memory's rate", "times one query", "goal"], few_rows(iterations)),
        table([f"rows, on an {card(FEW_ON)}", "mask", "predicted TFLOP/s", "cuDNN 9.27", "times it", "FlashAttention-4", "times it",
               "goal", "verdict"], prefilled_rows(iterations)),
        table(["decode on an H200", "predicted, us", "cuDNN, us", "bytes alone, us", "difference"], published_rows(iterations)),
    ])  # fmt: skip
