"""What the emulator counted: lines of FA_EMU_JSON (emulator/README.md), joined by the kernel's name."""

from __future__ import annotations

import json
from pathlib import Path

FIGURES = ("bank_conflict_factor", "sectors_per_request", "global_bytes_read", "shared_bytes_read", "tensor_operations")


def counters(path: Path) -> dict[str, dict[str, float]]:
    """Of each kernel's last launch. A file is of launches of one image: its lines do not name it."""
    result: dict[str, dict[str, float]] = {}
    for number, line in enumerate(path.read_text().splitlines(), 1):
        try:
            launch = json.loads(line)
            result[launch["kernel"]] = {name: launch[name] for name in FIGURES}
        except (ValueError, KeyError, TypeError) as error:
            raise SystemExit(f"{path}:{number}: got {line[:60]!r}, expected a line of FA_EMU_JSON ({error})") from None
    return result
