"""A Python environment with torch for the CPU alone.

torch's Linux wheels link to gigabytes of CUDA libraries that a comparison on the CPU never calls. This module installs
torch without its dependencies, then the few that count, and builds an empty stand-in for each CUDA library that torch
must be able to load: the same soname and symbols, every function answering 1. Do not use the environment for a GPU.
"""
import re
import subprocess
import tempfile
import venv
from pathlib import Path

TORCH = "torch==2.13.0"
PURE = ["filelock", "typing-extensions>=4.10", "sympy>=1.13.3", "networkx>=2.5.1", "jinja2", "fsspec", "setuptools>=77", "numpy"]
RUNTIME = "nvidia-cuda-runtime==13.0.*"  # called while torch loads, and small: the real one

# The first prefix that fits a symbol names the library that has it.
PREFIXES = {
    "cublasLt": "libcublasLt", "cublas": "libcublas", "cusparseLt": "libcusparseLt", "cusparse": "libcusparse",
    "cudnn": "libcudnn", "cufft": "libcufft", "cuFile": "libcufile", "cupti": "libcupti", "curand": "libcurand",
    "nccl": "libnccl", "nvrtc": "libnvrtc", "nvshmem": "libnvshmem_host", "cusolver": "libcusolver",
}


def create(folder):
    """Makes the environment in `folder` unless it is there already; returns the path of its python."""
    folder = Path(folder)
    python = folder / "bin" / "python"
    done = folder / "torch-is-ready"
    if done.exists():
        return python
    print(f"creating {folder} with {TORCH} (about 1.3 GB on disk)", flush=True)
    venv.create(folder, with_pip=True)
    pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run(pip + PURE, check=True)
    subprocess.run(pip + ["--no-deps", TORCH, RUNTIME], check=True)
    (libraries,) = folder.glob("lib/python3*/site-packages/torch/lib")
    for real in folder.glob("lib/python3*/site-packages/nvidia/*/lib/libcudart.so.*"):
        link = libraries / real.name
        if not link.exists():
            link.symlink_to(real.resolve())
    build_stand_ins(libraries)
    done.touch()
    return python


def readelf(option, path):
    return subprocess.run(["readelf", "-W", option, path], capture_output=True, text=True, check=True).stdout


def build_stand_ins(libraries):
    """Builds one shared object for each CUDA library that the objects in `libraries` need and that is not there."""
    needed, undefined = set(), {}
    for path in [*libraries.glob("*.so"), *libraries.parent.glob("*.so")]:
        needed |= set(re.findall(r"NEEDED.*\[(lib(?:cu|nccl|nv)[^]]*)\]", readelf("-d", path)))
        for line in readelf("--dyn-syms", path).splitlines():
            fields = line.split()
            if len(fields) >= 8 and fields[6] == "UND":
                name, _, version = fields[7].partition("@")
                undefined[name] = version
    for soname in sorted(needed - {path.name for path in libraries.iterdir()}):
        owner = soname.split(".so")[0]
        symbols = {name: version for name, version in undefined.items() if library_of(name) == owner}
        build_stand_in(libraries / soname, symbols)


def library_of(symbol):
    return next((library for prefix, library in PREFIXES.items() if symbol.startswith(prefix)), None)


def build_stand_in(path, symbols):
    versions = {}
    for name, version in symbols.items():
        versions.setdefault(version, []).append(name)
    with tempfile.TemporaryDirectory() as scratch:
        source, script = Path(scratch) / "stand_in.c", Path(scratch) / "stand_in.map"
        source.write_text("".join(f"int {name}(void) {{ return 1; }}\n" for name in symbols) or "typedef int none;\n")
        script.write_text(
            "".join(f"{version} {{ global: {'; '.join(names)}; }};\n" for version, names in versions.items() if version)
        )
        command = ["cc", "-w", "-shared", "-fPIC", "-o", path, source, f"-Wl,-soname,{path.name}"]
        if script.read_text():
            command.append(f"-Wl,--version-script={script}")
        subprocess.run(command, check=True)
