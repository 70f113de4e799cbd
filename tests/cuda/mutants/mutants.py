"""Faults seeded into the kernels, one to an image: the checked suite must see every one of them.

mutants.py SOURCES IMAGES EMULATOR DEFINITIONS PROGRAMS ARCHS [--one-of N | NAME...]
mutants.py --patterns SOURCES: only whether the sources have each text that a fault replaces, once, and names are unique
SOURCES: kernels/; IMAGES: the build's; EMULATOR: the folder of libcuda.so.1; DEFINITIONS: FA_KERNEL_HASH_mma=...,...;
PROGRAMS: fa_test_engine,fa_test_cuda; ARCHS: the build's, with commas; NAME: of the mutants to run, all by default; --one-of N: every Nth of them, others with each commit
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from importlib import import_module
from pathlib import Path

from compiler import compile_image, copy_sources, folder_of, name_of
from gradients import GRADIENTS
from roles import CODES, PRESETS, ROLES
from shared_rows import SHARED_ROWS
from table import CLEAN, MUTANTS
from tensor_memory_gradients import TENSOR_MEMORY_GRADIENTS
from warpgroup_gradients import WARPGROUP_GRADIENTS
from wide import WIDE

# Operations have theirs in of_NAME.py.
OF_OPERATIONS = [mutant for file in sorted(Path(__file__).parent.glob("of_*.py")) for mutant in import_module(file.stem).MUTANTS]
ALL = CLEAN + PRESETS + CODES + MUTANTS + OF_OPERATIONS + WIDE + SHARED_ROWS + GRADIENTS + WARPGROUP_GRADIENTS + TENSOR_MEMORY_GRADIENTS + ROLES
JOBS = 2  # at a time, as tests/cuda/CMakeLists.txt has it for ctest


def keep_entry(kernel: Path, entry):
    """Leaves the other entry points without a body."""
    text = kernel.read_text(encoding="utf-8")
    kernel.write_text(re.sub(rf"  forward<BlockOf<Entry::(?!{entry}>)\w+>>\(p(, \w+)*\);\n", "", text), encoding="utf-8")


def alone(mutants):
    """Kernels with one entry point and no fault: they print no line that shows a mutant of that entry point."""
    groups = {}
    for mutant in mutants:
        if mutant.entry and mutant.file:
            groups.setdefault((mutant.code or mutant.image[0], mutant.image, mutant.entry), []).append(mutant)
    for (code, _, entry), members in groups.items():
        seen_by = "|".join(sorted({mutant.expected for mutant in members}))
        yield replace(members[0], name=f"clean_{code}_{entry}", file="", old="", new="", expected=seen_by)


def edits_of(mutant):
    return [*mutant.also, *([(mutant.file, mutant.old, mutant.new)] if mutant.file else [])]


def seed(mutant, sources: Path):
    """Replaces texts in a copy of the sources. Returns a text that is not there once, or nothing."""
    for file, old, new in edits_of(mutant):
        text = (sources / file).read_text(encoding="utf-8")
        if text.count(old) != 1:
            return f"{mutant.name}: {file} has {text.count(old)} times:\n{old}"
        (sources / file).write_text(text.replace(old, new), encoding="utf-8")
    return None


def patterns(sources: Path):
    """Tries all mutants, each on texts as they are, and names those that are stale, and names that several have."""
    counts = Counter(mutant.name for mutant in ALL)
    stale = [f"{name}: {count} mutants have this name, expected one" for name, count in counts.items() if count > 1]
    with tempfile.TemporaryDirectory(prefix="fa-mutant-") as temporary:
        for mutant in ALL:
            for file in {file for file, _, _ in edits_of(mutant)}:
                copy = Path(temporary, "kernels", file)
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(sources / file, copy)
            stale += filter(None, [seed(mutant, Path(temporary, "kernels"))])
    print("\n".join(stale) or f"{len(ALL)} mutants apply")
    return 1 if stale else 0


def outcome_of(mutant, folders):
    """Whether the suite fails, and its output."""
    sources, images, emulator, definitions, programs = folders
    program = next(each for each in programs.split(",") if each.endswith(mutant.program))
    with tempfile.TemporaryDirectory(prefix="fa-mutant-") as temporary:
        copy, path = Path(temporary, "kernels"), Path(temporary, "images")
        copy_sources(Path(sources), copy)
        path.mkdir()
        arch, family, dtype, dim = mutant.image
        for image in Path(images).glob(f"sm_{arch}.*.fatbin"):
            (path / image.name).symlink_to(image)
        stale = seed(mutant, copy)
        if stale:
            raise SystemExit(stale)
        if mutant.entry:
            keep_entry(copy / folder_of(copy, family) / "kernel.cu", mutant.entry)
        fatbin = path / f"{name_of(*mutant.image)}.fatbin"
        fatbin.unlink(missing_ok=True)
        flags = ["-lineinfo", "-fatbin", f"-DFA_TILE_PRESET={mutant.preset}"]
        image = (mutant.code or arch, family, dtype, dim)
        compile_image(copy, image, definitions, fatbin, "compute_{0}", flags, quick=True)  # the emulator runs PTX
        environment = os.environ | {"FA_KERNEL_PATH": str(path), "FA_EMU_DEVICE": mutant.device or f"sm_{arch}", "FA_EMU_CHECK": "2"}
        # Two blocks at once, as a kernel that should wait for another one is to have the chance not to.
        environment |= {"FA_EMU_SEED": "1", "FA_EMU_THREADS": "2", "LD_LIBRARY_PATH": emulator, "TEST_EMULATED": "1"}
        environment |= {"FA_EMU_FAIL_ON": "formal"} if mutant.formal else {}
        test = mutant.test or f"*/Checked.Dim{mutant.test_dim}/{mutant.test_types}_sm_{arch}"
        done = subprocess.run([program, "--gtest_brief=1", f"--gtest_filter={test}"], env=environment, capture_output=True,
                              text=True, errors="replace", timeout=900)
        return done.returncode, done.stdout + done.stderr


def judge(mutant, folders):
    """Whether the outcome is as it should be, and a line or more about it."""
    status, text = outcome_of(mutant, folders)
    seen = [line for line in text.splitlines() if mutant.expected and re.search(mutant.expected, line)]
    # A finding of the emulator names the lines of the source up to the entry point, each with the last folder of its path; of
    # two launches without order, those of the later one, which may be of another family.
    folder = mutant.image[1].removeprefix("backward_")
    seen = [line for line in seen if "[kernel" not in line or "stream-race" in line or f" {folder}/kernel.cu:" in line]
    wanted = 1 if mutant.file or (mutant.entry and not mutant.test) else 0  # another test has no other entry points
    if status != wanted or bool(seen) != bool(mutant.file):
        line = f"{'a' if mutant.file else 'no'} line like '{mutant.expected}'" if mutant.expected else "nothing more"
        return False, f"{mutant.name}: status {status}, expected {wanted} and {line}\n{text[:3000]}"
    return True, f"{mutant.name}: {seen[0].strip()[:400] if mutant.file else 'clean'}"


def one_of(count, mutants, sources):
    """Every count-th of them, from the number of commits on; from the first where git does not know it."""
    commits = subprocess.run(["git", "-C", sources, "rev-list", "--count", "HEAD"], capture_output=True, text=True)
    first = int(commits.stdout or 0) % count
    print(f"one of {count} of {len(mutants)} mutants, from number {first} on: ctest -C slow runs all")
    return mutants[first::count]


def main(*arguments):
    if arguments[0] == "--patterns":
        return patterns(Path(arguments[1]))
    folders, archs, names = arguments[:5], arguments[5].split(","), arguments[6:]
    if names and names[0] == "--one-of":
        chosen, names = one_of(int(names[1]), ALL, folders[0]), ()
    else:
        chosen = [mutant for mutant in ALL if not names or mutant.name in names]
    unknown = set(names) - {mutant.name for mutant in chosen}
    if unknown:
        raise SystemExit(f"table.py has no {', '.join(sorted(unknown))}")
    for mutant in chosen:
        if mutant.image[0] not in archs:
            print(f"{mutant.name}: not run, as this build has no kernels for sm_{mutant.image[0]}")
    ours = [mutant for mutant in chosen if mutant.image[0] in archs]
    ours = [*alone(ours), *ours]
    problems = 0
    with ThreadPoolExecutor(JOBS) as pool:
        for right, text in pool.map(lambda mutant: judge(mutant, folders), ours):
            problems += not right
            print(text, flush=True)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
