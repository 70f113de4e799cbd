#!/usr/bin/env bash
# Makes the virtual environment that the Python binding is built and tested in, or brings it up to date.
# Usage: environment.sh [FOLDER]; FOLDER is ~/.cache/libfa/python by default, where CMake looks for it and where it stays from
# run to run. With FA_TEST_TORCH=1 or CI=true it has torch, transformers and JAX as well (7 GB).
source "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../../scripts/lib.sh"

folder=${1:-${XDG_CACHE_HOME:-$HOME/.cache}/libfa/python}
tests=$root/bindings/python/tests
lists=("$tests/requirements.txt")
if [ "${FA_TEST_TORCH:-0}" = 1 ] || [ "${CI:-false}" = true ]; then
  lists+=("$tests/requirements-torch.txt")
fi

step "Looking for Python and its headers" "install Python 3.10 or newer with its headers and its module venv"
packages=(unzip)
python3 -c 'import ensurepip, os, sys, sysconfig, venv
sys.exit(not os.path.exists(sysconfig.get_paths()["include"] + "/Python.h"))' 2>/dev/null || packages+=(python3-dev python3-venv)
need_packages "${packages[@]}"

step "Making the environment of the Python tests in $folder" "check that PyPI can be reached; to start afresh: rm -r $folder"
wanted=$(cat "${lists[@]}")
if [ ! -f "$folder/installed.txt" ] || [[ "$(cat "$folder/installed.txt")" != "$wanted"* ]]; then # torch may be there already
  "$folder/bin/python" -m pip --version >/dev/null 2>&1 || python3 -m venv --clear "$folder"
  "$folder/bin/python" -m pip install --quiet --disable-pip-version-check "${lists[@]/#/--requirement=}"
  if [ ${#lists[@]} -gt 1 ]; then # the sources of flash_attn, for tests/test_upstream.py: nothing of them is compiled
    FLASH_ATTENTION_SKIP_CUDA_BUILD=TRUE "$folder/bin/python" -m pip download --quiet --disable-pip-version-check --no-deps \
      --no-build-isolation --no-binary flash-attn --dest "$folder/sources" flash-attn==2.8.3.post2
  fi
  echo "$wanted" >"$folder/installed.txt"
else
  echo "   all there"
fi
