#!/usr/bin/env bash
# From a clean clone to attention computed on real input: installs what is missing, builds, runs, and says how it went.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
cd "$root"

if [ "${1:-}" = -h ] || [ "${1:-}" = --help ]; then
  echo "usage: scripts/quickstart.sh    install what is missing, build libfa and its tool, run both on real input"
  exit 0
fi

step "Looking for the compiler and the libraries of the tool" "see above"
need_packages "${build_packages[@]}"
need_cmake

configure_and_build release -DFA_BUILD_TESTS=OFF -DFA_BUILD_BENCH=OFF
fa=build/release/tools/fa

step "What libfa finds on this machine" "report the lines above with the output of: $fa info"
"$fa" info

step "Attention of all-MiniLM-L6-v2 on the Gettysburg Address: 3 packed sequences, 335 tokens, 12 heads of 32, float16" \
  "run it again with FA_VERBOSE=all, and with FA_FORCE_KERNEL=cpu.generic to see whether one kernel is at fault"
for layer in 0 5; do
  data=examples/data/layer$layer
  "$fa" run --q "${data}_q.npy" --k "${data}_k.npy" --v "${data}_v.npy" \
    --cu-seqlens-q examples/data/cu_seqlens.npy --cu-seqlens-k examples/data/cu_seqlens.npy \
    -o "build/layer${layer}_out.npy" --reference "${data}_out.npy"
done

step "The header's own example, in C" "see above"
build/release/examples/minimal

say "Done. Next: scripts/test.sh runs every test; $fa bench measures; cmake --install build/release installs."
