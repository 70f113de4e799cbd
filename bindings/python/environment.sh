#!/bin/sh
# Makes the virtual environment that the Python binding is built and tested in, or brings it up to date, and prints its
# folder. Usage: environment.sh [FOLDER]; FOLDER is ~/.cache/libfa/python by default, where CMake looks for it and where it
# stays from run to run. With FA_TEST_TORCH=1 or CI=true it has torch, transformers and JAX as well.
set -eu
folder=${1:-${XDG_CACHE_HOME:-$HOME/.cache}/libfa/python}
here=$(cd "$(dirname "$0")" && pwd)
lists="-r $here/tests/requirements.txt"
if [ "${FA_TEST_TORCH:-0}" = 1 ] || [ "${CI:-false}" = true ]; then
  lists="$lists -r $here/tests/requirements-torch.txt"
fi

[ -x "$folder/bin/python" ] || python3 -m venv "$folder"
# shellcheck disable=SC2086
wanted=$(for list in $lists; do [ "$list" = -r ] || cat "$list"; done)
if [ ! -f "$folder/installed.txt" ] || [ "$wanted" != "$(cat "$folder/installed.txt")" ]; then
  echo "installing into $folder: $(echo "$wanted" | grep -v '^#' | tr '\n' ' ')" >&2
  # shellcheck disable=SC2086
  "$folder/bin/python" -m pip install --quiet --disable-pip-version-check $lists >&2
  echo "$wanted" >"$folder/installed.txt"
fi
echo "$folder"
