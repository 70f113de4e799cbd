#!/usr/bin/env bash
# bare_system.sh SOURCE [FOLDER]: README.md's first commands, pasted into a Debian 12 that has nothing but git and sudo: cloning,
# building, installing, checking, attention on files, linking a C program. As root, then as a user. Needs root, debootstrap and a
# mirror of Debian, which is that of this machine's apt; takes some minutes. FOLDER keeps the system for another run.
set -euo pipefail
source=$(cd "$1" && pwd)
kept=${2:-}
folder=${kept:-$(mktemp -d)}
unshared=(unshare --mount --pid --fork --kill-child)
cleanup() {
  [ -n "$kept" ] || rm -rf --one-file-system "$folder"
}
trap cleanup EXIT

log=$(mktemp)
if [ ! -e "$folder/etc/debian_version" ]; then
  mirror=$(apt-get indextargets --format '$(RELEASE) $(COMPONENT) $(REPO_URI)' 'Created-By: Packages' |
    awk '$1 !~ /-/ && $2 == "main" && $3 ~ /\/debian\/$/ { print $3; exit }')
  [ -n "$mirror" ] || { echo "apt's sources name no mirror of Debian's main" >&2 && exit 1; }
  debootstrap --variant=minbase --include=ca-certificates,git,sudo bookworm "$folder" "$mirror" >"$log" 2>&1 ||
    { tail -n 20 "$log" && exit 1; }
  rm -f "$log"
  cp /etc/apt/apt.conf.d/*proxy* "$folder/etc/apt/apt.conf.d/" 2>/dev/null || true
  chroot "$folder" useradd --create-home --shell /bin/bash user
  echo 'user ALL=(ALL) NOPASSWD: ALL' >"$folder/etc/sudoers.d/user"
fi

# The blocks for shells, in the README's order, up to the one that links a program.
awk '/^```sh$/ { inside = 1; next } /^```$/ { if (inside) print ""; inside = 0; next } inside' "$source/README.md" |
  awk '/^cmake -G/ { exit } { print }' |
  sed -e 's|<this repository>|/srv/libfa.git|' -e 's|^cc program.c|cc -o program examples/minimal.c|' >"$folder/srv/blocks.sh"
for command in 'git clone' scripts/quickstart.sh 'fa check' 'fa run' 'cc -o program'; do
  grep -q "$command" "$folder/srv/blocks.sh" || { echo "README.md has no '$command' in its first blocks" && exit 1; }
done
rm -rf "$folder/srv/libfa.git"
git clone --quiet --bare "$source" "$folder/srv/libfa.git"
chmod -R a+rX "$folder/srv"
chroot "$folder" git config --system --replace-all safe.directory /srv/libfa.git # which is another user's to one of them

# paste USER HOME
paste() {
  echo "== README.md's commands as $1"
  rm -rf "$folder$2/libfa" "$folder/usr/local/lib/libfa"* "$folder/usr/local/bin/fa"
  "${unshared[@]}" chroot "$folder" /bin/sh -c "
    mount -t proc proc /proc
    exec su - $1 -c 'cd && bash -euxo pipefail /srv/blocks.sh && cd libfa && ./program && ls -l out.npy'"
}
paste root /root
paste user /home/user
