#!/bin/sh
# Makes a virtual environment with the Python clients. Usage: install_clients.sh PYTHON FOLDER
# 77 where that cannot be done here (no network, no wheels for this Python): ctest then skips the clients.
set -u
python=$1 folder=$2
packages="cuda-bindings==13.0.3 cuda-core==1.2.2 nvidia-cuda-runtime-cu12==12.8.90"
if [ -f "$folder/done" ] && [ "$(cat "$folder/done")" = "$packages" ]; then exit 0; fi
rm -rf "$folder"
if ! "$python" -m venv "$folder"; then
  echo "skipped: $python -m venv does not work (Debian: apt install python3-venv)"
  exit 77
fi
# shellcheck disable=SC2086
if ! "$folder/bin/pip" --quiet --disable-pip-version-check install --only-binary :all: $packages; then
  echo "skipped: pip could not install $packages"
  exit 77
fi
echo "$packages" > "$folder/done"
