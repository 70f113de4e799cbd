#!/usr/bin/env bash
# From a clean clone to attention computed on real input: installs what is missing, builds, runs, and says how it went.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
cd "$root"

usage="usage: scripts/quickstart.sh [--all-archs]    installs what is missing, builds libfa and its tool, runs both on real input
  --all-archs   with the kernels of every GPU architecture, rather than those of this machine's GPU, if there is one"
all_archs=
case "$*" in
  '') ;;
  --all-archs) all_archs=yes ;;
  -h | --help) echo "$usage" && exit 0 ;;
  *) echo "$usage" >&2 && step_cure="it takes no other arguments than --all-archs" && exit 2 ;;
esac

# The architectures of this machine's GPUs, as FA_ARCHS names them; a later GPU runs the newest one's.
gpu_archs() {
  command -v nvidia-smi >/dev/null || return 0
  nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | tr -d '. ' |
    sed -E -e 's/^(90|100)$/&a/' -e '/^(75|80|86|87|89|90a|100a|103|110|120|121)$/!s/.*/120/' | sort -u | paste -s -d ';'
}

step "Looking for the compiler and the libraries of the tool" "see above"
need_packages "${build_packages[@]}"
need_cmake

kernels=(-DFA_KERNELS=off)
archs=$(gpu_archs)
if [ -n "$all_archs" ]; then
  kernels=(-DFA_KERNELS=embed)
elif [ -n "$archs" ]; then
  kernels=(-DFA_KERNELS=embed "-DFA_ARCHS=$archs")
fi
[ "${kernels[0]}" = -DFA_KERNELS=off ] || need_packages python3 python3-pip # nvcc may come from PyPI

configure_and_build release "${kernels[@]}" -DFA_BUILD_TESTS=OFF -DFA_BUILD_BENCH=OFF -DFA_BUILD_EMULATOR=OFF
fa=build/release/tools/fa

step "What libfa finds on this machine" "report the lines above together with the output of: $fa info"
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

say "Done. Next: scripts/test.sh runs every test, $fa check verifies each kernel, cmake --install build/release installs."
