"""Numbers of a call as Python's own, from whatever callers have them in: numpy's scalars, 0-d arrays and tensors, integers
of any type. Each conversion names its argument.
"""

import operator
import reprlib
from typing import Any

from . import capi
from .errors import InvalidArgument

_MASKS = {False: capi.FA_MASK_NONE, True: capi.FA_MASK_CAUSAL, "top_left": capi.FA_MASK_CAUSAL_TOP_LEFT}
_LEAST = 2.0**-149  # of float32's numbers above 0


def integer(value: Any, what: str) -> int:
    try:
        return operator.index(value)
    except TypeError:
        raise TypeError(f"{what}: got {reprlib.repr(value)}, expected an integer") from None


def real(value: Any, what: str) -> float:
    if hasattr(value, "__float__") and getattr(value, "shape", ()) == ():
        try:
            return float(value)
        except OverflowError:
            raise InvalidArgument(f"{what}: got {reprlib.repr(value)}, expected a number that float32 can hold") from None
    raise TypeError(f"{what}: got {reprlib.repr(value)}, expected a number")


def scale(value: Any, what: str) -> float:
    """softmax_scale as fa_desc takes it, where 0 is the default's."""
    if value is None:
        return 0.0
    number = real(value, what)
    if abs(number) <= _LEAST / 2:
        raise InvalidArgument(
            f"{what}: got {number}, which float32 holds as 0; expected None: 1 / sqrt(dim), or another number; "
            "zeros in the place of q give all keys the same weight"
        )
    return number


def single(value: Any, what: str) -> float:
    """A number of a field of fa_desc, where 0 has a special meaning: only 0 becomes 0."""
    number = real(value, what)
    if number and abs(number) <= _LEAST / 2:
        raise InvalidArgument(f"{what}: got {number}, which float32 holds as 0; expected 0 or a number from {_LEAST:.2g} on")
    return number


def pair(value: Any, what: str) -> tuple[int, int]:
    """(left, right) of a window."""
    try:
        sides = tuple(value)
    except TypeError:
        raise TypeError(f"{what}: got {reprlib.repr(value)}, expected (left, right); -1 leaves a side open") from None
    if len(sides) != 2:
        raise InvalidArgument(f"{what}: got {reprlib.repr(value)}, expected (left, right); -1 leaves a side open")
    return integer(sides[0], what), integer(sides[1], what)


def mask_of(causal: Any, what: str = "causal") -> int:
    """The fa_mask of causal."""
    try:
        return _MASKS[causal]
    except (KeyError, TypeError):
        if getattr(causal, "shape", None) == () and hasattr(causal, "item"):
            return mask_of(causal.item(), what)
    raise InvalidArgument(f"{what}: got {reprlib.repr(causal)}, expected True, False or 'top_left'")
