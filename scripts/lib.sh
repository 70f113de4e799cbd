# Shared by the scripts (sourced, not run): announces steps, installs Debian packages, and when something fails names the step and
# a remedy.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
jobs=${FA_JOBS:-$(nproc)}
step_name="starting"
step_advice="read the lines above"

say() { printf '\n== %s\n' "$*"; }

# step NAME ADVICE: announces a step; the advice is printed if it fails.
step() {
  step_name=$1
  step_advice=$2
  say "$step_name"
}

finish() {
  local status=$?
  [ "$status" -eq 0 ] || printf '\nFAILED (exit status %s) at the step: %s\nTo fix it: %s\n' "$status" "$step_name" "$step_advice" >&2
}
trap finish EXIT

as_root() {
  if [ "$(id -u)" -eq 0 ]; then
    "$@"
  elif command -v sudo >/dev/null; then
    echo "   (through sudo: $*)"
    sudo "$@"
  else
    echo "   this needs root, and there is no sudo here: $*" >&2
    return 1
  fi
}

# need_packages NAME...: installs those Debian packages that are missing, and says so.
need_packages() {
  local missing=() package status
  if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
    echo "   not a Debian system: install the equivalents of these packages yourself: $*"
    return
  fi
  for package in "$@"; do
    status=$(dpkg-query -W -f='${db:Status-Status} ' "$package" 2>/dev/null) || true # one word an architecture
    [[ " $status" == *" installed "* ]] || missing+=("$package")
  done
  if [ ${#missing[@]} -eq 0 ]; then
    echo "   all installed: $*"
    return
  fi
  step_advice="as root: apt-get update && apt-get install -y --no-install-recommends ${missing[*]}"
  echo "   installing from Debian: ${missing[*]}"
  as_root apt-get update -qq </dev/null
  as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends -o Dpkg::Use-Pty=0 "${missing[@]}" </dev/null
}

# need_cmake: the oldest CMake that can build this.
need_cmake() {
  local have
  have=$(cmake --version | awk 'NR == 1 { print $3 }')
  if [ "$(printf '%s\n3.24\n' "$have" | sort -V | head -n 1)" != 3.24 ]; then
    step_advice="put CMake 3.24 or newer first in PATH (found $have)"
    return 1
  fi
}

# configure_and_build PRESET [cmake arguments] [--target TARGET...]
configure_and_build() {
  local preset=$1 arguments=()
  shift
  while [ $# -gt 0 ] && [ "$1" != --target ]; do
    arguments+=("$1")
    shift
  done
  step "Configuring the preset $preset" "the CMake message above names the missing part; to start afresh: rm -r build"
  cmake --preset "$preset" "${arguments[@]}"
  step "Building the preset $preset with $jobs jobs" "the first error above; when memory ran out: FA_JOBS=1 $0; to start afresh: rm -r build"
  cmake --build --preset "$preset" -j "$jobs" "$@"
}

# The needs of building the library and the tool, and on top of them those of the tests.
build_packages=(g++ cmake ninja-build pkg-config libcli11-dev nlohmann-json3-dev libfmt-dev)
