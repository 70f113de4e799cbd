#!/usr/bin/env bash
# candle_range.sh FOLDER: both ends of the range of candle's versions that libfa's Cargo.toml allows, with FA_LIB_DIR, the folder of a
# built libfa.so. Run by hand, as it asks crates.io and builds candle twice (FOLDER keeps that for the next time):
#
#   newest    libfa's own tests of candle with the newest version
#   oldest    a project that has the oldest and no Cargo.lock, in which README.md's command leaves one candle
#
# Cargo.lock has the oldest: rust.candle tests that one with every push.
set -euo pipefail
rust=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
mkdir -p "${1:?the folder to build in}"
cd "$1"
export CARGO_TARGET_DIR=$PWD/target LD_LIBRARY_PATH=$FA_LIB_DIR FA_INCLUDE_DIR=$rust/../../include
oldest=$(sed -n '/^name = "candle-core"/,/^version/s/^version = "\(.*\)"/\1/p' "$rust/Cargo.lock")

rm -rf workspace project
mkdir workspace
cp -r "$rust"/{Cargo.toml,Cargo.lock,fa-sys,libfa,README.md} workspace
cd workspace
cargo update --quiet candle-core
newest=$(sed -n '/^name = "candle-core"/,/^version/s/^version = "\(.*\)"/\1/p' Cargo.lock)
[ "$newest" != "$oldest" ]
echo "== newest: $newest"
cargo test --quiet -p libfa --features candle --test candle
cargo test --quiet -p libfa --features candle --doc candle

echo "== oldest: $oldest"
cd ..
cargo init --quiet --vcs none --name project project
cd project
cargo add --quiet "candle-core@${oldest%.*}" --no-default-features
cargo add --quiet --path "$rust/libfa" --features candle,load-dynamic
cat >src/main.rs <<'RUST'
use candle_core::{Device, Tensor};
use libfa::{candle::Attention, DType, Op};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let op = Op::builder(DType::F32, 16).build()?;
    let q = Tensor::randn(0f32, 1., (1, 5, 2, 16), &Device::Cpu)?;
    let out: libfa::candle::candle_core::Tensor = q.apply_op3_no_bwd(&q, &q, &Attention(&op))?;
    println!("{:?} by {}", out.dims(), op.kernel());
    Ok(())
}
RUST
rm Cargo.lock # which would keep libfa at the candle that was added first
cargo generate-lockfile --quiet
if grep -q "^version = \"$newest\"" <(grep -A1 '^name = "candle-core"' Cargo.lock); then
  command=$(sed -n 's/.*`\(cargo update -p candle-core@<newest> --precise [0-9.]*\)`.*/\1/p' "$rust/libfa/README.md")
  [ -n "$command" ]
  command=${command/<newest>/$newest}
  echo "$command"
  $command --quiet
fi
[ "$(grep -c '^name = "candle-core"' Cargo.lock)" = 1 ]
FA_LIB=$FA_LIB_DIR/libfa.so cargo run --quiet | tee output.txt
grep -q '^\[1, 5, 2, 16\] by cpu' output.txt
