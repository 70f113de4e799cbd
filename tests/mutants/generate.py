"""Faults that universalmutator makes of any line of the sources, each with the tests of its folder. Which of them change
nothing that can be seen (a hint, a capacity, an order) is for a person to say: there is no list of them."""

import contextlib
import io
import random

from mutant import Mutant
from universalmutator import mutator

# The first that a file's path begins with. Tests in the order in which they are quick.
SUITES = [
    ("src/cpu/kernel/vector_math.h", r"^math", "host"),
    ("src/cpu/pool", r"^(pool|abi\.unload|threads\.f32\.generic)", "host"),
    (
        "src/cpu",
        r"^(math|(contents|memory|threads|bitwise|property|many_keys|forward|fuzz)\.(f32|bf16)\.(avx2|generic)$)",
        "host",
    ),
    ("src/cuda", r"^cuda", "emulated"),
    ("src", r"^(api|abi)\.|^(contents|forward)\.f32\.generic$", "host"),
    ("tools", r"^tool\.", "host"),
    ("bindings/python/libfa", r"^python\.(attention|cases|errors|flash_attn|fuzz|types|header)$", "bindings"),
    ("bindings/rust/libfa/src", r"^rust\.(layer|cases|fuzz|coverage)$", "bindings"),
    ("bindings/julia/src", r"^julia\.(interface|errors|arrays|threads|extensions|case_list)$", "bindings"),
]
RULES = {
    ".py": ["universal.rules", "python.rules"],
    ".rs": ["universal.rules", "c_like.rules", "rust.rules"],
    ".jl": ["universal.rules"],
    ".cpp": ["universal.rules", "c_like.rules", "cpp.rules"],
    ".h": ["universal.rules", "c_like.rules", "cpp.rules"],
}
# Comments, preprocessing, strings that are words for people, and code that only the compiler looks at.
LEFT_OUT = [
    r"^\s*(//|#|\"\"\"|///|import |from |use |using |namespace |template |static_assert)",
    r"^\s*\"",
    r"prefetch|refuse\(|fail\(",
]
TARGETS = {"bindings": ("fa", "fa_python", "fa_dump_cases")}


def suite_of(name):
    return next(((tests, build) for folder, tests, build in SUITES if name.startswith(folder)), None)


def context_of(lines, number):
    """The line and as many before it as make a text that the file has once."""
    whole = "".join(lines)
    for first in range(number, -1, -1):
        text = "".join(lines[first : number + 1])
        if whole.count(text) == 1:
            return text
    return None


def of_file(root, path):
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    with contextlib.redirect_stdout(io.StringIO()):  # it prints its progress
        made = mutator.mutants_regexp(lines, ruleFiles=RULES[path.suffix], ignorePatterns=LEFT_OUT, ignoreStringOnly=True)
    return [(path.relative_to(root), lines, number - 1, text) for number, text, *_ in made]


def generated(root, under, count, seed):
    files = [root / under] if (root / under).is_file() else sorted((root / under).rglob("*"))
    files = [path for path in files if path.suffix in RULES and not path.is_symlink() and suite_of(str(path.relative_to(root)))]
    chance = random.Random(seed)
    mutants = []
    weights = [path.stat().st_size for path in files]  # a line of any file is as likely
    while files and len(mutants) < count:
        possible = of_file(root, chance.choices(files, weights)[0])
        if not possible:
            continue
        name, lines, number, text = chance.choice(possible)
        old = context_of(lines, number)
        if old is None or any(each.old == old and each.file == str(name) for each in mutants):
            continue
        tests, build = suite_of(str(name))
        mutants.append(
            Mutant(
                f"{name}:{number + 1}", str(name), old, old[: -len(lines[number])] + text, tests, build, TARGETS.get(build, ())
            )
        )
    return mutants
