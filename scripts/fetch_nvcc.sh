#!/bin/sh
# Fetches nvcc 13.0 from PyPI into a folder, for what compiles kernels and nothing else. Usage: fetch_nvcc.sh [FOLDER]
# FOLDER: build/nvcc by default. Prints nvcc's path. Does nothing where it is there already; 77 where pip cannot get it.
set -eu
folder=${1:-build/nvcc}
case $folder in
  -h | --help) exec sed -n '2,3s/^# //p' "$0" ;;
  -*) echo "fetch_nvcc.sh takes a folder, not $folder" >&2 && exit 2 ;;
esac
packages="nvidia-cuda-nvcc nvidia-nvvm nvidia-cuda-crt nvidia-cuda-runtime nvidia-cuda-cccl"
nvcc=$folder/nvidia/cu13/bin/nvcc
if [ ! -f "$folder/done" ]; then
  echo "fetching nvcc 13.0 (about 300 MB) into $folder" >&2
  rm -rf "$folder"
  mkdir -p "$folder"
  pinned=
  for package in $packages; do pinned="$pinned $package==13.0.*"; done
  # shellcheck disable=SC2086
  if ! python3 -m pip --quiet --disable-pip-version-check install --no-deps --only-binary :all: --target "$folder" \
    $pinned >&2; then
    echo "skipped: pip could not install$pinned" >&2
    exit 77
  fi
  chmod -R u+x "$folder/nvidia/cu13/bin" "$folder/nvidia/cu13/nvvm/bin"
  touch "$folder/done"
fi
"$nvcc" --version >/dev/null || {
  echo "nvcc in $folder does not run; remove the folder to fetch it again" >&2
  exit 1
}
echo "$nvcc"
