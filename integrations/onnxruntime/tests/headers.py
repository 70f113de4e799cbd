"""Compiles headers_test.cpp with a header of ONNX Runtime: that of the folder given, else the one of version 1.24 that the Go module
github.com/yalue/onnxruntime_go carries.

Usage: headers.py COMPILER [FOLDER]
"""
import json
import pathlib
import shutil
import subprocess
import sys

MODULE = "github.com/yalue/onnxruntime_go@v1.27.0"


def skip(reason):
    print("skipped:", reason)
    sys.exit(77)


def folder_of_module():
    if not shutil.which("go"):
        skip("go, whose module has the header, is not there")
    done = subprocess.run(["go", "mod", "download", "-json", MODULE], capture_output=True, text=True, cwd="/")
    if done.returncode != 0:
        skip(f"go mod download: {done.stdout[-300:]}{done.stderr[-300:]}")
    return json.loads(done.stdout)["Dir"]


if __name__ == "__main__":
    compiler, folder = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else folder_of_module()
    test = pathlib.Path(__file__).with_name("headers_test.cpp")
    command = [compiler, "-std=c++20", "-fsyntax-only", "-Wno-invalid-offsetof", "-isystem", folder, test]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
