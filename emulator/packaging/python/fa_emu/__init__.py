"""fa-emu: CUDA programs run without a GPU. The emulator's libcuda.so.1 is in a folder of this package, where no program
takes it for the GPU's driver; the command `fa-emu` runs a program with it, and so does FOLDER in LD_LIBRARY_PATH."""

import os
import sys
from pathlib import Path
from typing import NoReturn

FOLDER = Path(__file__).resolve().parent / "emulator"


def main() -> NoReturn:
    """The command fa-emu: becomes the script next to the library."""
    os.execv("/bin/sh", ["sh", str(FOLDER / "fa-emu"), *sys.argv[1:]])


def timeline() -> NoReturn:
    """The command fa-emu-timeline: becomes the script next to the library, which draws traces where matplotlib is there."""
    os.execv(sys.executable, [sys.executable, str(FOLDER / "fa-emu-timeline"), *sys.argv[1:]])
