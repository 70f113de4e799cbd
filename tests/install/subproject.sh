#!/bin/sh
# subproject.sh: a project that embeds libfa through FetchContent, with settings that must not change.
set -eu
build=$WORK/subproject
rm -rf "$build"
"$CMAKE" -S "$SOURCE/tests/install/subproject" -B "$build" -DFETCHCONTENT_SOURCE_DIR_FA="$SOURCE" -DCMAKE_BUILD_TYPE=Debug \
  -DCMAKE_CXX_FLAGS_DEBUG=-O0 -DFA_OPTIMISE=OFF -DFA_CCACHE=ON -DCLIENT="$SOURCE/tests/abi/client.c" \
  -DMINIMAL="$SOURCE/examples/minimal.c" # optimising it takes a minute
"$CMAKE" --build "$build" -j "$(nproc)"
"$build/client"
"$build/minimal"
