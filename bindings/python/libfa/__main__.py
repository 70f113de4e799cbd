"""python -m libfa: the library's version and path, and its kernels, with the reason where one is not available."""

import os
import pathlib
import platform
import sys

from . import capi
from .errors import check


def main() -> None:
    print(capi.fa_build_info())
    print(f"{pathlib.Path(capi.__file__).parent}, Python {platform.python_version()}")
    print()
    rows = [("kernel", "device", "arch", "computes in", "")]
    for index in range(capi.fa_kernel_count()):
        kernel = capi.fa_kernel()
        check(capi.fa_kernel_info(index, kernel))
        rows.append((kernel.name, kernel.device, kernel.arch, kernel.compute_dtypes, kernel.unavailable_reason or "available"))
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    for row in rows:
        print("  ".join([cell.ljust(width) for cell, width in zip(row, widths)] + [row[4]]).rstrip())


if __name__ == "__main__":
    try:
        main()
        sys.stdout.flush()
    except BrokenPipeError:  # of `| head`: nobody reads the rest, and Python's own flush would fail again
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
