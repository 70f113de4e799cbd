"""Faults seeded into the kernels, one to an image: the checked suite must see every one of them.

mutants.py SOURCES IMAGES EMULATOR DEFINITIONS PROGRAMS ARCHS [NAME...]
SOURCES: kernels/; IMAGES: the build's; EMULATOR: the folder of libcuda.so.1; DEFINITIONS: FA_KERNEL_HASH=...,...;
PROGRAMS: fa_test_engine,fa_test_cuda; ARCHS: the build's, with commas; NAME: of the mutants to run, all by default
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from compiler import compile_image, name_of
from table import CLEAN, MUTANTS

JOBS = 2  # at a time, as tests/cuda/CMakeLists.txt tells ctest


def outcome_of(mutant, folders):
    """Whether the suite fails, and what it says."""
    sources, images, emulator, definitions, programs = folders
    program = next(each for each in programs.split(",") if each.endswith(mutant.program))
    with tempfile.TemporaryDirectory(prefix="fa-mutant-") as temporary:
        copy, path = Path(temporary, "kernels"), Path(temporary, "images")
        shutil.copytree(sources, copy)
        path.mkdir()
        arch, family, dtype, dim = mutant.image
        for image in Path(images).glob(f"sm_{arch}.*.fatbin"):
            (path / image.name).symlink_to(image)
        if mutant.file:
            text = (copy / mutant.file).read_text(encoding="utf-8")
            if text.count(mutant.old) != 1:
                raise SystemExit(f"{mutant.name}: {mutant.file} has {text.count(mutant.old)} times:\n{mutant.old}")
            (copy / mutant.file).write_text(text.replace(mutant.old, mutant.new), encoding="utf-8")
        fatbin = path / f"{name_of(*mutant.image)}.fatbin"
        fatbin.unlink(missing_ok=True)
        compile_image(copy, mutant.image, definitions, fatbin, "compute_{0}", ["-lineinfo", "-fatbin"])  # the emulator runs PTX
        environment = os.environ | {"FA_KERNEL_PATH": str(path), "FA_EMU_DEVICE": f"sm_{arch}", "FA_EMU_CHECK": "2"}
        # Two blocks at once, as a kernel that should wait for another one is to have the chance not to.
        environment |= {"FA_EMU_SEED": "1", "FA_EMU_THREADS": "2", "LD_LIBRARY_PATH": emulator, "TEST_EMULATED": "1"}
        test = mutant.test or f"*/Checked.Dim{mutant.test_dim}/{mutant.test_types}_sm_{arch}"
        done = subprocess.run([program, "--gtest_brief=1", f"--gtest_filter={test}"], env=environment, capture_output=True,
                              text=True, errors="replace", timeout=900)
        return done.returncode, done.stdout + done.stderr


def judge(mutant, folders):
    """Whether the mutant is told as it should be, and a line or more about it."""
    status, text = outcome_of(mutant, folders)
    wanted = 1 if mutant.file else 0
    told = [line for line in text.splitlines() if mutant.file and re.search(mutant.tells, line)]
    # What the emulator tells of a kernel names the source, up to the entry point.
    told = [line for line in told if "[kernel" not in line or f" {mutant.image[1]}/kernel.cu:" in line]
    if status != wanted or (mutant.file and not told):
        return False, f"{mutant.name}: status {status}, expected {wanted} and a line like '{mutant.tells}'\n{text[:3000]}"
    return True, f"{mutant.name}: {told[0].strip()[:400] if mutant.file else 'clean'}"


def main(*arguments):
    folders, archs, names = arguments[:5], arguments[5].split(","), arguments[6:]
    chosen = [mutant for mutant in CLEAN + MUTANTS if not names or mutant.name in names]
    unknown = set(names) - {mutant.name for mutant in chosen}
    if unknown:
        raise SystemExit(f"table.py has no {', '.join(sorted(unknown))}")
    for mutant in chosen:
        if mutant.image[0] not in archs:
            print(f"{mutant.name}: not run, as this build has no kernels for sm_{mutant.image[0]}")
    ours = [mutant for mutant in chosen if mutant.image[0] in archs]
    problems = 0
    with ThreadPoolExecutor(JOBS) as pool:
        for right, text in pool.map(lambda mutant: judge(mutant, folders), ours):
            problems += not right
            print(text, flush=True)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
