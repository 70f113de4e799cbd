"""Faults seeded into the kernels, one at a time: the checked suite must see every one of them.

mutants.py SOURCES IMAGES EMULATOR DEFINITIONS PROGRAM ARCHS [NAME...]
SOURCES: kernels/; IMAGES: the build's; EMULATOR: the folder of libcuda.so.1; DEFINITIONS: FA_KERNEL_HASH=...,...;
PROGRAM: fa_test_engine; ARCHS: the build's, with commas; NAME: of the mutants to run, all by default
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from compiler import compile_image, name_of
from table import CLEAN, MUTANTS


def outcome_of(mutant, folders):
    """Whether the suite fails, and what it says."""
    sources, images, emulator, definitions, program = folders
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
        compile_image(copy, mutant.image, definitions, fatbin, "compute_{0}")  # the emulator runs PTX
        environment = os.environ | {"FA_KERNEL_PATH": str(path), "FA_EMU_DEVICE": f"sm_{arch}", "FA_EMU_CHECK": "2"}
        environment |= {"FA_EMU_SEED": "1", "LD_LIBRARY_PATH": emulator, "TEST_EMULATED": "1"}
        test = f"*/Checked.Dim{mutant.test_dim}/{'f32' if family == 'simt' else mutant.test_types}_sm_{arch}"
        done = subprocess.run([program, "--gtest_brief=1", f"--gtest_filter={test}"], env=environment, capture_output=True,
                              text=True, errors="replace", timeout=300)
        return done.returncode, done.stdout + done.stderr


def main(*arguments):
    folders, archs, names = arguments[:5], arguments[5].split(","), arguments[6:]
    problems = 0
    for mutant in CLEAN + MUTANTS:
        if names and mutant.name not in names:
            continue
        if mutant.image[0] not in archs:
            print(f"{mutant.name}: not run, as this build has no kernels for sm_{mutant.image[0]}")
            continue
        status, text = outcome_of(mutant, folders)
        wanted = 1 if mutant.file else 0
        told = [line for line in text.splitlines() if mutant.tells in line]
        if status != wanted or (mutant.file and not told):
            problems += 1
            print(f"{mutant.name}: status {status}, expected {wanted} and '{mutant.tells}'\n{text[:3000]}")
        else:
            print(f"{mutant.name}: {told[0].strip()[:160] if mutant.file else 'clean'}")
        sys.stdout.flush()
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
