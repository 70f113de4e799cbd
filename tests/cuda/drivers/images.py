"""Compiles the images of the suite Drivers by CUDA 12, which it fetches where it is not there; 77 where that cannot be had.

images.py FETCH TOOLKIT SOURCES OUT DEFINITIONS IMAGE...    (FETCH: scripts/fetch_nvcc.sh; the rest as mutants.py; IMAGE:
sm_80.mma.f16.64)
"""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "mutants"))
from compiler import compile_image, name_of  # noqa: E402


def main(fetch, toolkit, sources, out, definitions, *images):
    fetched = subprocess.run(["sh", fetch, "--cuda", "12", toolkit], stdout=subprocess.PIPE, text=True)
    if fetched.returncode:
        return fetched.returncode
    os.environ["NVCC"] = fetched.stdout.strip()
    Path(out).mkdir(parents=True, exist_ok=True)

    def compiled(name):
        image = name.removeprefix("sm_").split(".")
        assert name_of(*image) == name
        report = compile_image(Path(sources), image, definitions, Path(out, f"{name}.fatbin"))
        return [f"{name}: {line.strip()}" for line in report.splitlines()
                if "bytes stack frame" in line and "0 bytes stack frame, 0 bytes spill stores" not in line]  # fmt: skip

    with ThreadPoolExecutor(2) as pool:
        spilled = [line for lines in pool.map(compiled, images) for line in lines]
    print(*spilled, sep="\n")
    return 1 if spilled else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
