"""Images do not tell where they were built: one of each family, compiled from a copy elsewhere, is the build's own.

reproducible.py SOURCES IMAGES DEFINITIONS    (as mutants.py)
"""

import shutil
import sys
import tempfile
from pathlib import Path

from compiler import compile_image, name_of

KERNELS = [("80", "combine", "f32", "576"), ("80", "simt", "f32", "64"), ("80", "mma", "bf16", "32")]


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
            differing += not same
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
