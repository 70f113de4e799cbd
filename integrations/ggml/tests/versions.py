"""libggml-fa.so with other versions of ggml. Built with the headers of each, it computes a part of ggml's own cases in the binaries next to
them; in every other pair it computes attention or is refused with a reason.

Usage: versions.py CMAKE LIBFA_BUILD FOLDER COMPILER [newest]; newest: only the newest version of both registries, by the whole suite
"""
import json
import pathlib
import re
import subprocess
import sys

import stock
import suite
from plugins import build, run

HERE = pathlib.Path(__file__).parent
PAIRS = [  # llama-cpp-python of PyPI, node-llama-cpp of npm; the binaries' llama.cpp and ggml
    ("0.3.16", "3.12.0"),  # b6122
    ("0.3.18", "3.14.5"),  # b7347, 0.9.4
    ("0.3.18", "3.18.1"),  # b8390, 0.9.7
    ("0.3.34", "3.19.1"),  # b10068, 0.17.0
    ("0.3.35", "3.20.0"),  # b10361, 0.19.0
    ("0.3.36", "3.21.1"),  # 0.4.0, 0.23.0
]


def names(sources, binaries):
    return f"llama-cpp-python=={sources}", f"@node-llama-cpp/linux-x64@{binaries}"


def built(given, versions):
    """The backend with the headers of these versions."""
    cmake, libfa_build, folder, compiler = given
    name = versions[0].split("==")[1]
    target = pathlib.Path(folder) / name
    build(cmake, libfa_build, target, compiler, HERE.parent, f"-DFA_GGML_INCLUDE={stock.fetch(*versions)[0]}")
    return str(target / "libggml-fa.so")


def crossed(library, binaries):
    """"computes", or the reason for which the backend is refused."""
    done = subprocess.run([sys.executable, "-B", HERE / "masks.py", library, binaries], capture_output=True, text=True)
    if done.returncode == 0:
        return "computes"
    reason = re.search("libfa: ggml: (not used by ggml [^\n]*)", done.stderr)
    assert done.returncode == 1 and reason and "ggml has no device FA" in done.stderr, f"{done.returncode}: {done.stderr[-2000:]}"
    return reason[1]


def pinned(given):
    versions = [names(*pair) for pair in PAIRS]
    libraries = {each[0]: built(given, each) for each in versions}
    for each in versions:
        pattern = "nb=(1|3)," if each == versions[0] else suite.TENTH
        passed, _ = suite.run(given[3], libraries[each[0]], pattern, *each)
        assert passed > 150, f"{each}: {passed} cases passed"
    for sources, library in libraries.items():
        for each in versions:
            if each[0] != sources:
                print(sources, "in", each[1], crossed(library, stock.fetch(*each)[1]))


def newest(given):
    listed = run(sys.executable, "-m", "pip", "index", "versions", "llama-cpp-python")
    sources = re.search(r"\((.*?)\)", listed)[1]
    binaries = json.loads(run("npm", "view", "@node-llama-cpp/linux-x64", "version", "--json"))
    versions = names(sources, binaries)
    print("tested by ctest:", stock.SOURCES, stock.BINARIES, "newest:", *versions)
    print(suite.run(given[3], built(given, versions), "", *versions), "cases passed and declined; before", suite.COUNTS[""])


if __name__ == "__main__":
    stock.or_skip(newest if "newest" in sys.argv[5:] else pinned, sys.argv[1:5])
