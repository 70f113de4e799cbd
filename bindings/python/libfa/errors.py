"""The library's statuses as exceptions, each also one of Python's own kind. Their text is fa_last_error()'s."""

import re

from . import capi


class Error(Exception):
    """A call of libfa failed."""


class InvalidArgument(Error, ValueError):
    """The call can never work: the text names the argument, its value, the expected values and a remedy."""


class Unreadable(InvalidArgument, BufferError):
    """An array whose elements are not in memory that libfa can reach: lazy, wrapped, deleted, or on another kind of device."""


class InvalidCall(InvalidArgument, RuntimeError):
    """InvalidArgument of libfa.flash_attn: also the RuntimeError that flash_attn raises."""


class Unsupported(Error, NotImplementedError):
    """Legal, but nothing in this build or on this machine supports it."""


class NoDevice(Error, RuntimeError):
    """The device asked for is not there: no driver, no such index, no kernel image."""


class OutOfMemory(Error, MemoryError):
    """Host or device memory is short; nothing was computed."""


class DriverError(Error, RuntimeError):
    """The device's driver failed."""


class DistributedError(Error, RuntimeError):
    """Another rank of a call of libfa.distributed failed, or did not answer in time: the text has its reason."""


_of_status = {
    capi.FA_ERROR_INVALID_ARGUMENT: InvalidArgument,
    capi.FA_ERROR_UNSUPPORTED: Unsupported,
    capi.FA_ERROR_NO_DEVICE: NoDevice,
    capi.FA_ERROR_OUT_OF_MEMORY: OutOfMemory,
    capi.FA_ERROR_DRIVER: DriverError,
}


def renamed(text: str, names: dict[str, str]) -> str:
    """An error's text with the caller's names of arguments in the place of libfa.attention's."""
    known = "|".join(map(re.escape, sorted(names, key=len, reverse=True)))
    return re.sub(rf"(?<![\w.])({known})(?!\w)", lambda found: names[found[1]], text)


def check(status: int) -> None:
    """Raises a status's exception unless it is FA_OK. Call it on the thread that made the call."""
    if status != capi.FA_OK:
        raise _of_status.get(status, Error)(capi.fa_last_error())
