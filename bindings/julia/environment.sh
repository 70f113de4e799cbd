#!/usr/bin/env bash
# Installs the requirements of the Julia tests. Debian 11 (bullseye) is the last to ship Julia, 1.5.3: on a newer Debian bullseye is known
# to apt for this one command, at a low priority and from the mirror that the machine uses; its configuration stays as it is.
source "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../../scripts/lib.sh"

if [ $# -gt 0 ]; then
  echo "usage: bindings/julia/environment.sh    installs Debian's Julia 1.5.3, unless there is a julia already"
  [ "$1" = -h ] || [ "$1" = --help ] || { step_advice="it takes no arguments" && exit 2; }
  exit 0
fi

step "Looking for git, which the tests clone with" "see above"
need_packages git
step "Looking for Julia 1.5 or newer" "install Julia by hand and put julia first in PATH"
throws='try [][1] catch; println("Julia ", VERSION, " is ready") end'
if command -v julia >/dev/null && julia --startup-file=no -e "$throws"; then
  echo "   there: $(command -v julia)"
  exit 0
fi
command -v apt-get >/dev/null || { echo "   not a Debian system, and no julia in PATH" >&2 && exit 1; }

mirror=$(apt-get indextargets --format '$(RELEASE) $(COMPONENT) $(REPO_URI)' 'Created-By: Packages' |
  awk '$1 !~ /-/ && $2 == "main" && $3 ~ /\/debian\/$/ { print $3; exit }')
[ -n "$mirror" ] || { echo "   apt's sources name no mirror of Debian's main" >&2 && exit 1; }

scratch=$(mktemp -d)
trap 'status=$?; rm -rf "$scratch"; (exit $status) || finish' EXIT
chmod 755 "$scratch"
mkdir -p "$scratch/sources" "$scratch/preferences" "$scratch/lists/partial"
for file in /etc/apt/sources.list.d/*.sources /etc/apt/sources.list.d/*.list; do
  [ ! -e "$file" ] || cp "$file" "$scratch/sources"
done
for file in /etc/apt/preferences.d/*; do
  [ ! -e "$file" ] || cp "$file" "$scratch/preferences"
done
cat >"$scratch/sources/bullseye.list" <<TEXT
deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg check-valid-until=no] $mirror bullseye main
TEXT
cat >"$scratch/preferences/bullseye" <<TEXT
Package: *
Pin: release n=bullseye
Pin-Priority: 100
TEXT

step "Installing Julia 1.5.3 from bullseye" "see whether the mirror of apt's sources still has the suite bullseye"
settings=(-qq -o "Dir::Etc::SourceParts=$scratch/sources" -o "Dir::Etc::PreferencesParts=$scratch/preferences"
  -o "Dir::State::Lists=$scratch/lists" -o Dir::Cache::pkgcache= -o Dir::Cache::srcpkgcache= -o DPkg::Lock::Timeout=600)
as_root apt-get "${settings[@]}" update </dev/null
as_root env DEBIAN_FRONTEND=noninteractive apt-get "${settings[@]}" install -y --no-install-recommends julia </dev/null

# Julia 1.5 crashes in libunwind 1.6 as soon as it throws; the folder that only libjulia looks into gets the 1.3 of bullseye.
step "Giving Julia the libunwind that it was built with" "see whether bullseye still has libunwind8"
(cd "$scratch" && apt-get "${settings[@]}" download libunwind8/bullseye && dpkg-deb -x libunwind8_*.deb unwind)
libjulia=$(dpkg -L libjulia1 | grep '/libjulia[.]so[.]1$')
as_root mkdir -p "${libjulia%/*}/julia"
as_root cp -a "$(dirname "$(find "$scratch/unwind" -name libunwind.so.8)")"/libunwind.so.8* "${libjulia%/*}/julia/"
julia --startup-file=no -e "$throws"
