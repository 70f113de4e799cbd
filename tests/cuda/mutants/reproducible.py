"""Images do not depend on the folder of their build: one of each family, compiled from a copy elsewhere, is the build's own. With the
lines of the source (-lineinfo) its PTX is the same but for them.

reproducible.py SOURCES IMAGES DEFINITIONS    (as mutants.py)
"""

import re
import shutil
import sys
import tempfile
from pathlib import Path

from compiler import compile_image, copy_sources, name_of

KERNELS = [("80", "combine", "f32", "576"), ("80", "simt", "f32", "64"), ("80", "mma", "bf16", "32")]


# The lines that -lineinfo adds: places, files, and the names of inlined functions.
LINES = re.compile(r"^[ \t]*\.(loc|file)\s.*\n|^[ \t]*\.section\s+\.debug_str\s*\{[^}]*\}\n", re.MULTILINE)


def main(sources, images, definitions):
    differing = 0
    with tempfile.TemporaryDirectory(prefix="fa-elsewhere-") as temporary:
        copy_sources(Path(sources), Path(temporary, "kernels"))
        for image in KERNELS:
            built = Path(images, f"{name_of(*image)}.fatbin")
            if not built.exists():
                print(f"{built} is not built: build the target fa_kernels first")
                return 77
            again, kept, lined = (Path(temporary, name) for name in (built.name, "kept", "lined.ptx"))
            shutil.rmtree(kept, ignore_errors=True)
            kept.mkdir()
            keep = ("-fatbin", "--keep", "--keep-dir", str(kept))
            compile_image(Path(temporary, "kernels"), image, definitions, again, flags=keep)
            same = again.read_bytes() == built.read_bytes()
            print(f"{built.name}: {'the same' if same else 'differs'}")
            ptx = (kept / "kernel.ptx").read_text()
            compile_image(Path(temporary, "kernels"), image, definitions, lined, "compute_{0}", ["-lineinfo", "-ptx"])
            stripped, places = LINES.subn("", lined.read_text())
            same_code = places > 100 and stripped.rstrip() == ptx.rstrip()
            print(f"{built.name}: with {places} places in the source, {'the same' if same_code else 'other'} PTX")
            differing += not same or not same_code
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
