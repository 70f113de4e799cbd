#!/bin/sh
# Packages of kernels in Triton (packages.txt, 22 MB), for a Python that has torch and Triton.
# packages.sh PYTHON FOLDER install        makes the folder, or brings it up to date
# packages.sh PYTHON FOLDER SCRIPT ...     runs a script with it
# 77 (skipped) where they cannot be had: no network, a Python without torch for CUDA. With CI=true that is a failure.
set -u
here=$(cd "$(dirname "$0")" && pwd)
python=$1
folder=$2
shift 2

without() {
  echo "$*"
  [ "${CI:-false}" != true ] || exit 1
  exit 77
}

if [ "$1" != install ]; then
  cmp -s "$here/packages.txt" "$folder/done" ||
    without "there is no $folder/done as it should be: run sh $0 $python $folder install (see the test emulator.third_party.torch.install)"
  exec env PYTHONPATH="$folder" "$python" -B "$@"
fi
"$python" -c 'import triton, torch; exit(torch.version.cuda is None)' >/dev/null 2>&1 ||
  without "$python has no torch for CUDA with Triton: FA_TEST_TORCH=1 bindings/python/environment.sh makes one that does"
mkdir -p "$folder"
exec 9>"$folder.lock"
flock 9
cmp -s "$here/packages.txt" "$folder/done" && exit 0
rm -rf "$folder"
"$python" -m pip --quiet --disable-pip-version-check install --no-deps --only-binary :all: --target "$folder" \
  --requirement "$here/packages.txt" || without "pip could not install the packages of $here/packages.txt"
cp "$here/packages.txt" "$folder/done"
