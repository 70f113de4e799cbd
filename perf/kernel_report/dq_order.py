"""How much longer a launch takes whose blocks of keys add to dq in a fixed order. All blocks of a column (a key/value head of a
sequence) begin at its last rows and add to the same rows in the same order, each behind the block before it."""

from __future__ import annotations

import heapq
import tempfile
from functools import partial
from itertools import accumulate, chain, repeat
from pathlib import Path

from . import images
from .rates import Gpu

PASSED_ON = 2  # steps later: the next one adds, and when the one after it begins that has arrived


def grid(steps: list[int], columns: int, group: int) -> list[tuple[int, int]]:
    """The column and the steps of each block, in the order in which they begin; steps: of a column's blocks."""
    groups = [range(first, min(first + group, columns)) for first in range(0, columns, group)]
    return [(column, of) for each in groups for of in steps for column in each]


def end(blocks: list[tuple[int, int]], slots: int, waits: bool, slow: int = 0) -> int:
    """When the last block ends, in steps; slots: blocks that are at work at once, of which the first ones may be slow: half as
    fast."""
    free = [(0, slot) for slot in range(slots)]
    passed: dict[int, list[int]] = {}  # by column: when each step of the last block has added
    for column, steps in blocks:
        added = passed.get(column, []) if waits else []
        # A step adds the sums that the one before it computed, and so begins when the block before has added to those rows.
        of_steps = chain(added[:steps], repeat(0, steps - len(added)))
        first, slot = heapq.heappop(free)
        takes = 2 if slot < slow else 1
        begins = list(accumulate(of_steps, partial(next_begin, takes), initial=first))
        heapq.heappush(free, (begins[steps], slot))
        passed[column] = [begins[min(i + PASSED_ON, steps)] for i in range(steps)] + added[steps:]
    return max(time for time, _ in free)


def next_begin(takes: int, begun: int, added_at: int) -> int:
    """When the step after one that began at `begun` begins; added_at: when the rows of its sums are free."""
    return max(begun + takes, added_at)


def group_of(gpu: Gpu, slots: int, keys: int, call: tuple[int, int, int, int, int, bool], compiler: str) -> int:
    """By the engine's rule; keys: of a tile; call: batch, heads, key/value heads, rows, columns, causal."""
    with tempfile.TemporaryDirectory() as folder:
        program, source = Path(folder) / "group", Path(__file__).with_name("group.cpp")
        include = [word for path in ("kernels", "src", "include", "") for word in ("-I", images.ROOT / path)]
        images.run(compiler, "-std=c++20", *include, source, images.ROOT / "src/cuda/order.cpp", "-o", program)
        rate = gpu.dram / gpu.sms / gpu.clock  # bytes of a clock
        numbers = (gpu.l2 << 20, rate, slots, keys, *map(int, call))
        return int(images.run(program, text=" ".join(map(str, numbers))))


def longer(steps: list[int], columns: int, slots: int, group: int) -> float:
    """Times as long as without waiting."""
    blocks = grid(steps, columns, group)
    return end(blocks, slots, True) / end(blocks, slots, False)
