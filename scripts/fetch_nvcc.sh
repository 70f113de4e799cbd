#!/bin/sh
# Fetches nvcc from PyPI into a folder, for builds that compile kernels alone. Usage: fetch_nvcc.sh [--cuda 12|13] [FOLDER]
# 13, the default: nvcc 13.0, into build/nvcc. 12: the parts of CUDA 12.9, into build/nvcc12, with scripts/nvcc12.py as nvcc.
# Prints nvcc's path. Does nothing where it is there already; 77 where pip cannot get it.
set -eu
cuda=13
if [ "${1:-}" = --cuda ]; then
  cuda=${2:-nothing}
  shift $(($# < 2 ? $# : 2))
fi
case $cuda in
  12)
    folder=build/nvcc12 version=12.9 size="140 MB"
    packages="nvidia-cuda-nvrtc-cu12 nvidia-cuda-nvcc-cu12 nvidia-nvfatbin-cu12 nvidia-cuda-runtime-cu12 nvidia-cuda-cccl-cu12"
    others="lz4==4.*"
    ;;
  13)
    folder=build/nvcc version=13.0 size="300 MB"
    packages="nvidia-cuda-nvcc nvidia-nvvm nvidia-cuda-crt nvidia-cuda-runtime nvidia-cuda-cccl"
    others=
    ;;
  *) echo "fetch_nvcc.sh: --cuda is $cuda; expected 12 or 13" >&2 && exit 2 ;;
esac
folder=${1:-$folder}
case $folder in
  -h | --help) exec sed -n '2,4s/^# //p' "$0" ;;
  -*) echo "fetch_nvcc.sh takes a folder, not $folder" >&2 && exit 2 ;;
esac
nvcc=$folder/nvidia/cu13/bin/nvcc
[ "$cuda" = 13 ] || nvcc=$folder/nvcc
if [ ! -f "$folder/done" ]; then
  echo "fetching nvcc $version (about $size) into $folder" >&2
  rm -rf "$folder"
  mkdir -p "$folder"
  pinned=$others
  for package in $packages; do pinned="$pinned $package==$version.*"; done
  # shellcheck disable=SC2086
  if ! python3 -m pip --quiet --disable-pip-version-check install --no-deps --only-binary :all: --target "$folder" \
    $pinned >&2; then
    echo "skipped: pip could not install$pinned" >&2
    exit 77
  fi
  if [ "$cuda" = 12 ]; then
    chmod u+x "$folder/nvidia/cuda_nvcc/bin/ptxas"
    # Wherever the source tree and the folder are called from.
    cat >"$nvcc" <<TEXT
#!/bin/sh
exec python3 "$(cd "$(dirname "$0")" && pwd)/nvcc12.py" --toolkit "\$(dirname "\$0")/nvidia" "\$@"
TEXT
    chmod u+x "$nvcc"
  else
    chmod -R u+x "$folder/nvidia/cu13/bin" "$folder/nvidia/cu13/nvvm/bin"
  fi
  touch "$folder/done"
fi
"$nvcc" --version >/dev/null || {
  echo "nvcc in $folder does not run; remove the folder to fetch it again" >&2
  exit 1
}
echo "$nvcc"
