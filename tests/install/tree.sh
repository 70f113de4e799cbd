#!/bin/sh
# tree.sh BUILD PREFIX TYPE: installs from the build folder elsewhere, moves the tree to PREFIX, and looks at its files.
set -eu
first=$WORK/installed
rm -rf "$first" "$2"
"$CMAKE" --install "$1" --prefix "$first" >"$WORK/install.log"
mv "$first" "$2"
cd "$2"

must() { [ -e "$1" ] || { echo "not installed: $1"; exit 1; }; }
for file in include/libfa/fa.h include/libfa/fa.hpp "$LIBDIR/pkgconfig/fa.pc" "$LIBDIR/cmake/fa/fa-config.cmake" \
  share/doc/libfa/LICENSE; do
  must "$file"
done
if [ "$3" = SHARED_LIBRARY ]; then
  must "$LIBDIR/libfa.so.0"
  [ "$(readlink "$LIBDIR/libfa/libfa.so")" = ../libfa.so.0 ] || { echo "the development link does not lead to ../libfa.so.0"; exit 1; }
fi

# The files that the header and the installed pages refer to are next to them.
for page in $(grep -ohE '\bdocs/[a-z-]+[.]md' include/libfa/* share/doc/libfa/README.md | sort -u) \
  $(grep -ohE '\]\((docs/|CHANGELOG|LICENSE|examples)[^)#]*' share/doc/libfa/README.md | cut -c3- | sort -u); do
  must "share/doc/libfa/$page"
done

# These names belong to Augeas, in the folders that both share.
for file in include/fa.h "$LIBDIR/libfa.so" "$LIBDIR/libfa.a" "$LIBDIR/libfa.so.1"; do
  if [ -e "$file" ] || [ -L "$file" ]; then
    echo "must not be installed: $file"
    exit 1
  fi
done

if grep -rlF -e "$first" -e "$SOURCE/" .; then
  echo "these files name a folder of the machine that built them"
  exit 1
fi
if [ -e bin/fa ]; then
  for file in share/man/man1/fa.1 share/bash-completion/completions/fa share/zsh/site-functions/_fa share/fish/vendor_completions.d/fa.fish; do
    must "$file"
  done
  ./bin/fa info >/dev/null || { echo "bin/fa does not run from a moved prefix"; exit 1; }
fi
