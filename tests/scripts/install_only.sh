#!/usr/bin/env bash
# scripts/test.sh --install-only installs the needs of the presets and runs nothing, as stand-ins for dpkg-query, apt-get and
# cmake report: install_only.sh SOURCE
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -r "$folder"' EXIT
printf '#!/bin/sh\nexit 1\n' >"$folder/dpkg-query" # nothing is installed
printf '#!/bin/sh\necho "apt-get $*"\n' >"$folder/apt-get"
printf '#!/bin/sh\necho 0\n' >"$folder/id" # as root
printf '#!/bin/sh\n[ "$*" = --version ] && echo cmake version 3.25.1 && exit\necho "cmake $*" && exit 1\n' >"$folder/cmake"
chmod +x "$folder"/*
status=0

# expect ARGUMENTS PACKAGE...: these packages are installed, by the last command.
expect() {
  local printed arguments=$1 package
  shift
  # shellcheck disable=SC2086 # several words
  printed=$(PATH=$folder:$PATH bash "$source/scripts/test.sh" $arguments 2>&1) || { echo "$arguments: $printed" && status=1; }
  for package; do
    [[ "$(grep '^apt-get install' <<<"$printed") " == *" $package "* ]] || { echo "$arguments: no $package in: $printed" && status=1; }
  done
}

source=$1
expect "--install-only" g++ ninja-build libgtest-dev libbenchmark-dev libzstd-dev
expect "--install-only neon valgrind" libbenchmark-dev g++-aarch64-linux-gnu qemu-user valgrind
exit $status
