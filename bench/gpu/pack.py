#!/usr/bin/env python3
"""Puts the files of a build that a GPU session needs into one folder, and lists them (pack.json)."""
import argparse
import re
import shutil
import subprocess
import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from gpu import preflight, tools

PROGRAMS = {"fa": "tools/fa", "fa_test_engine": "tests/engine/fa_test_engine",
            "fa_test_cuda": "tests/cuda/fa_test_cuda", "fa_bench_cold": "bench/fa_bench_cold"}
EVERYWHERE = re.compile(r"lib(c|m|dl|rt|pthread|gcc_s|stdc\+\+)\.so")  # part of every machine


def carried_libraries(program):
    """The shared libraries of a program that another machine may lack: libfmt.so.9 and its like."""
    output = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
    found = re.findall(r"(\S+\.so\S*) => (/\S+)", output)
    return {name: path for name, path in found if not EVERYWHERE.match(name)}


def cache_of(build):
    lines = (build / "CMakeCache.txt").read_text().splitlines()
    return dict(re.match(r"([^:]+):[^=]*=(.*)", line).groups() for line in lines if re.match(r"[A-Za-z_]+:[^=]*=", line))


def fill(build, pack, sm):
    shutil.rmtree(pack, ignore_errors=True)
    for folder in ("bin", "lib", "ported"):
        (pack / folder).mkdir(parents=True)
    for name, path in PROGRAMS.items():
        if (build / path).exists():
            shutil.copy2(build / path, pack / "bin" / name)
            for library, source in carried_libraries(build / path).items():
                shutil.copy2(source, pack / "lib" / library)
    for file in sorted(pack.glob("bin/*")) + sorted(pack.glob("lib/*")):
        subprocess.run(["strip", "--strip-unneeded", file], check=True)
    for file in (build / "kernels" / "ported").glob("*.fatbin"):
        shutil.copy2(file, pack / "ported")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=Path, required=True)
    parser.add_argument("--pack", type=Path, required=True)
    parser.add_argument("--sm", type=int, required=True, help="of the GPU, without a dot: 90")
    options = parser.parse_args()
    fill(options.build, options.pack, options.sm)
    cache = cache_of(options.build)
    version = tools.run([cache.get("FA_KERNEL_NVCC") or "nvcc", "--version"], 60).output
    release = re.search(r"V(\d+\.\d+\.\d+)", version)
    files = sorted(str(file.relative_to(options.pack)) for folder in ("bin", "lib") for file in options.pack.glob(f"{folder}/*"))
    tools.write_json(options.pack / "pack.json", {
        "commit": tools.git("rev-parse", "HEAD"),
        "changed": bool(tools.git("status", "--porcelain", "--untracked-files=no")),
        "sm": options.sm,
        "archs": [f"sm_{arch}" for arch in cache["FA_ARCHS"].split(";")],
        "nvcc": release.group(1) if release else None,
        "files": files,
        "ported": sorted(file.name for file in (options.pack / "ported").glob("*.fatbin")),
    })
    pack = tools.Pack(options.pack)
    print(preflight.luggage(pack))
    found = preflight.problems(pack)
    for problem in found:
        print(f"missing: {problem}", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
