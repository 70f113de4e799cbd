"""Quantised keys and values: arrays of codes, whose type the array has or the caller names."""

from __future__ import annotations

import sys
from typing import Any

from . import capi
from .arrays import CODES, View
from .errors import InvalidArgument
from .libraries import view

NAMES = {dtype: name for name, (dtype, _, _) in CODES.items()}


def _of_bytes(x: Any, what: str) -> View:
    """The view of an array of one-byte elements, whatever their type is."""
    kind = str(getattr(x, "dtype", "")).removeprefix("torch.")
    if kind in CODES:
        if CODES[kind][1] != 1:
            raise InvalidArgument(
                f"{what}: got dtype {kind}, which has a byte an element; expected two a byte: uint8 with dtype_{what[0]}={kind!r}"
            )
        x = x.view(sys.modules["torch"].uint8 if str(x.dtype) != kind else "uint8")
    seen = view(x, what)
    if seen[1] != capi.FA_BOOL:
        raise InvalidArgument(f"{what}: got elements of {kind or 'more than a byte'}, expected codes: int8, uint8 or float8")
    return seen


def read(x: Any, what: str, dtype: str | None) -> View:
    """The view of k or v, whose codes have the type that the caller names, or that of the array."""
    if dtype is not None:
        if dtype not in CODES:
            raise InvalidArgument(f"dtype_{what[0]}: got {dtype!r}, expected one of {', '.join(CODES)}, or None")
        return _codes(x, what, dtype)
    try:
        return view(x, what)
    except InvalidArgument:
        own = str(getattr(x, "dtype", "")).removeprefix("torch.")
        if own not in CODES:
            raise
    return _codes(x, what, own)


def _codes(x: Any, what: str, name: str) -> View:
    """Shape and strides in elements."""
    number, elements, size = CODES[name]
    address, _, shape, strides, device, writable, owner = _of_bytes(x, what)
    if elements == 1:
        return address, number, shape, strides, device, writable, owner
    if strides and (strides[-1] != 1 or shape[-1] % size or any(step % size for step in strides[:-1])):
        raise InvalidArgument(
            f"{what}: got shape {shape} and strides {strides} of bytes, expected rows of whole {size} bytes, which "
            f"{elements} elements of {name} have"
        )
    scaled = tuple(step // size * elements for step in strides[:-1])
    return address, number, (*shape[:-1], shape[-1] // size * elements), (*scaled, 1), device, writable, owner
