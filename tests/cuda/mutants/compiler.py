"""Compiles one image from a copy of the kernels' sources, as kernels/CMakeLists.txt does."""

import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path

FLAGS = ["-std=c++20", "-O3", "--expt-relaxed-constexpr", "-Xptxas", "-v"]
COMPRESSION = {"12": ["-Xfatbin", "-compress-all"], "13": ["--compress-mode=size"]}
QUICK = COMPRESSION | {"13": ["--compress-mode=none"]}


def name_of(arch, family, dtype, dim):
    return f"sm_{arch}.{family}.{dtype}.{dim}"


def copy_sources(sources: Path, to: Path):
    """A copy of the kernels' sources as the folder `to`, and next to it of the headers that they share with libfa."""
    shutil.copytree(sources, to)
    shutil.copytree(sources.parent / "src" / "core", to.parent / "src" / "core", ignore=shutil.ignore_patterns("*.cpp"))


def folder_of(sources: Path, family):
    """The folder of a family among the sources: kernels/families.inc."""
    (operation,) = set(re.findall(rf"^FA_FAMILY\((\w+), {family},", (sources / "families.inc").read_text(), re.M))
    return f"{operation}/{family.removeprefix('backward_')}"


def compile_image(sources: Path, image, definitions, out: Path, code="sm_{0},compute_{0}", flags=("-fatbin",), quick=False):
    """image: (arch, family, dtype, dim); definitions: fa_built's, with commas, FA_KERNEL_HASH_mma and its like among them; code:
    the contents of the file, {0} the arch; flags: nvcc's, for the kind of output; quick: larger files in less time. Returns nvcc's
    messages. NVCC names it; NVCC_CACHE, if set, is the command that runs it through ccache."""
    arch, family, dtype, dim = image
    values = dict(one.partition("=")[::2] for one in definitions.split(","))
    definition = f"FA_KERNEL_HASH={values['FA_KERNEL_HASH_' + family]}"
    compression = (QUICK if quick else COMPRESSION)[values["FA_KERNEL_CUDA_VERSION"][:2]]
    cache = shlex.split(os.environ.get("NVCC_CACHE", ""))
    # ccache knows nvcc by -c, which the flags override; names are relative, as the same text may be in any folder.
    command = [*cache, os.environ["NVCC"], "-c", *FLAGS, *compression, "-I", sources.name, "-I", "src", f"-D{definition}", "-gencode"]
    command += [f"arch=compute_{arch},code=[{code.format(arch)}]", f"-DFA_SM={arch.rstrip('abf')}", f"-DFA_DTYPE={dtype}"]
    command += [f"-DFA_DIM={dim}", *flags, f"{sources.name}/{folder_of(sources, family)}/kernel.cu", "-o", str(out)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=sources.parent)
    if done.returncode:
        raise SystemExit(f"{name_of(*image)} does not compile:\n{done.stdout}{done.stderr}")
    return done.stdout + done.stderr
