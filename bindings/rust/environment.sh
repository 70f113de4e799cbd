#!/usr/bin/env bash
# Fetches the requirements of the Rust tests, so that they run without a network: a toolchain where there is none (Debian's), libclang for
# bindgen, and the crates of Cargo.lock.
source "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../../scripts/lib.sh"

step "Looking for Rust and libclang" "see above"
packages=(libclang-dev pkg-config valgrind)
PATH=$HOME/.cargo/bin:$PATH
command -v cargo >/dev/null || packages+=(cargo-web rustc-web)
need_packages "${packages[@]}"
step "Fetching the crates that the Rust binding and its tests use" "check that crates.io can be reached"
cargo fetch --locked --quiet --manifest-path "$root/bindings/rust/Cargo.toml"
