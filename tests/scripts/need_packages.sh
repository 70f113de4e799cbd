#!/usr/bin/env bash
# Which packages scripts/lib.sh installs, as stand-ins for dpkg-query and apt-get report them: need_packages.sh SOURCE
set -euo pipefail
folder=$(mktemp -d)
cat >"$folder/dpkg-query" <<'TEXT'
#!/bin/sh
for package; do :; done
case $package in
  here) printf 'installed ' ;;
  on-two-architectures) printf 'not-installed installed ' ;;
  heard-of) printf 'not-installed ' ;; # another package names it
  half-here) printf 'half-installed ' ;;
  removed) printf 'config-files ' ;;
  *) echo "no packages found matching $package" >&2 && exit 1 ;;
esac
TEXT
printf '#!/bin/sh\necho "apt-get $*"\n' >"$folder/apt-get"
printf '#!/bin/sh\necho 0\n' >"$folder/id" # as root
chmod +x "$folder"/*
source "$1/scripts/lib.sh"
trap 'rm -r "$folder"' EXIT
PATH=$folder:$PATH
status=0

# expect LINE PACKAGE...: the last line that need_packages prints.
expect() {
  local expected=$1 printed
  shift
  printed=$(need_packages "$@" | tail -n 1)
  [ "$printed" = "$expected" ] || { echo "need_packages $*: printed '$printed', expected '$expected'" && status=1; }
}

install="apt-get install -y -qq --no-install-recommends -o Dpkg::Use-Pty=0"
expect "   all installed: here on-two-architectures" here on-two-architectures
expect "$install heard-of" here heard-of
expect "$install half-here removed unheard-of" half-here removed unheard-of

# Without root and sudo: the advice is one line that ends it, whichever command was refused.
printf '#!/bin/sh\necho 1000\n' >"$folder/id"
for program in bash dirname nproc; do ln -s "$(command -v "$program")" "$folder/$program"; done
advice="as root: apt-get update && apt-get install -y --no-install-recommends removed unheard-of"
printed=$(PATH=$folder bash -c 'source "$0/scripts/lib.sh" && need_packages here removed unheard-of' "$1" 2>&1) &&
  echo "installed without root" && status=1
[[ $printed == *"To fix it: $advice"* ]] || { echo "printed '$printed', expected '$advice'" && status=1; }
exit $status
