#!/usr/bin/env bash
# docs_rs.sh CARGO ARGUMENTS...: the pages as docs.rs makes them: each item says which feature it needs, and the first example of
# Op is one that compiles.
set -euo pipefail
cargo=$1
shift
"$cargo" doc --quiet --locked --no-deps "$@"
pages=$CARGO_TARGET_DIR/doc/libfa
says_feature() { # PAGE FEATURE
  grep -q "Available on <strong>crate feature <code>$2</code></strong>" "$pages/$1" ||
    { echo "$1 does not say that it needs $2" >&2 && exit 1; }
}
says_feature cudarc/index.html cudarc
says_feature struct.TensorRef.html ndarray
says_feature struct.OpBuilder.html rayon
first=$(grep -o '<div class="example-wrap[^"]*"' "$pages/struct.Op.html" | head -n 1)
[ "$first" = '<div class="example-wrap"' ] || { echo "the first example of Op: $first" >&2 && exit 1; }
