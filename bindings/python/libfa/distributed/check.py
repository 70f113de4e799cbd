"""The comparison of the arguments that all ranks of a call of libfa.distributed must have alike, once for each kind of call."""

from __future__ import annotations

import contextlib
import json
import time
from typing import Any, Callable

from ..errors import DistributedError, InvalidArgument
from .wire import Wire, refuse_tracing

_MOST_KINDS = 4096  # calls whose arguments are remembered: each of packed sequences has its own
_PATIENCE = 10.0  # seconds that a rank with a wrong argument waits for others to compare theirs


def agree(wire: Wire, kind: dict[str, Any], locally: Callable[[], None], timeout: float, late: str | None = None) -> None:
    """Raises InvalidArgument with the same text on every rank where they differ in an entry of kind, or where locally() raises
    on one of them. late: the reason of a failure where others take no part."""
    own: str | None = None
    cause: Exception | None = None
    try:
        locally()
    except Exception as error:
        own, cause = f"{type(error).__name__}: {error}", error
    text = json.dumps([own, {name: str(value) for name, value in kind.items()}])
    try:
        said = _exchange(wire, text, timeout, late)
    except (DistributedError, KeyboardInterrupt):
        raise
    except Exception as error:
        reason = wire.fail(f"rank {wire.rank} lost the store of torch.distributed: {error}")
        raise DistributedError(reason) from error
    for rank, (error_text, theirs) in enumerate(said):
        if error_text is not None and not theirs:
            raise InvalidArgument(f"rank {rank}: {error_text}") from cause
    for rank, (_, theirs) in enumerate(said):
        for name in {**said[0][1], **theirs}:
            here, there = said[0][1].get(name), theirs.get(name)
            if here != there:
                raise InvalidArgument(
                    f"{name}: rank 0 has {here}, rank {rank} has {there}; expected the same on every rank"
                ) from cause
    for rank, (error_text, _) in enumerate(said):
        if error_text is not None:
            raise InvalidArgument(f"rank {rank}: {error_text}") from cause


def agree_once(wire: Wire, kind: dict[str, Any], own: Any, validate: Callable[[], None], timeout: float, check: bool) -> None:
    """agree(), or validate() alone without check, of each kind of call and shape of this rank's tensors once."""
    refuse_tracing()
    key = (*kind.items(), own)
    if key in wire.agreed:
        return
    if check:
        agree(wire, kind, validate, timeout)
    else:
        validate()
    if len(wire.agreed) >= _MOST_KINDS:  # on every rank at the same call
        wire.agreed.clear()
    wire.agreed.add(key)


def require_time(timeout: Any) -> None:
    """Refuses a timeout that is no time."""
    if not timeout > 0:
        raise InvalidArgument(f"timeout: got {timeout}, expected seconds above 0")


def refuse(wire: Wire, error: Exception, timeout: float) -> None:
    """Raises InvalidArgument for a call that this rank cannot describe, here and where other ranks compare theirs; ranks that
    do not compare, as they know theirs, get the reason as that of a failure.
    """

    def again() -> None:
        raise error

    agree(wire, {}, again, min(timeout, _PATIENCE), f"rank {wire.rank}: {type(error).__name__}: {error}")


def _exchange(wire: Wire, text: str, timeout: float, late: str | None) -> list[Any]:
    """The texts of all ranks, by the store: a rank that makes another call must not break the group's transport."""
    number = wire.checks
    wire.checks += 1
    keys = [f"{wire.prefix}/check/{number}/{rank}" for rank in range(wire.world)]
    wire.store.set(keys[wire.rank], text)
    until = time.monotonic() + timeout
    pause = 0.0005
    while not wire.store.check(keys):
        reason = wire.failed()
        if reason is None and time.monotonic() > until:
            absent = [rank for rank, key in enumerate(keys) if not wire.store.check([key])]
            nobody = f"rank {absent[0]} took no part in a call of rank {wire.rank} within {timeout} s: it made another, or none"
            reason = wire.fail(late or nobody)
        if reason is not None:
            wire.failure = reason
            raise DistributedError(reason)
        time.sleep(pause)
        pause = min(2 * pause, 0.01)
    said = [json.loads(wire.store.get(key)) for key in keys]
    if number:  # every rank has read those of the check before this one
        with contextlib.suppress(Exception):
            wire.store.delete_key(f"{wire.prefix}/check/{number - 1}/{wire.rank}")
    return said
