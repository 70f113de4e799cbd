# The Debian source package: unpacked, it is the revision and its debian/; made again, it has the same bytes.
set -eu
rm -rf "$WORK/source_package"
mkdir -p "$WORK/source_package"
cd "$WORK/source_package"
for folder in one two; do "$SOURCE/packaging/source.sh" $folder; done
(cd one && sha256sum -- *) >sums
(cd two && sha256sum -c --quiet ../sums)
[ "$(wc -l <sums)" = 3 ]

dpkg-source -x --no-check one/libfa_*.dsc unpacked
mkdir expected
git -C "$SOURCE" archive HEAD | tar x -C expected
cp -r expected/packaging/debian expected/debian
diff -r --no-dereference -x .pc expected unpacked # .pc: that no patch is applied
test -x unpacked/debian/rules
