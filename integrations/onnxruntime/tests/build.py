"""Builds libonnxruntime_fa.so as a person does who has installed libfa, fetches ONNX Runtime, and looks at the library: it exports
the two functions of a provider, and needs no library of ONNX Runtime.

Usage: build.py CMAKE LIBFA_BUILD FOLDER COMPILER
"""
import pathlib
import shutil
import subprocess
import sys

import stock


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    return done.stdout


def build(cmake, libfa_build, folder, compiler):
    stock.fetch()
    folder = pathlib.Path(folder)
    prefix = folder.parent / "libfa"
    for component in "runtime", "development":
        run(cmake, "--install", libfa_build, "--prefix", prefix, "--component", component)
    run(cmake, "-S", pathlib.Path(__file__).parents[1], "-B", folder, f"-DCMAKE_CXX_COMPILER={compiler}",
        "-DCMAKE_CXX_FLAGS=-Wall -Wextra -Werror", "-DCMAKE_BUILD_TYPE=None", f"-DCMAKE_PREFIX_PATH={prefix}",
        *(["-DCMAKE_CXX_COMPILER_LAUNCHER=ccache"] if shutil.which("ccache") else []))
    run(cmake, "--build", folder, "-j2")
    library = folder / "libonnxruntime_fa.so"
    exported = {line.split()[-1].split("@")[0] for line in run("nm", "-D", "--defined-only", library).splitlines()}
    assert exported == {"CreateEpFactories", "ReleaseEpFactory"}, exported
    needed = [line for line in run("readelf", "-d", library).splitlines() if "NEEDED" in line]
    assert any("libfa.so" in line for line in needed) and not any("onnx" in line for line in needed), needed


if __name__ == "__main__":
    try:
        build(*sys.argv[1:])
    except stock.CannotFetch as error:
        print("skipped:", error)
        sys.exit(77)
