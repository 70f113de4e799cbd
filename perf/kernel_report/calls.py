"""A call of attention: its shape and features, what it computes, and, from a build's fa_dram, how the engine plans it
and which bytes it moves."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from . import images, model
from .rates import GPUS, Gpu, card


@dataclass(frozen=True)
class Call:
    """16-bit, contiguous. lengths: of packed sequences, in place of batch, queries and keys."""

    batch: int
    heads: int
    heads_kv: int
    queries: int
    keys: int
    dim: int
    causal: bool = False
    lengths: tuple[int, ...] = ()
    page: int = 0  # keys of a page
    softcap: int = 0
    alibi: bool = False
    bias: bool = False  # one for all sequences and heads
    dim_v: int = 0  # of values; 0: dim

    @property
    def features(self) -> str:
        named = {f"pages of {self.page}": self.page, "softcap": self.softcap, "ALiBi": self.alibi, "bias": self.bias}
        return ", ".join(name for name, there in named.items() if there)

    @property
    def text(self) -> str:
        heads, dim = f"{self.heads}/{self.heads_kv}", f"{self.dim}/{self.dim_v}" if self.dim_v else f"{self.dim}"
        if self.lengths:
            shape = f"{len(self.lengths)} packed of {min(self.lengths)} to {max(self.lengths)} x {heads} x {dim}"
        else:
            shape = f"{self.batch} x {heads} x {self.queries}/{self.keys} x {dim}"
        return ", ".join(part for part in (shape, "causal" if self.causal else "", self.features) if part)

    @property
    def sequences(self) -> list[tuple[int, int]]:
        """Queries and keys of each."""
        return [(n, n) for n in self.lengths] or [(self.queries, self.keys)] * self.batch

    @property
    def operations(self) -> float:
        """The operations of both products: scores that a mask hides are not counted."""
        scores = 0.0
        for queries, keys in self.sequences:
            scores += queries * keys - (queries * (queries - 1) / 2 if self.causal else 0)
        return 2 * scores * (self.dim + self.columns) * self.heads

    @property
    def columns(self) -> int:
        """The columns of values."""
        return self.dim_v or self.dim

    def tiles(self, rows: int, keys: int) -> list[tuple[int, int]]:
        """The tiles of a head: the iterations of each, and how many of them have masks."""
        return [tile for q, k in self.sequences for tile in model.iterations(q, k, rows, keys, self.causal)]

    def line(self, board: str) -> str:
        """As fa_dram --lines reads it (perf/dram/lines.h), on a board of rates.py."""
        words = {"gpu": card(board).replace(" ", "_"), "heads": self.heads, "heads_kv": self.heads_kv, "dim": self.dim,
                 "causal": int(self.causal), "page": self.page, "softcap": self.softcap, "alibi": int(self.alibi),
                 "bias": int(self.bias), "dim_v": self.dim_v, "warpgroups": int(GPUS[board].wgmma)}  # fmt: skip
        if self.lengths:
            words["lengths"] = ",".join(map(str, self.lengths))
        else:
            words |= {"batch": self.batch, "queries": self.queries, "keys": self.keys}
        return " ".join(f"{name}={value}" for name, value in words.items())

    def case(self, queries: int, keys: int, splits: int = 1) -> str:
        """One head of it, smaller, as `fa run --case` reads it."""
        words = [f"sq={queries} sk={keys} d={self.dim} splits={splits}"]
        words += [f"page={self.page}"] * bool(self.page) + [f"softcap={self.softcap}"] * bool(self.softcap)
        return " ".join(words + ["alibi=h"] * self.alibi + ["bias=f16:qk"] * self.bias)


@dataclass(frozen=True)
class Plan:
    family: str  # of kernels
    entry: str
    rows: int  # of the tile
    keys: int
    tiles: int  # of all heads and sequences
    slots: int  # blocks that work at once
    splits: int
    read: int  # bytes from memory
    written: int

    def memory_seconds(self, gpu: Gpu) -> float:
        return (self.read + self.written) / (gpu.dram * 1e9)


def plans(build: Path, wanted: list[tuple[Call, str]]) -> list[Plan]:
    """The plans of calls on boards, by the names of rates.py."""
    program = build / "perf" / "fa_dram"
    if not program.exists():
        raise SystemExit(f"{program}: not there; cmake --build {build} --target fa_dram makes it")
    text = "".join(call.line(board) + "\n" for call, board in wanted)
    lines = images.run(program.resolve(), "--lines", text=text).splitlines()
    if len(lines) != len(wanted):
        raise SystemExit(f"{program}: got {len(lines)} lines for {len(wanted)} calls")
    return [Plan(words[0], words[1], *map(int, words[2:])) for words in (line.split() for line in lines)]
