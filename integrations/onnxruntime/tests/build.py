"""Builds libonnxruntime_fa.so as a person does who has installed libfa, fetches ONNX Runtime, and looks at the library: it exports
the two functions of a provider, and needs no library of ONNX Runtime.

Usage: build.py CMAKE LIBFA_BUILD FOLDER COMPILER [FLAGS]
"""
import pathlib
import shutil
import sys

import stock
from plugins import build, run


def main(*given):
    *given, flags = given if len(given) > 4 else (*given, "")
    stock.fetch()
    launcher = ["-DCMAKE_CXX_COMPILER_LAUNCHER=ccache"] if shutil.which("ccache") else []
    library = build(*given, pathlib.Path(__file__).parents[1], "-DCMAKE_BUILD_TYPE=None",
                    f"-DCMAKE_CXX_FLAGS=-Wall -Wextra -Werror {flags}", *launcher) / "libonnxruntime_fa.so"
    exported = {line.split()[-1].split("@")[0] for line in run("nm", "-D", "--defined-only", library).splitlines()}
    assert exported == {"CreateEpFactories", "ReleaseEpFactory"}, exported
    needed = [line for line in run("readelf", "-d", library).splitlines() if "NEEDED" in line]
    assert any("libfa.so" in line for line in needed) and not any("onnx" in line for line in needed), needed


if __name__ == "__main__":
    stock.or_skip(main, *sys.argv[1:])
