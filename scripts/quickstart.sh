#!/usr/bin/env bash
# From a clean clone to attention computed on real input: installs what is missing, builds, runs, and says how it went.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
cd "$root"

if [ $# -gt 0 ]; then
  echo "usage: scripts/quickstart.sh    installs what is missing, builds libfa and its tool, runs both on real input"
  [ "$1" = -h ] || [ "$1" = --help ] || { step_cure="it takes no arguments" && exit 2; }
  exit 0
fi

step "Looking for the compiler and the libraries of the tool" "see above"
need_packages "${build_packages[@]}"
need_cmake

configure_and_build release -DFA_BUILD_TESTS=OFF -DFA_BUILD_BENCH=OFF -DFA_BUILD_EMULATOR=OFF
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
