#!/usr/bin/env bash
# One command for a machine with a GPU: is it right there, how fast is it there. Each `run` takes nine minutes at most,
# and the next one goes on. Work that needs nvcc or a network is prepared on a machine that has them.
[ -n "${BASH_VERSION:-}" ] || exec bash "$0" "$@" # it was called as: sh SCRIPT
set -euo pipefail
root=$(cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/.." && pwd)
source "$root/scripts/archs.sh"

usage() {
  cat <<'TEXT'
usage: scripts/gpu-session.sh prepare --sm 90 [--arch 90a] [--build FOLDER] [--pack FOLDER] [--tune]
       scripts/gpu-session.sh run [--out FOLDER] [--before FILE] [--phases NAME,...] [--pack FOLDER] [--seconds N] [--dry-run]
       scripts/gpu-session.sh tune [--kernel cuda.sm_90a.wgmma] [--pack FOLDER] [--out FOLDER] [--seconds N]
       scripts/gpu-session.sh phases

  prepare   where nvcc is: builds the library, the tool and the suites, and machine code for SM from the PTX of each older
            architecture; puts the files for the GPU's machine into build/session, and prints their size (with the checkout 64 MiB at most).
            --tune: with a library for each table of tiles of kernels/presets.inc.
            In the environment: FA_CUDA=12 for a driver that runs no kernels of CUDA 13, FA_NVCC=NVCC for this one
  run       where the GPU is; python3 with torch for comparisons with torch. Files in FOLDER: session.json, with the
            results of all phases, a table, and failures.txt, with the whole output of what failed. Three calls run everything: each goes on with the session.json that is in
            FOLDER, or with --before in another file
  tune      where the GPU is, in half an hour: which table of tiles is the fastest at each head dimension, and the lines
            that make it the default; --kernel: of any family with tables in kernels/presets.inc (cuda.sm_100a.tcgen05)
  phases    the phases, and how long each may take

scripts/preflight.sh says whether everything is there.
TEXT
}

prepare() {
  local sm='' arch='' build=$root/build/session-build pack=$root/build/session tune=''
  while [ $# -gt 0 ]; do
    case $1 in
      --tune)
        tune=yes
        shift
        continue
        ;;
      --sm) sm=$2 ;;
      --arch) arch=$2 ;;
      --build) build=$2 ;;
      --pack) pack=$2 ;;
      *) usage >&2 && exit 2 ;;
    esac
    shift 2
  done
  [[ $sm =~ ^[0-9]+$ ]] || { echo "prepare --sm takes the GPU's compute capability without a dot: 90" >&2 && exit 2; }
  local older=() each name code built shared reach
  while read -r each name code built shared reach; do
    [ "$each" -ne "$sm" ] || [ "$name" = "${each}f" ] || arch=${arch:-$name}
    [ "$each" -ge "$sm" ] || [ "$built $reach" != "always onward" ] || older=("$each" "${older[@]}")
  done < <(each_arch)
  [ -n "$arch" ] || { echo "kernels/archs.inc has no SM $sm: name the architecture to build for it with --arch" >&2 && exit 2; }
  local archs
  archs=$(IFS=';' && echo "${older[*]:-}${older:+;}$arch")

  cmake -S "$root" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DFA_KERNELS=embed "-DFA_ARCHS=$archs" "-DFA_PORT_TO=$sm" \
    ${FA_NVCC:+-DFA_NVCC="$FA_NVCC"} ${FA_CUDA:+-DFA_CUDA="$FA_CUDA"}
  local targets=(fa fa_cli fa_test_engine fa_test_cuda fa_bench_cold)
  [ ${#older[@]} -eq 0 ] || targets+=(fa_ported_kernels)
  cmake --build "$build" -j "${FA_JOBS:-$(nproc)}" --target "${targets[@]}"
  local packed=0
  python3 "$root/bench/gpu/pack.py" --build "$build" --pack "$pack" --sm "$sm" || packed=$?
  [ -z "$tune" ] || tables "$arch" "$sm" "$build" "$pack" || packed=$?
  return $packed
}

# tables ARCH SM BUILD PACK: a library for each table of tiles, and a list of its tiles, into PACK/tune. A table whose kernels
# spill would lose to any other: it is left out, and the exit status says so.
tables() {
  local preset folder left_out=0
  for preset in standard $(sed -n 's/^FA_PRESET(\([a-z]*\),.*/\1/p' "$root/kernels/presets.inc"); do
    folder=$3/tune-$preset
    cmake -S "$root" -B "$folder" -G Ninja -DCMAKE_BUILD_TYPE=Release -DFA_KERNELS=embed "-DFA_ARCHS=$1" -DFA_TILE_PRESET="$preset" \
      -DFA_STRICT_PTXAS=ON -DFA_BACKWARD=OFF -DFA_BUILD_TESTS=OFF -DFA_BUILD_TOOL=OFF -DFA_BUILD_BENCH=OFF -DFA_BUILD_EMULATOR=OFF \
      ${FA_NVCC:+-DFA_NVCC="$FA_NVCC"} ${FA_CUDA:+-DFA_CUDA="$FA_CUDA"}
    mkdir -p "$4/tune/$preset"
    if cmake --build "$folder" -j "${FA_JOBS:-$(nproc)}" --target fa &&
      "${CXX:-c++}" -std=c++20 -I "$root/kernels" -I "$root/src" "-DFA_SM=$2" "-DFA_TILE_PRESET=$preset" "$root/bench/gpu/tile_table.cpp" \
        -o "$folder/tile_table"; then
      "$folder/tile_table" >"$4/tune/$preset/tiles.txt"
      cp -L "$folder/src/libfa.so.0" "$4/tune/$preset/"
      strip --strip-unneeded "$4/tune/$preset/libfa.so.0"
    else
      echo "the table $preset is left out: it does not compile, or spills (see above)" >&2
      rm -rf "${4:?}/tune/$preset"
      left_out=1
    fi
  done
  return $left_out
}

command=${1:-}
shift || true
case $command in
  prepare) prepare "$@" ;;
  run) exec python3 "$root/bench/gpu/session.py" "$@" ;;
  tune) exec python3 "$root/bench/gpu/tune.py" "$@" ;;
  phases) exec python3 "$root/bench/gpu/session.py" --list ;;
  -h | --help) usage ;;
  *) usage >&2 && exit 2 ;;
esac
