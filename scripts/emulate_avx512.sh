#!/usr/bin/env bash
# Runs a program on an emulated CPU with AVX-512 and BF16: boots a small Linux in Bochs (scripts/fetch_bochs.sh), with the
# program, its libraries and the variables FA_* and TEST_* in its initial file system. Usage: emulate_avx512.sh PROGRAM [ARGUMENTS]
# Prints the program's output, and ends with its exit status; 1 where it skipped itself, for lack of a feature of this CPU.
# EMULATED_WITHOUT=avx512bf16, or another feature by Bochs' name, takes that away.
set -euo pipefail
case ${1:-} in
  -h | --help) exec sed -n '2,5s/^# //p' "$0" ;;
  '') echo "usage: emulate_avx512.sh PROGRAM [ARGUMENTS]" >&2 && exit 2 ;;
esac
bochs=$(realpath "$(dirname "$0")/../build/bochs")/root
program=$(realpath "$1")
shift

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
mkdir -p "$dir"/{ram/{bin,proc},iso/isolinux}
cp "$bochs/usr/bin/busybox" "$dir/ram/bin/"
for file in "$program" $(ldd "$program" | grep -oE '/[^ ]+\.so[^ ]*'); do
  mkdir -p "$dir/ram$(dirname "$file")"
  cp -L "$file" "$dir/ram$file"
done

{
  cat <<'TEXT'
#!/bin/busybox sh
export TERM=dumb
/bin/busybox mount -t proc proc /proc
for flag in avx512f avx512bw avx512dq avx512vl avx512_bf16; do
  /bin/busybox grep -qw "$flag" /proc/cpuinfo || lacks="$lacks $flag"
done
TEXT
  for variable in ${!FA_@} ${!TEST_@}; do printf 'export %s=%q\n' "$variable" "${!variable}"; done
  printf '[ -z "$lacks" ] &&'
  printf ' %q' "$program" "$@"
  cat <<'TEXT'

echo "== exit status $?${lacks:+: the emulated CPU lacks$lacks}"
/bin/busybox stty -echo # waits until all that is printed has left
/bin/busybox sleep 0.1
/bin/busybox reboot -f
TEXT
} >"$dir/ram/init"
chmod +x "$dir/ram/init"
(cd "$dir/ram" && find . | cpio --quiet -o -H newc | gzip -1 >../iso/initrd.gz)

# clearcpuid: Linux takes "fast short rep mov" (bit 580) for faster than all else without looking for "enhanced rep mov", which
# it switches off here, and then copies wrongly. reboot=triple ends Bochs.
cat >"$dir/iso/isolinux/isolinux.cfg" <<'TEXT'
DEFAULT linux
LABEL linux
  KERNEL /vmlinuz
  APPEND initrd=/initrd.gz console=ttyS0 loglevel=1 panic=-1 reboot=triple clearcpuid=580 nokaslr mitigations=off nosmp noapic acpi=off lpj=1000000 tsc=reliable
TEXT
cp "$bochs"/boot/vmlinuz-* "$dir/iso/vmlinuz"
cp "$bochs/usr/lib/ISOLINUX/isolinux.bin" "$bochs/usr/lib/syslinux/modules/bios/ldlinux.c32" "$dir/iso/isolinux/"
xorriso -as mkisofs -quiet -o "$dir/boot.iso" -b isolinux/isolinux.bin -c isolinux/boot.cat -no-emul-boot -boot-load-size 4 \
  -boot-info-table "$dir/iso" 2>/dev/null

# XSAVEC, XSAVES and AMX have states of sizes that Linux finds inconsistent here; it would leave AVX off.
cat >"$dir/bochsrc" <<TEXT
cpu: model=sapphire_rapids, exclude_features="xsavec,xsaves,amx,amx_int8,amx_bf16${EMULATED_WITHOUT:+,$EMULATED_WITHOUT}", ips=50000000, reset_on_triple_fault=0
megs: 512
romimage: file=$bochs/usr/share/bochs/BIOS-bochs-latest
vgaromimage: file=$bochs/usr/share/vgabios/vgabios.bin
ata0-master: type=cdrom, path=$dir/boot.iso, status=inserted
boot: cdrom
com1: enabled=1, mode=file, dev=$dir/serial
clock: sync=none, time0=1700000000
display_library: term
sound: waveoutdrv=dummy, waveindrv=dummy, midioutdrv=dummy
speaker: enabled=0
log: $dir/log
panic: action=fatal
error: action=ignore
info: action=ignore
TEXT
libraries=$bochs/usr/lib/x86_64-linux-gnu
export TERM=vt100 LTDL_LIBRARY_PATH=$libraries/bochs/plugins
timeout 1780 script -qfc "$bochs/usr/lib64/ld-linux-x86-64.so.2 --library-path $libraries:$LTDL_LIBRARY_PATH $bochs/usr/bin/bochs-bin -q -f $dir/bochsrc" \
  "$dir/screen" >/dev/null 2>&1 </dev/null || true # it ends by a triple fault

tr -d '\r' <"$dir/serial" | sed '/reboot: Restarting system/d'
status=$(sed -n 's/^== exit status \([0-9]*\).*/\1/p' "$dir/serial" | tail -n 1)
case $status in
  '')
    echo "the emulated Linux came to no end; Bochs' log and screen:" >&2
    tail -n 20 "$dir/log" "$dir/screen" >&2
    exit 1
    ;;
  77) exit 1 ;;
  *) exit "$status" ;;
esac
