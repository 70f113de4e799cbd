"""What is asked of the kernels, judged by an entry's figures. None: there is no such goal for it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from .analysis import Entry


@dataclass(frozen=True)
class Verdict:
    what: str
    goal: str
    got: float
    met: bool


def judge(entry: Entry) -> Iterator[Verdict]:
    sm, dim = entry.image.sm, entry.image.dim
    yield Verdict("spills", "0", entry.spills, entry.spills == 0)
    ratio = entry.tensor / entry.tensor_ideal
    yield Verdict("tensor-core instructions over the ideal", "<= 1.01", ratio, ratio <= 1.01)
    if "bank_conflict_factor" in entry.emulated:
        factor = entry.emulated["bank_conflict_factor"]
        yield Verdict("bank conflict factor", "<= 1.02", factor, factor <= 1.02)
    if entry.name == "fa_forward_split" and entry.needed:
        covered = entry.in_flight / entry.needed
        yield Verdict("bytes in flight over what hides the latency", ">= 1", covered, covered >= 1)
    if entry.name != "fa_forward":
        return
    if sm == 80 and entry.image.dtype == "bf16" and dim in (64, 128):
        limit = 12 if dim == 128 else 8
        yield Verdict("instructions a score", f"<= {limit}", entry.per_score, entry.per_score <= limit)
        yield Verdict("of them neither mma nor ldmatrix", "<= 6", entry.per_score_rest, entry.per_score_rest <= 6)
    peak = {75: 0.70, 80: 0.75, 86: 0.95, 89: 0.95, 120: 0.95}.get(sm)
    if peak and dim == 128 and entry.of_peak is not None:
        yield Verdict("modelled fraction of the tensor peak", f">= {peak}", entry.of_peak, entry.of_peak >= peak)
