#!/usr/bin/env bash
# The documentation as a site: docs/ and the pages that it links to, in build/site. Links and anchors are checked.
[ -n "${BASH_VERSION:-}" ] || exec bash "$0" "$@" # it was called as: sh SCRIPT
set -euo pipefail
source "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/lib.sh"
cd "$root"

usage() {
  cat <<'TEXT'
usage: scripts/docs.sh              builds build/site; open build/site/index.html
       scripts/docs.sh --serve      shows it at http://127.0.0.1:8000 and follows every edit
       scripts/docs.sh --to FOLDER [--tool FA]
                                    builds FOLDER, and installs nothing from Debian; drawings of masks are made by the
                                    program FA, and left out without one

The drawings are made by the newest build/*/tools/fa, which is built where there is none. With cargo, rustdoc's pages of the
crate are in build/site/rust; the first time its requirements are compiled (a minute or two).

The generator is mkdocs-material from PyPI, in ~/.cache/libfa/docs (60 MB). The exit status is 77 where it cannot be installed.
TEXT
}

site=build/site
mode=build
tool=
case ${1:-} in
  -h | --help) usage && exit 0 ;;
  --serve) mode=serve ;;
  --to)
    site=$(readlink -m "${2:?a folder}") mode=test
    [ "${3:-}" != --tool ] || tool=$(readlink -f "${4:?the program fa}")
    ;;
  "") ;;
  *)
    step_advice="use an argument that scripts/docs.sh --help lists"
    echo "unknown argument: $1" >&2
    exit 2
    ;;
esac

# unavailable REASON: no site here, which is a skipped test.
unavailable() {
  echo "skipped: $1" >&2
  exit 77
}

generator=${XDG_CACHE_HOME:-$HOME/.cache}/libfa/docs
requirements=scripts/docs/requirements.txt
mkdir -p "${generator%/*}"
exec 9>"${generator%/*}/docs.lock"
flock 9 # one installs it, others wait
if ! cmp -s "$requirements" "$generator/requirements.txt"; then
  step "Installing the site's generator into $generator" "see whether PyPI can be reached; the rest of libfa does not need it"
  if ! python3 -c 'import ensurepip, venv' 2>/dev/null; then
    [ "$mode" != test ] || unavailable "python3 has no venv (Debian: apt install python3-venv)"
    need_packages python3 python3-venv
  fi
  rm -rf "$generator"
  python3 -m venv "$generator"
  "$generator/bin/pip" install --quiet --retries 1 --disable-pip-version-check -r "$requirements" ||
    unavailable "mkdocs-material cannot be installed from PyPI"
  cp "$requirements" "$generator/requirements.txt"
fi
flock -u 9

# A tool of the sources as they are, or nearly: one that can draw.
if [ -z "$tool" ] && [ "$mode" != test ]; then
  for candidate in $(ls -t build/*/tools/fa 2>/dev/null); do
    if "$candidate" draw >/dev/null 2>&1; then
      tool=$root/$candidate
      break
    fi
  done
  if [ -z "$tool" ]; then
    step "Building the tool that draws masks, in build/docs" "see what its compiler says; docs/building.md has the requirements"
    cmake -G Ninja -B build/docs -DFA_KERNELS=off -DFA_BUILD_TESTS=OFF -DFA_BUILD_BENCH=OFF -DFA_BUILD_EXAMPLES=OFF -DFA_BUILD_EMULATOR=OFF
    cmake --build build/docs --target fa_cli
    tool=$root/build/docs/tools/fa
  fi
fi
[ -n "$tool" ] || echo "   drawings of masks are left out: no --tool"
if [ "$mode" != test ] && command -v cargo >/dev/null; then
  step "Building the Rust crate's pages" "see what cargo says; without cargo they are left out"
  features=libfa/candle,libfa/cudarc,libfa/ndarray,libfa/rayon,libfa/load-dynamic # as on docs.rs
  if cargo doc --quiet --manifest-path bindings/rust/Cargo.toml --target-dir build/docs/rust -p libfa -p fa-sys --no-deps \
    --features "$features"; then
    export FA_RUSTDOC=$root/build/docs/rust/doc
  else
    echo "   the Rust crate's pages are left out: cargo doc failed"
  fi
fi
export FA_TOOL=$tool
export NO_MKDOCS_2_WARNING=1 PYTHONDONTWRITEBYTECODE=1
if [ "$mode" = serve ]; then
  step "Serving the site" "stop whatever else listens on port 8000"
  exec "$generator/bin/mkdocs" serve --strict
fi
step "Building the site" "mend the pages that the warnings above name"
"$generator/bin/mkdocs" build --strict --site-dir "$site"
echo "   $site/index.html, $(find "$site" -name '*.html' | wc -l) pages"
