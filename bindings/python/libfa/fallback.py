"""Calls that libfa leaves to the system whose hook it is: the system's own kernel computes them, and FA_VERBOSE says why."""

import os
import sys

_OFF = ("0", "off", "no", "false", "none", "")
_said: set[tuple[str, str]] = set()


def say(system: str, reason: str) -> None:
    """One line to the standard error for each reason, where FA_VERBOSE is set."""
    if os.environ.get("FA_VERBOSE", "").lower() not in _OFF and (system, reason) not in _said:
        _said.add((system, reason))
        print(f"fa: {system}: {reason}: left to {system}'s own kernel", file=sys.stderr)
