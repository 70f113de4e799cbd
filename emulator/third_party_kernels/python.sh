#!/bin/sh
# The Python environment of the third-party kernels, with Triton and numba-cuda (1.6 GB), and with matplotlib.
# python.sh FOLDER install        makes it, or brings it up to date
# python.sh FOLDER SCRIPT ...     runs a script in it
# 77 (skipped) where it cannot be had: no network, no wheels for this Python. With CI=true that is a failure.
set -u
here=$(cd "$(dirname "$0")" && pwd)
folder=$1
shift

without() {
  echo "$*"
  [ "${CI:-false}" != true ] || exit 1
  exit 77
}

if [ "$1" != install ]; then
  cmp -s "$here/requirements.txt" "$folder/done" ||
    without "there is no $folder/done as it should be: run sh $0 $folder install (see the test emulator.third_party.install)"
  exec "$folder/bin/python" -B "$@"
fi
mkdir -p "$folder"
exec 9>"$folder.lock"
flock 9
cmp -s "$here/requirements.txt" "$folder/done" && exit 0
echo "installing Triton and numba-cuda (1.6 GB) into $folder"
rm -rf "$folder"
python3 -m venv "$folder" || without "python3 -m venv does not work (Debian: apt install python3-venv)"
"$folder/bin/python" -m pip --quiet --disable-pip-version-check install --no-deps --only-binary :all: \
  --requirement "$here/requirements.txt" || without "pip could not install the packages of $here/requirements.txt"
cp "$here/requirements.txt" "$folder/done"
