"""libonnxruntime_fa.so with other versions of ONNX Runtime: ONNX's own cases, threads and refusals, and from 1.28 on random nodes and a model
compared with ONNX Runtime's own kernels, from 1.29 on with wrong inputs too (1.28's own kernels crash on some). Before 1.28 its own Attention differs with softcap and a mask, or a causal mask and lengths.

Usage: versions.py LIBONNXRUNTIME_FA [newest]; newest: only the newest version of PyPI
"""
import os
import pathlib
import re
import subprocess
import sys

import stock
from plugins import run

HERE = pathlib.Path(__file__).parent
VERSIONS = "1.24.1", "1.24.4", "1.25.1", "1.26.0", "1.27.0", "1.28.0", "1.29.0", "1.30.0", "1.31.1"


def tested(version, library):
    minor = int(version.split(".")[1])
    for script in ("onnx_cases", "host", "nodes", "model", "wrong")[: 5 if minor >= 29 else 4 if minor >= 28 else 2]:
        environment = {**os.environ, "FA_TEST_ONNXRUNTIME": version}
        done = subprocess.run([sys.executable, "-B", HERE / f"{script}.py", library], capture_output=True, text=True, env=environment)
        assert done.returncode == 0, f"{version}, {script}: {done.returncode}: {done.stdout[-1000:]}{done.stderr[-2000:]}"
        print(version, script, " ".join(done.stdout.splitlines()[-2:]), flush=True)


def newest():
    version = re.search(r"\((.*?)\)", run(sys.executable, "-m", "pip", "index", "versions", "onnxruntime"))[1]
    print("tested by ctest:", stock.USUAL, "newest:", version)
    return version


if __name__ == "__main__":
    for each in [newest()] if "newest" in sys.argv[2:] else VERSIONS:
        tested(each, sys.argv[1])
