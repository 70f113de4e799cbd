#!/usr/bin/env bash
# Writes the committed files that are generated from include/fa.h and schema/: files of the bindings. Each
# bindings/LANGUAGE/generate.sh fills a folder, which this script then copies into bindings/LANGUAGE, or with --check compares with
# the committed files.
[ -n "${BASH_VERSION:-}" ] || exec bash "$0" "$@" # it was called as: sh SCRIPT
set -euo pipefail
root=$(cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/.." && pwd)

usage() {
  cat <<'TEXT'
usage: scripts/generate-bindings.sh [--check] [LANGUAGE...]

  LANGUAGE   python, rust, julia: a folder of bindings/ that has a generate.sh; all of them when none is named
  --check    change nothing; exit status 1 where a committed file is stale

Exit status 77 where a generator's tool is missing (it says which).
TEXT
}

check=false
languages=()
while [ $# -gt 0 ]; do
  case $1 in
    -h | --help) usage && exit 0 ;;
    --check) check=true ;;
    *)
      if [ ! -f "$root/bindings/$1/generate.sh" ]; then
        echo "no language: $1 (there is no bindings/$1/generate.sh)" >&2
        exit 2
      fi
      languages+=("$1")
      ;;
  esac
  shift
done
if [ ${#languages[@]} -eq 0 ]; then
  for generator in "$root"/bindings/*/generate.sh; do
    languages+=("$(basename "$(dirname "$generator")")")
  done
fi

new=$(mktemp -d)
trap 'rm -rf "$new"' EXIT
status=0
for language in "${languages[@]}"; do
  mkdir "$new/$language"
  folder=bindings/$language
  bash "$root/bindings/$language/generate.sh" "$root/include/fa.h" "$new/$language" # 77: its tool is missing
  while read -r file; do
    target=$root/$folder/$file
    if ! $check; then
      mkdir -p "$(dirname "$target")"
      cp "$new/$language/$file" "$target"
    elif ! diff -u "$target" "$new/$language/$file"; then
      echo "stale: $folder/$file; run scripts/generate-bindings.sh $language" >&2
      status=1
    fi
  done < <(cd "$new/$language" && find . -type f -printf '%P\n' | sort)
done
exit $status
