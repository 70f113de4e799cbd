#!/bin/sh
# readme.sh SOURCE TOOL: the commands of README.md work where they are pasted: its calls of the tool run in a checkout, on files
# that are there, and its builds name the generator that scripts/quickstart.sh has installed.
set -eu
folder=$(mktemp -d)
trap 'rm -r "$folder"' EXIT
ln -s "$1/examples" "$folder/examples"
PATH=$(dirname "$2"):$PATH
status=0
cd "$folder"
grep '^fa run' "$1/README.md" >calls
while read -r call; do
  sh -ec "$call" >out 2>&1 || { echo "README.md: $call" && cat out && status=1; }
done <calls
[ -s calls ] || { echo "README.md has no fa run" && status=1; }
if grep -n 'cmake -B' "$1/README.md" "$1/docs/gpus.md"; then
  echo "without -G Ninja: a machine that scripts/quickstart.sh prepared has no make" && status=1
fi
exit $status
