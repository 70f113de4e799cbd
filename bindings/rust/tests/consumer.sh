#!/usr/bin/env bash
# consumer.sh HOW REGISTRY [WHERE]: the first steps of a new user: an empty folder, `cargo add` of the packaged crates, the
# README's example as it is written there. HOW the library is found:
#
#   lib_dir FOLDER       FA_LIB_DIR
#   pkg_config PREFIX    fa.pc of an installation
#   vendored             the feature that builds it
#   nowhere              not at all: the build must fail, with a remedy
set -euo pipefail
how=$1
registry=$2
where=${3:-}
readme=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)/README.md

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
unset FA_LIB_DIR FA_INCLUDE_DIR LD_LIBRARY_PATH PKG_CONFIG_PATH
export PKG_CONFIG_LIBDIR=/nonexistent
export CARGO_TARGET_DIR=$registry-target # shared dependencies are compiled once; package.sh empties it
mkdir .cargo
cat >.cargo/config.toml <<TOML
[source.crates-io]
replace-with = "packaged"
[source.packaged]
directory = "$registry"
TOML
cargo init --quiet --vcs none --name consumer

features=()
case $how in
  lib_dir)
    export FA_LIB_DIR=$where
    awk '/println!.*rpath/' "$readme" >build.rs # instead of LD_LIBRARY_PATH
    grep -q DEP_FA_LIB_DIR build.rs
    ;;
  pkg_config)
    pc=$(find "$where" -name fa.pc)
    export PKG_CONFIG_PATH=${pc%/*}
    LD_LIBRARY_PATH=$(dirname "$(find "$where" -name 'libfa.so.*' | head -n 1)")
    export LD_LIBRARY_PATH
    ;;
  vendored)
    features=(--features vendored)
    export FA_CMAKE_ARGS=-DCMAKE_CXX_FLAGS_RELEASE=-O0 # as anybody may; here because optimising it takes a minute
    ;;
esac
cargo add --quiet libfa "${features[@]}"
cargo add --quiet fa-sys
awk '/^```rust$/ { on = 1; next } /^```$/ { on = 0 } on' "$readme" >src/main.rs
grep -q 'fn main' src/main.rs

if [ "$how" = nowhere ]; then
  if cargo build --quiet 2>errors.txt; then
    echo "built without the library" >&2
    exit 1
  fi
  grep 'Set FA_LIB_DIR=' errors.txt
  if FA_LIB_DIR=$folder cargo build --quiet 2>errors.txt; then
    echo "built with an empty folder for a library" >&2
    exit 1
  fi
  grep 'expected a folder that holds libfa.so' errors.txt
  exit 0
fi
cargo build --quiet
"$CARGO_TARGET_DIR/debug/consumer" | tee output.txt
grep -q '^computed by cpu\.[a-z0-9_]*: 0\.3' output.txt
if [ "$how" = vendored ] && ldd "$CARGO_TARGET_DIR/debug/consumer" | grep libfa; then
  echo "vendored, but linked to a shared library" >&2
  exit 1
fi
