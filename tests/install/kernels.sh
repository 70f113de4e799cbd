#!/bin/sh
# kernels.sh BUILD PREFIX NVCC EMULATOR ENGINE_TESTS TOOL: a library with FA_KERNELS=file, installed in PREFIX, finds
# its images there, and names the fault of one from another build. The images are BUILD's, which a stand-in for nvcc
# hands over.
set -eu
images=$1/kernels build=$WORK/kernels prefix=$2 engine=$5 tool=$6
rm -rf "$build" "$prefix" "$prefix.moved"
mkdir -p "$build"
cat >"$build/nvcc" <<TEXT
#!/bin/sh
[ "\$1" = --version ] && exec "$3" --version
for argument; do
  case \$before in -o) out=\$argument ;; -MF) dependences=\$argument ;; esac
  before=\$argument
done
echo "\$out:" >"\$dependences"
exec cp "$images/\$(basename "\$out")" "\$out"
TEXT
chmod +x "$build/nvcc"
"$CMAKE" -S "$SOURCE" -B "$build" -DCMAKE_BUILD_TYPE=Release -DCMAKE_INSTALL_PREFIX="$prefix" -DFA_KERNELS=file -DFA_ARCHS=80 \
  -DFA_NVCC="$build/nvcc" -DFA_BUILD_TESTS=OFF -DFA_BUILD_TOOL=OFF -DFA_BUILD_BENCH=OFF -DFA_BUILD_EXAMPLES=OFF \
  -DFA_BUILD_EMULATOR=OFF -DCMAKE_CXX_FLAGS_RELEASE=-O0 >"$build/configure.log" # optimising it takes a minute
"$CMAKE" --build "$build" -j "$(nproc)" >"$build/build.log" || { cat "$build/build.log" && exit 1; }
"$CMAKE" --install "$build" >"$build/install.log"

export FA_EMU_DEVICE=sm_80 FA_EMU_QUIET=1 TEST_EMULATED=1 LD_LIBRARY_PATH="$prefix/$LIBDIR:$4"
"$engine" --gtest_brief=1 --gtest_filter='*/Checked.Dim64/f32_sm_80' # every entry point; nothing is skipped, or it is not 0

attention() { "$tool" run --device cuda --case 'b=1 sq=5 sk=9 hq=1 hkv=1 d=16 q=f32' 2>&1; }
# refused WORD...: the attention fails, and says all of these
refused() {
  if text=$(attention); then
    echo "it ran, though $1"
    exit 1
  fi
  shift
  for word; do
    case $text in *"$word"*) ;; *) echo "'$word' is not in: $text" && exit 1 ;; esac
  done
}

attention >/dev/null
image=$prefix/$LIBDIR/libfa/kernels/sm_80.simt.f32.64.fatbin
cp "$image" "$build/whole"
head -c 1000 "$build/whole" >"$image"
refused "an image is cut off" "$image is cut off" FA_KERNEL_PATH
cp "$SOURCE/emulator/tests/driver/images/select.fatbin" "$image"
refused "an image is another build's" "sm_80.simt" "another build" fa_build_
rm "$image"
refused "an image is missing" "$image cannot be opened: No such file" FA_KERNEL_PATH
cp "$build/whole" "$image"
attention >/dev/null

# The folder is compiled into the library: a tree that is moved needs FA_KERNEL_PATH.
mv "$prefix" "$prefix.moved"
export LD_LIBRARY_PATH="$prefix.moved/$LIBDIR:$4"
refused "the tree was moved" "$image cannot be opened: No such file" FA_KERNEL_PATH
FA_KERNEL_PATH=$prefix.moved/$LIBDIR/libfa/kernels attention >/dev/null
