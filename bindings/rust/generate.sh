#!/usr/bin/env bash
# generate.sh HEADER FOLDER: the bindings that fa-sys commits, by its own feature bindgen, and the optional inputs of crate libfa,
# from schema/. See scripts/generate-bindings.sh.
set -euo pipefail
header=$(realpath "$1")
mkdir -p "$2"
folder=$(realpath "$2")
cd "$(dirname "${BASH_SOURCE[0]}")"
root=$PWD/../..

PATH=$HOME/.cargo/bin:$PATH
command -v cargo >/dev/null || { echo "cargo is missing: scripts/test.sh installs it" >&2; exit 77; }
if [ -z "${LIBCLANG_PATH:-}" ] && ! /sbin/ldconfig -p | grep libclang >/dev/null && ! compgen -G '/usr/lib/llvm-*/lib/libclang*.so*' >/dev/null; then
  echo "libclang is missing (Debian: libclang-dev): scripts/test.sh installs it" >&2
  exit 77
fi
export CARGO_TARGET_DIR=${FA_BINDING_BUILD:-$PWD/../../build/bindings/rust}/target
export FA_INCLUDE_DIR
FA_INCLUDE_DIR=$(dirname "$header")
# DOCS_RS: generating needs no library. The build names the folder of its output.
out=$(DOCS_RS=1 cargo build --locked --quiet -p fa-sys --features bindgen --message-format json |
  sed -n 's/.*"reason":"build-script-executed".*fa-sys.*"out_dir":"\([^"]*\)".*/\1/p')
mkdir -p "$folder/fa-sys/src" "$folder/libfa/src"
cp "$out/bindings.rs" "$folder/fa-sys/src/bindings.rs"
python3 "$root/schema/generate.py" rust >"$folder/libfa/src/fields.rs"
mkdir -p "$folder/libfa/tests/fields"
python3 "$root/schema/generate.py" rust_tests >"$folder/libfa/tests/fields/mod.rs"
