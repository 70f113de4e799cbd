#!/bin/sh
# missing_packages.sh SOURCE WORK: a build whose tests, benchmarks, tool or Python package lack something says its name, what
# installs it, and how to build without.
set -eu
status=0
for case in "GTest:libgtest-dev:TESTS" "benchmark:libbenchmark-dev:BENCH" "fmt:libfmt-dev:TOOL"; do
  package=${case%%:*} part=${case##*:} debian=${case#*:}
  debian=${debian%:*}
  rm -rf "$2"
  if "$CMAKE" -S "$1" -B "$2" -DCMAKE_DISABLE_FIND_PACKAGE_"$package"=ON -DFA_KERNELS=off -DFA_BUILD_EMULATOR=OFF \
    -DFA_BUILD_EXAMPLES=OFF >"$2.log" 2>&1; then
    echo "a build without $package was configured" && status=1
  fi
  for words in "needs* $package:" "apt install $debian" "DFA_BUILD_$part=OFF"; do
    tr -s '\n ' ' ' <"$2.log" | grep -qe "$words" || { echo "not said without $package: $words" && cat "$2.log" && status=1; }
  done
done

# The Python package as pip builds it, where Python's headers are missing.
rm -rf "$2"
"$CMAKE" -S "$1" -B "$2" -DFA_BUILD_BINDINGS=ON -DFA_BINDINGS=python -DFA_REQUIRE_BINDINGS=ON -DFA_BUILD_TESTS=OFF \
  -DFA_BUILD_TOOL=OFF -DFA_BUILD_BENCH=OFF -DFA_BUILD_EXAMPLES=OFF -DFA_BUILD_EMULATOR=OFF -DFA_KERNELS=off \
  -DPython_INCLUDE_DIR="$2/none" >"$2.log" 2>&1 && echo "Python's headers were not missed" && status=1
tr -s '\n ' ' ' <"$2.log" | grep -q "python binding: not found: Python's headers (Debian: apt install python3-dev)" ||
  { echo "not said that headers are missing" && cat "$2.log" && status=1; }
exit $status
