#!/usr/bin/env bash
# Fetches Bochs 3, an emulator of x86-64 CPUs, and a small Linux for it into a folder: Debian 13's packages, unpacked and not
# installed, from this machine's own mirror of Debian. Usage: fetch_bochs.sh [FOLDER]
# FOLDER: build/bochs by default. Does nothing where they are there already.
set -euo pipefail
folder=${1:-build/bochs}
case $folder in
  -h | --help) exec sed -n '2,4s/^# //p' "$0" ;;
  -*) echo "fetch_bochs.sh takes a folder, not $folder" >&2 && exit 2 ;;
esac
if [ -f "$folder/done" ]; then exit; fi

mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Label: Debian' 'Component: main' | head -n 1)
if [ -z "$mirror" ]; then
  echo "fetch_bochs.sh: apt-get knows no mirror of Debian; run apt-get update on a Debian system" >&2
  exit 1
fi
echo "fetching Bochs and a Linux kernel (about 110 MB) from $mirror into $folder" >&2
rm -rf "$folder"
mkdir -p "$folder"
folder=$(realpath "$folder")
apt=$folder/apt
mkdir -p "$apt"/{sources,preferences.d,apt.conf.d,lists/partial,archives/partial}
echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror trixie main" >"$apt/sources/debian.list"
: >"$apt/status" # nothing is installed: every library that Bochs needs comes along
cat >"$apt/apt.conf" <<TEXT
Dir::Etc "$apt"; Dir::Etc::SourceList "/dev/null"; Dir::Etc::SourceParts "$apt/sources";
Dir::State::Lists "$apt/lists"; Dir::State::Status "$apt/status"; Dir::Cache "$apt";
APT::Architecture "amd64"; APT::Architectures { "amd64"; }; APT::Sandbox::User "root"; Acquire::Languages "none";
TEXT
export APT_CONFIG=$apt/apt.conf
apt-get -qq update
packages=(bochs bochs-term bochsbios vgabios busybox-static isolinux syslinux-common)
apt-get -qq -y --no-install-recommends --download-only install "${packages[@]}" >/dev/null
kernel=$(apt-cache depends linux-image-cloud-amd64 | awk '/Depends: linux-image/ { print $2; exit }')
(cd "$apt/archives" && apt-get -qq download "$kernel")
for package in "$apt"/archives/*.deb; do dpkg-deb --extract "$package" "$folder/root"; done
rm -rf "$apt"
touch "$folder/done"
