#!/bin/sh
# packaging/source.sh FOLDER [REVISION]: makes the Debian source package of a revision (default: HEAD) in FOLDER: the upstream
# tarball, whose bytes follow from the revision alone, libfa_VERSION-1.debian.tar.xz and libfa_VERSION-1.dsc. Needs git and dpkg-dev.
set -eu
folder=${1:?the folder to write to}
revision=${2:-HEAD}
top=$(git -C "$(dirname "$0")" rev-parse --show-toplevel)
mkdir -p "$folder"
cd "$folder"

full=$(git -C "$top" show "$revision:packaging/debian/changelog" | dpkg-parsechangelog -l - -S Version)
version=${full%-*}
tree=libfa-$version
[ ! -e "$tree" ] || { echo "$PWD/$tree is there; remove it first" >&2 && exit 1; }
git -C "$top" archive --prefix="$tree/" "$revision" | gzip -9n >"libfa_$version.orig.tar.gz"
tar xzf "libfa_$version.orig.tar.gz"
cp -r "$tree/packaging/debian" "$tree/debian" # of a link dpkg-source makes no package
dpkg-source -b "$tree"
rm -r "$tree"
