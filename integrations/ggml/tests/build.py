"""Builds libggml-fa.so as a person does who has installed libfa, against the headers of stock.py's ggml, into a folder.

Usage: build.py CMAKE LIBFA_BUILD FOLDER COMPILER
"""
import pathlib
import subprocess
import sys

import stock


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"


def build(cmake, libfa_build, folder, compiler):
    folder = pathlib.Path(folder)
    prefix = folder.parent / "libfa"
    for component in "runtime", "development":
        run(cmake, "--install", libfa_build, "--prefix", prefix, "--component", component)
    run(cmake, "-S", pathlib.Path(__file__).parents[1], "-B", folder, f"-DCMAKE_CXX_COMPILER={compiler}",
        "-DCMAKE_CXX_FLAGS=-Wall -Wextra -Werror", f"-DCMAKE_PREFIX_PATH={prefix}",
        f"-DFA_GGML_INCLUDE={stock.fetch()[0]}")
    run(cmake, "--build", folder, "-j2")


if __name__ == "__main__":
    try:
        build(*sys.argv[1:])
    except stock.CannotFetch as error:
        print("skipped:", error)
        sys.exit(77)
