#!/usr/bin/env bash
# From a clean clone to attention computed on real input: installs missing packages, builds, runs, and reports.
[ -n "${BASH_VERSION:-}" ] || exec bash "$0" "$@" # it was called as: sh SCRIPT
set -euo pipefail
source "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/lib.sh"
source "$root/scripts/archs.sh"
cd "$root"

usage="usage: scripts/quickstart.sh [--all-archs | --print-archs | --print-cuda]    installs packages, builds libfa, runs it on real input
  --all-archs     with the kernels of every GPU architecture, rather than those of this machine's GPUs, if there are any
  --print-archs   only prints the architectures of this machine's GPUs, as a value of FA_ARCHS: an empty line for none
  --print-cuda    the same for FA_CUDA: 12 for a driver that runs no kernels of CUDA 13, else an empty line"
all_archs=
print_archs=
print_cuda=
case "$*" in
  '') ;;
  --all-archs) all_archs=yes ;;
  --print-archs) print_archs=yes ;;
  --print-cuda) print_cuda=yes ;;
  -h | --help) echo "$usage" && exit 0 ;;
  *) echo "$usage" >&2 && step_advice="use one of the arguments above, or none" && exit 2 ;;
esac

# gpu_arch CAPABILITY: the architecture, as FA_ARCHS names it, whose kernels run on such a GPU; nothing when none do. Machine
# code runs on later GPUs of its major version (docs/gpus.md); a GPU newer than all compiles the PTX of the newest.
gpu_arch() {
  local sm name code built shared reach newest=
  [[ $1 =~ ^([0-9]+)\.([0-9])$ ]] || return 0
  local gpu=${BASH_REMATCH[1]}${BASH_REMATCH[2]}
  while read -r sm name code built shared reach; do
    [ "$sm" -le "$gpu" ] || continue
    [ $((sm / 10)) -ne $((gpu / 10)) ] || { echo "$code" && return; }
    [ "$reach" != onward ] || newest=${newest:-$code}
  done < <(each_arch)
  [ -z "$newest" ] || echo "$newest"
}

# The architectures of this machine's GPUs, each once, newest last; on stderr the reason where there are none, or not for each GPU.
gpu_archs() {
  local capabilities capability arch
  if ! command -v nvidia-smi >/dev/null; then
    echo "   no nvidia-smi: not looking for a GPU" >&2
    return
  fi
  capabilities=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>&1) || {
    echo "   nvidia-smi fails (exit status $?): not looking for a GPU: ${capabilities%%$'\n'*}" >&2
    return 0
  }
  sort -uV <<<"$capabilities" | while read -r capability; do
    arch=$(gpu_arch "$capability")
    if [ -n "$arch" ]; then
      echo "$arch"
    else
      echo "   none for a GPU whose compute capability nvidia-smi reports as '$capability': kernels need 7.5 or later" >&2
    fi
  done | sort -uV | paste -sd ';'
}

# driver_cuda: the CUDA that compiles kernels for this machine's driver, as FA_CUDA names it; an empty line where any does, or
# where no driver is found.
driver_cuda() {
  local versions=
  ! command -v nvidia-smi >/dev/null || versions=$(nvidia-smi --query-gpu=driver_version --format=csv,noheader 2>/dev/null) || versions=
  local major=${versions%%.*}
  if [[ $major =~ ^[0-9]+$ ]] && [ "$major" -lt 580 ]; then echo 12; else echo; fi
}

[ -z "$print_cuda" ] || { driver_cuda && exit; }
cuda=
archs=
if [ -z "$all_archs" ]; then
  [ -n "$print_archs" ] || step "Looking for this machine's GPUs" "build for every GPU: $0 --all-archs"
  archs=$(gpu_archs)
  [ -z "$print_archs" ] || { echo "$archs" && exit; }
  echo "   GPU kernels: ${archs:-none, the build is for the CPU only (--all-archs builds them all)}"
  [ -z "$archs" ] || cuda=$(driver_cuda)
  [ -z "$cuda" ] || echo "   by CUDA $cuda, as the driver is older than 580"
fi

step "Looking for the compiler and the libraries of the tool" "see above"
need_packages "${build_packages[@]}"
need_cmake

kernels=(-DFA_KERNELS=off)
if [ -n "$all_archs" ]; then
  kernels=(-DFA_KERNELS=embed -UFA_ARCHS -UFA_CUDA) # an earlier run may have named some
elif [ -n "$archs" ]; then
  kernels=(-DFA_KERNELS=embed "-DFA_ARCHS=$archs" "-DFA_CUDA=$cuda")
fi
[ "${kernels[0]}" = -DFA_KERNELS=off ] || need_packages python3 python3-pip # nvcc may come from PyPI

configure_and_build release "${kernels[@]}" -DFA_BUILD_TESTS=OFF -DFA_BUILD_BENCH=OFF -DFA_BUILD_EMULATOR=OFF
fa=build/release/tools/fa

step "The CPU, GPUs and kernels of this machine" "report the lines above together with the output of: $fa info"
"$fa" info

step "Attention on real input: layers 0 and 5 of all-MiniLM-L6-v2 reading the Gettysburg Address, 3 packed sequences" \
  "see whether one kernel is at fault: FA_FORCE_KERNEL=cpu.generic $0; then report it together with the output of: $fa info"
for layer in 0 5; do
  data=examples/data/layer$layer
  echo "-- layer $layer"
  "$fa" run --q "${data}_q.npy" --k "${data}_k.npy" --v "${data}_v.npy" --cu-seqlens examples/data/cu_seqlens.npy \
    --repeat 50 -o "build/layer${layer}_out.npy" --reference "${data}_out.npy" --max-error 2e-3
done

step "The program in the introduction of include/fa.h" "report it together with the output of: $fa info"
build/release/examples/minimal

say "Done. Next: $fa check verifies each kernel, cmake --install build/release installs, scripts/test.sh runs the tests (README.md: a quarter of an hour)."
