#!/bin/sh
# Configuring without GoogleTest prints a remedy. Usage: no_googletest.sh CMAKE CXX_COMPILER SOURCE FOLDER
set -eu
cmake=$1 compiler=$2 source=$3 folder=$4
rm -rf "$folder"
if said=$("$cmake" -S "$source" -B "$folder" -DCMAKE_CXX_COMPILER="$compiler" -DCMAKE_DISABLE_FIND_PACKAGE_GTest=ON 2>&1); then
  echo "it is configured without GoogleTest"
  exit 1
fi
case $(echo $said) in
  *"apt install libgtest-dev, or -DEMU_BUILD_TESTS=OFF"*) ;;
  *) echo "$said" && exit 1 ;;
esac
