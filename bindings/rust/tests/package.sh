#!/usr/bin/env bash
# package.sh FOLDER: packages both crates as they would be published, and makes FOLDER a directory source that holds them and
# their dependencies.
set -euo pipefail
registry=$1
cd "$(dirname "${BASH_SOURCE[0]}")/.."

cargo package --workspace --no-verify --allow-dirty --quiet
rm -rf "$registry" "$registry-target" # cargo takes for granted that a registry's packages never change
cargo vendor --locked --versioned-dirs --quiet "$registry" >/dev/null
for crate in "$CARGO_TARGET_DIR"/package/{fa-sys,libfa}-*.crate; do
  bytes=$(stat -c %s "$crate")
  echo "$(basename "$crate"): $bytes bytes"
  [ "$bytes" -lt $((10 * 1024 * 1024)) ] || { echo "crates.io takes less than 10 MiB" >&2; exit 1; }
  tar -xzf "$crate" -C "$registry"
  echo '{"files":{}}' >"$registry/$(basename "$crate" .crate)/.cargo-checksum.json"
done
find "$registry"/fa-sys-*/native -type l | { ! grep . || { echo "links in the crate lead out of it" >&2; exit 1; }; }
for crate in fa-sys libfa; do
  [ -f "$(echo "$registry/$crate"-[0-9]*/LICENSE)" ] || { echo "the crate $crate has no LICENSE" >&2; exit 1; }
done
[ -f "$(echo "$registry"/fa-sys-*/native/src/api/op.cpp)" ] || { echo "the C++ sources are not in the crate" >&2; exit 1; }
