"""How far the model's numbers follow from the figures that they were fitted to: each family of kernels left out in
iteration, the numbers fitted to the others, and its errors by those."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass

from .model import FITTED, Fit
from .peers import PUBLISHED, Published

OVERLAPS = [1.6 + 0.1 * n for n in range(30)]
FIXED = range(0, 1501, 250)
MOVED = range(1000, 4001, 500)


@dataclass(frozen=True)
class LeftOut:
    family: str
    fit: Fit  # to the others
    fitted: float  # rms error of the family by FITTED
    rms: float  # by fit
    worst: float  # the largest error by fit, of either sign


def errors(figures: list[Published], fit: Fit) -> list[float]:
    return [one.by(fit) / one.teraflops - 1 for one in figures]


def rms(values: list[float]) -> float:
    return math.sqrt(sum(x * x for x in values) / len(values))


def fitted(figures: list[Published]) -> Fit:
    """The numbers of a grid with the least rms error."""
    grid = (Fit(*numbers) for numbers in itertools.product(OVERLAPS, FIXED, MOVED))
    return min(grid, key=lambda fit: rms(errors(figures, fit)))


def left_out() -> Iterator[LeftOut]:
    for family in dict.fromkeys(one.family for one in PUBLISHED):
        its = [one for one in PUBLISHED if one.family == family]
        fit = fitted([one for one in PUBLISHED if one.family != family])
        found = errors(its, fit)
        yield LeftOut(family, fit, rms(errors(its, FITTED)), rms(found), max(found, key=abs))
