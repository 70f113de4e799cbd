#!/bin/sh
# c_only.sh: projects whose one language is C, which link the static library embedded, and then installed.
set -eu
build=$WORK/c_only
rm -rf "$build"
configure() {
  "$CMAKE" -S "$SOURCE/tests/install/c_only" -DCMAKE_BUILD_TYPE=Release -DCLIENT="$SOURCE/tests/abi/client.c" \
    -DMINIMAL="$SOURCE/examples/minimal.c" "$@"
}
configure -B "$build/embedded" -DFETCHCONTENT_SOURCE_DIR_FA="$SOURCE" -DFA_INSTALL=ON -DFA_CCACHE=ON \
  -DCMAKE_CXX_FLAGS_RELEASE=-O0 -DFA_OPTIMISE=OFF -DCMAKE_INSTALL_PREFIX="$build/prefix" # optimising it takes a minute
"$CMAKE" --build "$build/embedded" -j "$(nproc)"
"$build/embedded/client"
"$build/embedded/minimal"

"$CMAKE" --install "$build/embedded"
configure -B "$build/installed" -DINSTALLED=ON -DCMAKE_PREFIX_PATH="$build/prefix"
"$CMAKE" --build "$build/installed"
"$build/installed/client"
"$build/installed/minimal"
