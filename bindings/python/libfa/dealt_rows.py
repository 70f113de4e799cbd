"""Which rows of a sequence each rank has, and which of its keys each query attends: the geometry of libfa.distributed and
libfa.jax_distributed.

A rank's rows are runs: rows first, first + step, ... of one sequence. The mask between a run of queries and a run of keys is a
band, which fa.h has as an offset (q_offset), a causal rule and a window.
"""

from __future__ import annotations

import bisect
import functools
from typing import Any, NamedTuple

from . import scalars
from .errors import InvalidArgument

SCHEMES = ("contiguous", "zigzag", "striped")
OPEN = -1  # a side of a window


class Run(NamedTuple):
    """Rows first + i * step, i < length, of a sequence; start is the place of the first among the rank's own rows."""

    sequence: int
    first: int
    step: int
    length: int
    start: int


class Rows(NamedTuple):
    """Rows of all sequences, dealt to ranks. Packed: sequences follow each other; else every entry of the batch is alike, and
    there is one length."""

    lengths: tuple[int, ...]
    scheme: str
    world: int
    packed: bool

    @property
    def total(self) -> int:
        return sum(self.lengths)


class Masking(NamedTuple):
    """The mask of a whole call: causal aligned to either end ("bottom_right", "top_left") or not at all (""), and a window."""

    causal: str
    left: int
    right: int


CAUSAL: dict[str, Any] = {"": False, "bottom_right": True, "top_left": "top_left"}  # as libfa.attention has it


def masking_of(causal: Any, window: Any) -> Masking:
    """The mask of these keywords of libfa.attention."""
    wanted = scalars.mask_of(causal)
    name = next(name for name, value in CAUSAL.items() if scalars.mask_of(value) == wanted)
    return Masking(name, *(max(side, OPEN) for side in scalars.pair(window, "window")))


class Box(NamedTuple):
    """One call: queries from q_start on and keys from k_start on, and their mask (None: all keys, whatever offset)."""

    q_start: int
    q_count: int
    k_start: int
    k_count: int
    offset: int | None
    causal: bool
    window: tuple[int, int]


class Call(NamedTuple):
    """Boxes of packed sequences that one call computes: all rows of both sides, with lengths of 0 where nothing is attended."""

    ends_q: tuple[int, ...]
    ends_k: tuple[int, ...]
    offsets: tuple[int, ...] | None
    causal: bool
    window: tuple[int, int]


def require_scheme(scheme: Any) -> None:
    if scheme not in SCHEMES:
        raise InvalidArgument(f"rows: got {scheme!r}, expected one of {', '.join(map(repr, SCHEMES))}")


def _bounds(length: int, parts: int, part: int) -> tuple[int, int]:
    return length * part // parts, length * (part + 1) // parts


@functools.lru_cache(maxsize=4096)
def runs(rows: Rows, rank: int) -> tuple[Run, ...]:
    """The runs of a rank, in the order of its rows: those of packed sequences follow each other."""
    found: list[Run] = []
    start = 0

    def add(sequence: int, first: int, step: int, count: int) -> None:
        nonlocal start
        if count > 0:
            found.append(Run(sequence, first, step, count, start))
            start += count

    if rows.scheme == "contiguous":
        begin, end = _bounds(rows.total, rows.world, rank)
        at = 0
        for sequence, length in enumerate(rows.lengths):
            first, last = max(begin - at, 0), min(end - at, length)
            add(sequence, first, 1, last - first)
            at += length
        return tuple(found)
    for sequence, length in enumerate(rows.lengths):
        if rows.scheme == "striped":
            add(sequence, rank, rows.world, -((rank - length) // rows.world))
            continue
        for chunk in (rank, 2 * rows.world - 1 - rank):
            first, last = _bounds(length, 2 * rows.world, chunk)
            add(sequence, first, 1, last - first)
    return tuple(found)


def whole(rows: Rows) -> tuple[Run, ...]:
    """All rows, as the runs of one holder."""
    return runs(rows._replace(scheme="contiguous", world=1), 0)


def count(rows: Rows, rank: int) -> int:
    """The number of a rank's rows."""
    last = runs(rows, rank)[-1:]
    return last[0].start + last[0].length if last else 0


def slices(rows: Rows, rank: int) -> list[tuple[int, slice]]:
    """(place among the rank's rows, rows of the whole) of each run; sequences lie one after the other."""
    starts = [0]
    for length in rows.lengths:
        starts.append(starts[-1] + length)
    return [
        (run.start, slice(starts[run.sequence] + run.first, starts[run.sequence] + run.first + run.step * run.length, run.step))
        for run in runs(rows, rank)
    ]


def _band(mask: Masking, q: Run, k: Run, shift: int) -> tuple[int | None, int | None]:
    """(lowest, highest) place of a key, less that of the query, among those that the query attends; None: no limit. Both runs
    have the same step."""
    apart = q.first + shift - k.first
    upper = [0] * bool(mask.causal) + [mask.right] * (mask.right >= 0)
    highest = (apart + min(upper)) // q.step if upper else None
    lowest = -((mask.left - apart) // q.step) if mask.left >= 0 else None
    return lowest, highest


def _box(mask: Masking, q: Run, k: Run, shift: int, positions: bool) -> Box | None:
    """The call of two runs; None where no query attends a key. positions: the offset matters even where all keys are attended
    (ALiBi)."""
    lowest, highest = _band(mask, q, k, shift)
    if highest is not None and highest < 1 - q.length:
        return None
    if lowest is not None and (lowest > k.length - 1 or (highest is not None and lowest > highest)):
        return None
    place = (q.start, q.length, k.start, k.length)
    full = (highest is None or highest >= k.length - 1) and (lowest is None or lowest <= 1 - q.length)
    if full and not positions:
        return Box(*place, None, False, (OPEN, OPEN))
    if q.step == 1:
        return Box(*place, q.first + shift - k.first, bool(mask.causal), (mask.left, mask.right))
    if highest is None:
        return Box(*place, lowest, False, (0, OPEN))
    return Box(*place, highest, True, (OPEN if lowest is None else highest - lowest, OPEN))


def _joined(boxes: list[Box]) -> list[Box]:
    """Boxes without a mask that are next to each other become one."""
    found: list[Box] = []
    for box in boxes:
        for i in range(max(len(found) - 3, 0), len(found)):  # a sequence has four at most
            other = found[i]
            if box.offset is not None or other.offset is not None:
                continue
            if box[:2] == other[:2] and other.k_start + other.k_count == box.k_start:
                found[i] = other._replace(k_count=other.k_count + box.k_count)
                break
            if box[2:4] == other[2:4] and other.q_start + other.q_count == box.q_start:
                found[i] = other._replace(q_count=other.q_count + box.q_count)
                break
        else:
            found.append(box)
    return found


def _shift(rows: Rows, keys: Rows, mask: Masking, sequence: int) -> int:
    """The offset of a sequence, as fa.h defines it for the mask."""
    return 0 if mask.causal == "top_left" else keys.lengths[sequence] - rows.lengths[sequence]


def _own(rows: Rows, keys: Rows, mask: Masking, mine: tuple[Run, ...], theirs: tuple[Run, ...]) -> list[Box] | None:
    """One box a sequence where queries and keys are the same rows, in order, under a causal mask alone."""
    if mine != theirs or rows.lengths != keys.lengths or not mask.causal:
        return None
    found: dict[int, Box] = {}
    for run in mine:
        before = found.get(run.sequence)
        start, length = (before.q_start, before.q_count + run.length) if before else (run.start, run.length)
        found[run.sequence] = Box(start, length, start, length, 0, True, (OPEN, OPEN))
    return list(found.values())


def _boxes(rows: Rows, keys: Rows, mask: Masking, mine: tuple[Run, ...], theirs: tuple[Run, ...], positions: bool) -> list[Box]:
    windowed = mask.left >= 0 or mask.right >= 0
    own = None if windowed or positions else _own(rows, keys, mask, mine, theirs)
    if own is not None:
        return own
    by_sequence: dict[int, list[Run]] = {}
    for run in theirs:
        by_sequence.setdefault(run.sequence, []).append(run)
    boxes = (
        _box(mask, q, k, _shift(rows, keys, mask, q.sequence), positions or (windowed and rows.packed))
        for q in mine
        for k in by_sequence.get(q.sequence, ())
    )
    return _joined([box for box in boxes if box is not None])


def _rule(box: Box, mask: Masking) -> tuple[bool, tuple[int, int]]:
    """The mask of the call that a box of packed sequences belongs to: one without a mask goes with causal ones, by its
    offset."""
    return (bool(mask.causal), (OPEN, OPEN)) if box.offset is None else (box.causal, box.window)


def _calls(boxes: list[Box], mask: Masking, q_total: int, k_total: int) -> list[Call]:
    """Boxes of packed sequences in few calls: in each, both queries and keys go upwards, and the mask is the same."""
    found = []
    while boxes:
        chosen: list[Box] = []
        rest: list[Box] = []
        for box in boxes:
            last = chosen[-1] if chosen else None
            fits = last is None or (
                last.q_start + last.q_count <= box.q_start
                and last.k_start + last.k_count <= box.k_start
                and _rule(last, mask) == _rule(box, mask)
            )
            (chosen if fits else rest).append(box)
        ends_q, ends_k, offsets = [0], [0], []

        def end(q: int, k: int, offset: int = 0) -> None:
            ends_q.append(q)
            ends_k.append(k)
            offsets.append(offset)

        for box in (*chosen, Box(q_total, 0, k_total, 0, None, False, (OPEN, OPEN))):
            # Queries without keys and keys without queries in between are sequences of their own.
            if ends_q[-1] < box.q_start:
                end(box.q_start, ends_k[-1])
            if ends_k[-1] < box.k_start:
                end(ends_q[-1], box.k_start)
            if box.q_count:
                end(box.q_start + box.q_count, box.k_start + box.k_count, box.k_count - 1 if box.offset is None else box.offset)
        causal, window = _rule(chosen[0], mask)
        plain = not causal and window == (OPEN, OPEN) and all(box.offset is None for box in chosen)
        found.append(Call(tuple(ends_q), tuple(ends_k), None if plain else tuple(offsets), causal, window))
        boxes = rest
    return found


@functools.lru_cache(maxsize=4096)
def plan(
    rows: Rows, keys: Rows, mask: Masking, rank: int, owner: int | None, positions: bool
) -> tuple[Box, ...] | tuple[Call, ...]:
    """The calls of a rank's queries with the keys of an owner, or with all keys in order (None)."""
    mine, theirs = runs(rows, rank), whole(keys) if owner is None else runs(keys, owner)
    boxes = _boxes(rows, keys, mask, mine, theirs, positions)
    if not rows.packed:
        return tuple(boxes)
    return tuple(_calls(boxes, mask, count(rows, rank), keys.total if owner is None else count(keys, owner)))


@functools.lru_cache(maxsize=256)
def hops(rows: Rows, keys: Rows, mask: Masking) -> int:
    """How far keys have to travel around the ring: to the last rank that attends any of them."""
    world = rows.world
    if not rows.packed:
        windowed = mask.left >= 0 or mask.right >= 0
        return _hops_of_windows(rows, keys, mask) if windowed and rows.scheme == "contiguous" else world - 1
    for far in range(world - 1, 0, -1):
        if any(plan(rows, keys, mask, rank, (rank - far) % world, False) for rank in range(world)):
            return far
    return 0


def _hops_of_windows(rows: Rows, keys: Rows, mask: Masking) -> int:
    """hops() of contiguous rows: the owners of the keys of each rank follow each other."""
    world, shift = rows.world, _shift(rows, keys, mask, 0)
    ends = [_bounds(keys.total, world, owner)[1] for owner in range(world)]
    most = 0
    for rank in range(world):
        begin, end = _bounds(rows.total, world, rank)
        lowest = max(begin + shift - mask.left, 0) if mask.left >= 0 else 0
        after = 0 if mask.causal else mask.right
        highest = min(end - 1 + shift + after, keys.total - 1) if after >= 0 else keys.total - 1
        if begin < end and lowest <= highest:
            first, last = bisect.bisect_right(ends, lowest), bisect.bisect_right(ends, highest)
            most = max(most, rank - first, world - (max(first, rank + 1) - rank) if last > rank else 0)
    return most


def local_lengths(lengths: Any, rank: Any, world: int, interleave: int = 1) -> Any:
    """How many of the first `lengths` tokens of a sequence are on a rank, where token t is on rank (t // interleave) % world: for a
    number a number, for an array an array."""
    turn = world * interleave
    rest = lengths % turn - rank * interleave
    rest = rest.clip(0, interleave) if hasattr(rest, "clip") else min(max(rest, 0), interleave)
    return lengths // turn * interleave + rest
