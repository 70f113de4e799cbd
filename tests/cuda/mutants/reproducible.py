"""Images do not tell where they were built: one of each family, compiled from a copy elsewhere, is the build's own. With the
lines of the source (-lineinfo) its PTX is the same but for them.

reproducible.py SOURCES IMAGES DEFINITIONS    (as mutants.py)
"""

import re
import shutil
import sys
import tempfile
from pathlib import Path

from compiler import compile_image, name_of

KERNELS = [("80", "combine", "f32", "576"), ("80", "simt", "f32", "64"), ("80", "mma", "bf16", "32")]


# What -lineinfo adds: places, files, and the names of inlined functions.
LINES = re.compile(r"^[ \t]*\.(loc|file)\s.*\n|^[ \t]*\.section\s+\.debug_str\s*\{[^}]*\}\n", re.MULTILINE)


def ptx_of(sources, image, definitions, out, *flags):
    compile_image(sources, image, definitions, out, "compute_{0}", [*flags, "-ptx"])
    return out.read_text()


def main(sources, images, definitions):
    differing = 0
    with tempfile.TemporaryDirectory(prefix="fa-elsewhere-") as temporary:
        shutil.copytree(sources, Path(temporary, "kernels"))
        for image in KERNELS:
            built = Path(images, f"{name_of(*image)}.fatbin")
            if not built.exists():
                print(f"{built} is not built: build the target fa_kernels first")
                return 77
            again = Path(temporary, built.name)
            compile_image(Path(temporary, "kernels"), image, definitions, again)
            same = again.read_bytes() == built.read_bytes()
            print(f"{built.name}: {'the same' if same else 'differs'}")
            ptx = ptx_of(Path(temporary, "kernels"), image, definitions, Path(temporary, "ptx"))
            lined = ptx_of(Path(temporary, "kernels"), image, definitions, Path(temporary, "lined"), "-lineinfo")
            stripped, places = LINES.subn("", lined)
            same_code = places > 100 and stripped.rstrip() == ptx.rstrip()
            print(f"{built.name}: with {places} places in the source, {'the same' if same_code else 'other'} PTX")
            differing += not same or not same_code
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
