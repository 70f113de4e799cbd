"""The environment of decode_peers.py: Python with torch and ONNX Runtime, and ggml's shared libraries."""
import io
import subprocess
import tarfile

import torch_environment

PACKAGES = ["onnxruntime==1.32.*", "onnx", "ml-dtypes"]
GGML = "@node-llama-cpp/linux-x64@3.22.1"  # of npm


def create(folder):
    """Makes the environment in `folder` unless it is there already; returns the path of its python."""
    python = torch_environment.create(folder)
    done = folder / "peers-are-ready"
    if not done.exists():
        subprocess.run([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *PACKAGES], check=True)
        unpack_ggml(folder / "ggml")
        done.touch()
    return python


def unpack_ggml(folder):
    folder.mkdir(exist_ok=True)
    packed = subprocess.run(["npm", "pack", "--silent", "--pack-destination", folder, GGML], capture_output=True, text=True, check=True)
    with tarfile.open(fileobj=io.BytesIO((folder / packed.stdout.split()[-1]).read_bytes())) as package:
        for member in package.getmembers():
            name = member.name.rsplit("/", 1)[-1]
            if name.startswith("libggml-"):
                (folder / name).write_bytes(package.extractfile(member).read())
